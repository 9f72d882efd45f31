//! Simulates a machine from the accesses of its programs to the DDR commands on its memory bus.
//!
//! ```text
//! pages       virtual addresses                       -> physical addresses
//! accesses    text, such as that of valgrind's lackey -> accesses of a program
//! cache       accesses                                -> lines that are read from memory and written to it
//! timing      a memory description                    -> distances between commands
//! controller  lines                                   -> commands, each with its clock
//! ```

pub mod accesses;
pub mod cache;
pub mod controller;
pub mod pages;
pub mod timing;
