//! Writes executed instructions and their accesses in the formats that simulators read.
//!
//! [`steps`] finds the instructions of executed blocks, and [`rounds`] splits the accesses of
//! string instructions into elements. [`cut`] passes regions on, each to a writer of its own. Each
//! other module is a format, and states what the format leaves out.

pub mod champsim;
pub mod cut;
pub mod drmemtrace;
pub mod lackey;
pub mod requests;
mod rounds;
pub mod steps;
