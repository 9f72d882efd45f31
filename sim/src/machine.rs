//! Simulates a machine from the accesses of its programs to the DDR commands on its memory bus.
//!
//! ```text
//! pages       virtual addresses                       -> physical addresses
//! accesses    text, such as that of valgrind's lackey -> accesses of a program
//! cache       accesses                                -> lines that are read from memory and written to it
//! ```

pub mod accesses;
pub mod cache;
pub mod pages;
