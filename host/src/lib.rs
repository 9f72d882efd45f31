//! The receiver: frames of a card on an interface to a capture, with every loss counted.
//!
//! ```text
//! interface -> capture -> receive -> files
//!                            '-----> online
//! ```
//!
//! Invariants: [`capture`] knows no analysis and `hmtt::decode` knows no sockets; [`receive`] joins them.
//! Whatever the wire holds, nothing here panics, and what was lost is data, not an error.

pub mod arguments;
pub mod capture;
pub mod files;
pub mod online;
pub mod receive;
