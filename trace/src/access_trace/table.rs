//! Writes and reads accesses of programs as tables. Each access is a row. The rows of a thread are
//! in program order.
//!
//! | column | |
//! |---|---|
//! | `thread` | number of the thread in the system |
//! | `pc` | address of the instruction |
//! | `direction` | `R` or `W`; in Parquet `is_write` |
//! | `address` | virtual address of the first byte, or of the first element; nothing if it is not known |
//! | `size_bytes` | number of bytes of the access, or of one element if there are several elements; 0 if it is not known |
//! | `elements` | number of elements of a string instruction, and otherwise 1 |
//! | `downwards` | whether each element is at a lower address than the one before it |
//! | `conditional` | whether memory may not have been accessed |
//! | `represents` | number of executed accesses that this row stands for: the accesses of the block or superblock to this address, of which only one has a row; 0 if it is not known, because accesses were sampled |
//! | `function` | name of the function; nothing if it is not known |
//! | `object` | path of the function's file; nothing if it is not known |
//!
//! Addresses are hexadecimal in text. Each format is one submodule.

pub mod csv;
pub mod jsonl;
#[cfg(feature = "parquet")]
pub mod parquet;
pub mod reader;

use hmtt_files::access_trace::{Function, Made};
use hmtt_format::Direction;

use super::visitor::Executed;
use crate::table::TableError;

/// A writer of accesses in one format.
pub trait AccessWriter {
    /// Writes an access that a block has made.
    ///
    /// # Errors
    /// [`TableError`]: the file cannot be written.
    fn access(&mut self, executed: &Executed<'_>, access: &Made) -> Result<(), TableError>;

    /// Completes the file.
    ///
    /// # Errors
    /// [`TableError`]: the file cannot be written.
    fn finish(self: Box<Self>) -> Result<(), TableError>;
}

/// The letter of a direction in text formats.
fn letter(direction: Direction) -> char {
    if direction == Direction::Write { 'W' } else { 'R' }
}

/// Name of a function and path of its file. Each is `None` if it is not known or empty.
fn names(function: Option<&Function>) -> [Option<&str>; 2] {
    let names = function.map(|function| [&*function.name, &*function.path]);
    names.map_or([None; 2], |names| names.map(|name| Some(name).filter(|name| !name.is_empty())))
}

/// The text of a function in one format, kept as long as accesses belong to the same function.
struct Kept<T> {
    /// Number of the function; 0 for no known function.
    number: u32,
    text: T,
}

impl<T: Default> Default for Kept<T> {
    fn default() -> Self {
        Kept { number: 0, text: T::default() }
    }
}

impl<T> Kept<T> {
    /// The text of the function of a block. `make` makes it from name and path if the function is
    /// new.
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
