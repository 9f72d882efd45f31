//! Bytes that nobody vouches for, from a coverage-guided fuzzer, to everything that reads such bytes.
//!
//! Each module of [`targets`] takes an input and panics if what is under test does, or says something
//! that a plain reading contradicts.

pub mod plain;
pub mod script;
pub mod seeds;
pub mod targets;
