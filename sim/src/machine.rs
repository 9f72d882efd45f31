//! Simulates a machine from the accesses of its programs to the DDR commands on its memory bus.
//!
//! ```text
//! pages       virtual addresses                       -> physical addresses
//! ```

pub mod pages;
