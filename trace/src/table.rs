//! Traces as rows: items of a capture to tables in files, and tables to other tables.
//!
//! ```text
//! capture -> decode -> Items -.              .-> Parquet
//! Parquet, CSV, JSON lines ----> Row -> Writer -> CSV, JSON lines, text
//! HMTT's 6-byte records ------'              '-> HMTT's 6-byte records
//! ```
//!
//! A [`Row`] stands for itself: what an item means only beside the card's last report (the address of
//! a tag, the length of a slice) it holds. One file for each format, its writer and its reader side by
//! side. Invariant: a format holds every row, or its writer counts what it left out ([`LeftOut`]).

mod card;
mod context;
pub mod csv;
mod digits;
pub mod hmtt6;
mod items;
pub mod jsonl;
mod lines;
mod members;
pub mod parquet;
mod printed;
mod row;
pub mod text;
mod turns;

use std::fmt;

use crate::decode::Accesses;
pub use card::Card;
pub use items::Items;
pub use row::{Entry, Row};

/// Why a table could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum TableError {
    /// The file.
    #[error(transparent)]
    File(#[from] std::io::Error),
    /// A line that makes no sense.
    #[error("line {line}: {problem}")]
    Line {
        /// From 1.
        line: u64,
        /// What is wrong, and what was expected.
        problem: String,
    },
    /// A record that makes no sense.
    #[error("offset {offset}: {problem}")]
    Record {
        /// In bytes.
        offset: u64,
        /// What is wrong, and what was expected.
        problem: String,
    },
    /// A row of a Parquet file that makes no sense.
    #[error("row {row}: {problem}")]
    Row {
        /// From 0.
        row: u64,
        /// What is wrong, and what was expected.
        problem: String,
    },
    /// A clock that the format cannot hold.
    #[error("clock {0} is beyond 2^63: Parquet tables have signed timestamps")]
    Clock(u64),
    /// A file that is not such a table.
    #[error("{0}")]
    Schema(String),
    /// A Parquet file as such.
    #[error(transparent)]
    Parquet(#[from] ::parquet::errors::ParquetError),
}

/// Writes a table.
pub trait Writer {
    /// Writes one row.
    fn row(&mut self, row: &Row) -> Result<(), TableError>;

    /// Writes accesses of one card, the fast way where there is one.
    fn accesses(&mut self, capture: u32, accesses: Accesses<'_>) -> Result<(), TableError> {
        accesses
            .iter()
            .try_for_each(|access| self.row(&Row { capture, entry: Entry::Access(access) }))
    }

    /// Takes note of what a card says of itself, for formats with room for it.
    fn card(&mut self, _capture: u32, _card: Card) {}

    /// Takes note of the interface that a card is on, before its rows.
    fn interface(&mut self, _capture: u32, _name: &str) {}

    /// All rows will be of this card, so that it need not be named.
    fn only(&mut self, _capture: u32) {}

    /// Completes the file and says what it could not hold.
    fn finish(self: Box<Self>) -> Result<LeftOut, TableError>;
}

/// Reads a table.
pub trait Reader {
    /// The next row; `None` at the end. After an error nothing more can be read.
    fn next_row(&mut self) -> Result<Option<Row>, TableError>;

    /// The interface that a card is on, as far as was read.
    fn interface(&self, _capture: u32) -> Option<&str> {
        None
    }
}

/// What a format could not hold: how many of what.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LeftOut(pub Vec<(&'static str, u64)>);

impl LeftOut {
    /// Whether the file holds everything.
    pub fn is_nothing(&self) -> bool {
        self.0.iter().all(|(_, count)| *count == 0)
    }
}

/// `3 marks, 1 gaps`
impl fmt::Display for LeftOut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let present = self.0.iter().filter(|(_, count)| *count != 0);
        for (index, (what, count)) in present.enumerate() {
            let separator = if index == 0 { "" } else { ", " };
            write!(f, "{separator}{count} {what}")?;
        }
        Ok(())
    }
}
