//! Contains a fuzz target for each parser of untrusted bytes. In `make fuzz` libFuzzer chooses the
//! inputs by coverage.
//!
//! Each module of [`targets`] takes an input. It panics if the code under test panics, or if the
//! result of this code differs from the result of a simple model.

pub mod mutations;
pub mod plain;
pub mod script;
pub mod seeds;
pub mod targets;
