//! Adds tags to running x86-64 programs, so that a memory trace can be attributed to functions.
//!
//! [`address`] has the types of addresses. [`elf`] finds the functions of a program file,
//! [`selection`] chooses among them, and [`disassembly`] decides which of their instructions can be
//! replaced by jumps. [`stubs`] generates the code that the jumps lead to, and [`unwind`] its
//! unwind tables. [`ptrace`] stops a live process and reads and writes it. [`control`] uses all of
//! these to add and remove the tags. [`pages`] records which frames of physical memory processes
//! have. [`sanitizer`] recognises programs that look for leaks.

#![deny(clippy::missing_errors_doc)]

pub mod address;
pub mod control;
pub mod disassembly;
pub mod elf;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
pub mod pages;
pub mod ptrace;
mod ranges;
mod regular_file;
pub mod sanitizer;
pub mod selection;
pub mod stubs;
pub mod unwind;
