//! Writes the accesses of programs as tables: a row for each access, in the order of each thread.
//!
//! | column | |
//! |---|---|
//! | `thread` | number of the thread in the system |
//! | `pc` | address of the instruction |
//! | `direction` | `R` or `W`; in Parquet `is_write` |
//! | `address` | virtual address of the first byte, or of the first element's; nothing if it is not known |
//! | `size_bytes` | number of bytes, of one element if there are several; 0 if it is not known |
//! | `elements` | number of elements of a string instruction, and otherwise 1 |
//! | `downwards` | whether each element is at a lower address than the one before it |
//! | `conditional` | whether memory may not have been accessed |
//! | `represents` | number of executed accesses of the block or superblock with this address, of which this one is recorded; otherwise 1; 0 if it is not known, because accesses were sampled |
//! | `function` | name of the function; nothing if it is not known |
//! | `object` | path of the function's file; nothing if it is not known |
//!
//! Addresses are hexadecimal in text. Each format is one submodule.

pub mod csv;
pub mod jsonl;
#[cfg(feature = "parquet")]
pub mod parquet;
pub mod reader;

use hmtt_format::Direction;
use hmtt_format::access_trace::{Function, Made};

use super::visitor::Executed;
use crate::table::TableError;

/// A writer of accesses in one format.
pub trait AccessWriter {
    /// Writes an access that a block has made.
    ///
    /// # Errors
    /// [`TableError`]: the file cannot be written.
    fn access(&mut self, executed: &Executed<'_>, made: &Made) -> Result<(), TableError>;

    /// Completes the file.
    ///
    /// # Errors
    /// [`TableError`]: the file cannot be written.
    fn finish(self: Box<Self>) -> Result<(), TableError>;
}

fn letter(direction: Direction) -> char {
    if direction == Direction::Write { 'W' } else { 'R' }
}

/// Name of a function and path of its file, as far as they are known.
fn names(function: Option<&Function>) -> [Option<&str>; 2] {
    let names = function.map(|function| [&*function.name, &*function.path]);
    names.map_or([None; 2], |names| names.map(|name| Some(name).filter(|name| !name.is_empty())))
}

/// What a format writes for a function, kept until another function is next.
struct Kept<T> {
    /// Number of the function.
    number: u32,
    text: T,
}

impl<T: Default> Default for Kept<T> {
    fn default() -> Self {
        Kept { number: 0, text: T::default() }
    }
}

impl<T> Kept<T> {
    fn of(&mut self, executed: &Executed<'_>, make: impl FnOnce([Option<&str>; 2]) -> T) -> &T {
        if self.number != executed.block.function {
            self.number = executed.block.function;
            self.text = make(names(executed.function));
        }
        &self.text
    }
}

#[cfg(test)]
mod tests;
