//! Writes executed instructions and their accesses in the formats that simulators read.
//!
//! [`steps`] finds the instructions of executed blocks, and [`rounds`] splits those that access
//! strings. Each other module is a format, and states what it leaves out. [`cut`] passes regions
//! on, each to a format's writer of its own.

pub mod champsim;
pub mod cut;
pub mod drmemtrace;
pub mod lackey;
pub mod requests;
mod rounds;
pub mod steps;
