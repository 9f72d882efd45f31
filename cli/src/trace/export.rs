//! Writes executed instructions and their accesses in the formats that simulators read.
//!
//! [`steps`] finds the instructions of executed blocks, and [`rounds`] splits those that access strings. Each other module is a
//! format, and states what it leaves out.

pub mod champsim;
pub mod drmemtrace;
pub mod lackey;
pub mod requests;
mod rounds;
pub mod steps;
