//! The items of a trace, and its counts, to text that people and programs read.
//!
//! One file for each format; [`Context`] holds what they share: the little that must be remembered
//! from the card's last report to name a tag's address or a slice's length.

pub mod analysis;
pub mod capture;
mod context;
pub mod csv;
mod digits;
mod gap;
pub mod info;
pub mod jsonl;
pub mod memory;
pub mod summary;
pub mod text;

use std::io::{self, Write};

pub use context::Context;

use crate::decode::Item;

/// Writes the items of one card's trace.
pub trait Format {
    /// Writes what comes before the first item.
    fn start(&mut self, output: &mut dyn Write) -> io::Result<()>;

    /// Writes that the items to come are of another card than those before. `interface`: where it is.
    fn card(
        &mut self,
        number: usize,
        interface: Option<&str>,
        output: &mut dyn Write,
    ) -> io::Result<()>;

    /// Writes one item.
    fn item(&mut self, item: &Item, output: &mut dyn Write) -> io::Result<()>;
}
