//! Fuzz targets, guided by coverage, for everything that parses untrusted bytes.
//!
//! Each module of [`targets`] takes an input and panics if the code under test panics, or if its result differs from
//! that of a simple model.

pub mod plain;
pub mod script;
pub mod seeds;
pub mod targets;
