//! Captures the frames of cards from network interfaces into pcapng files, and counts every loss.
//!
//! ```text
//! interface -> capture -> receive -> files
//!                            '-----> online
//! ```
//!
//! [`capture`] reads frames, [`receive`] checks and counts them, [`files`] writes them, and
//! [`online`] displays a running capture.
//!
//! Invariants: [`capture`] does not decode, and `hmtt::decode` does not use sockets; [`receive`]
//! connects them. No input from the wire makes this crate panic. A loss is counted and reported; it
//! is not an error.

#![deny(clippy::missing_errors_doc)]

pub mod arguments;
pub mod capture;
pub mod files;
pub mod online;
pub mod receive;
