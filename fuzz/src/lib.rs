//! Fuzz targets for everything that parses untrusted bytes. In `make fuzz` libFuzzer chooses their
//! inputs by coverage.
//!
//! Each module of [`targets`] takes an input and panics if the code under test panics, or if its
//! result differs from that of a simple model.

pub mod mutations;
pub mod plain;
pub mod script;
pub mod seeds;
pub mod targets;
