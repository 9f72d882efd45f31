//! Writes traces as tables of rows, and reads such tables.
//!
//! ```text
//! capture -> decode -> Items -.              .-> Parquet
//! Parquet, CSV, JSON lines ----> Row -> Writer -> CSV, JSON lines, text
//! HMTT's 6-byte records ------'              '-> HMTT's 6-byte records
//! ```
//!
//! A [`Row`] is complete in itself: it includes the values that can be computed only with the
//! card's last report (the address of a tag, the length of a slice). Each format is one submodule,
//! with its writer and its reader. Invariant: the file contains every row, or the writer counts the
//! rows and values that it left out ([`LeftOut`]).

mod access_line;
mod card;
mod card_changes;
mod context;
pub mod csv;
pub mod hmtt6;
mod items;
mod json_object;
pub mod jsonl;
pub(crate) mod lines;
mod notation;
#[cfg(feature = "parquet")]
pub mod parquet;
pub mod requests;
mod row;
pub mod text;

use std::fmt;

use crate::decode::Accesses;
use crate::identity::CardId;
pub use card::Card;
pub use items::Items;
pub use json_object::object;
pub use row::{Entry, Row};

/// Why a table could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum TableError {
    /// The file could not be read or written.
    #[error(transparent)]
    File(#[from] std::io::Error),
    /// A line that is not a valid row.
    #[error("line {line}: {problem}")]
    Line {
        /// Number of the line, from 1.
        line: u64,
        /// The problem found, and what was expected instead.
        problem: String,
    },
    /// A binary record that is not a valid row.
    #[error("offset {offset}: {problem}")]
    Record {
        /// Offset of the record in the file, in bytes.
        offset: u64,
        /// The problem found, and what was expected instead.
        problem: String,
    },
    /// A row of a Parquet file that is not valid.
    #[error("row {row}: {problem}")]
    Row {
        /// Number of the row, from 0.
        row: u64,
        /// The problem found, and what was expected instead.
        problem: String,
    },
    /// A clock that the format cannot represent.
    #[error("clock {0} is beyond 2^63: Parquet tables have signed clocks")]
    Clock(u64),
    /// A file that is not a table of a trace. Holds the reason.
    #[error("{0}")]
    Schema(String),
    /// An error of the Parquet library.
    #[cfg(feature = "parquet")]
    #[error(transparent)]
    Parquet(#[from] ::parquet::errors::ParquetError),
}

/// A writer of a table in one format.
///
/// Rows are written one by one, and accesses also in columns. [`Writer::finish`] completes the file
/// and returns counts of the rows and values that the format cannot represent.
///
/// ```
/// # fn main() -> Result<(), hmtt::table::TableError> {
/// use hmtt::CardId;
/// use hmtt::table::{Entry, Row, Writer, csv::CsvWriter};
/// use hmtt_format::event::MarkRegister;
/// use hmtt_format::{Cycles, Event};
///
/// let mut file = Vec::new();
/// let mut writer: Box<dyn Writer + '_> = Box::new(CsvWriter::new(&mut file)?);
/// let mark = Event::Mark { clock: Cycles(7), register: MarkRegister(0x60) };
/// writer.row(&Row { card: CardId(0), entry: Entry::Event(mark) })?;
/// assert!(writer.finish()?.is_nothing());
/// assert!(file.ends_with(b"mark,7,,,,,,0x60 kernel_enter\n"));
/// # Ok(())
/// # }
/// ```
pub trait Writer {
    /// Writes one row.
    ///
    /// # Errors
    /// [`TableError`]: the file cannot be written, or the format cannot represent the row's clock.
    fn row(&mut self, row: &Row) -> Result<(), TableError>;

    /// Writes accesses of one card. Some formats do this faster than row by row.
    ///
    /// # Errors
    /// As [`Writer::row`].
    fn accesses(&mut self, card: CardId, accesses: Accesses<'_>) -> Result<(), TableError> {
        accesses.iter().try_for_each(|access| self.row(&Row { card, entry: access.into() }))
    }

    /// Stores the description of a card. Formats without a place for it ignore it.
    fn card(&mut self, _card: CardId, _description: Card) {}

    /// Stores the name of a card's interface. Must be called before the card's rows are written.
    /// Formats without a place for it ignore it.
    fn interface(&mut self, _card: CardId, _name: &str) {}

    /// States that all rows are of this card, so that the file need not name it.
    fn only(&mut self, _card: CardId) {}

    /// Completes the file, and returns counts of the rows and values that the format could not
    /// represent.
    ///
    /// # Errors
    /// [`TableError`]: the file cannot be written.
    fn finish(self: Box<Self>) -> Result<LeftOut, TableError>;
}

/// A reader of a table in one format.
///
/// ```
/// # fn main() -> Result<(), hmtt::table::TableError> {
/// use hmtt::table::{Reader, csv::CsvReader};
///
/// let mut reader = CsvReader::new("clock,direction,address\n347,R,150e7080\n".as_bytes())?;
/// let row = reader.next_row()?.expect("there is a row");
/// assert_eq!(row.entry.clock().map(|clock| clock.0), Some(347));
/// assert_eq!(reader.next_row()?, None);
/// # Ok(())
/// # }
/// ```
pub trait Reader {
    /// Reads the next row; `None` at the end. After an error, nothing more can be read.
    ///
    /// # Errors
    /// [`TableError`]: the file cannot be read, or its next row is not valid. The error states the
    /// line, the row or the offset.
    fn next_row(&mut self) -> Result<Option<Row>, TableError>;

    /// The name of a card's interface, if the part of the file that was read names it.
    fn interface(&self, _card: CardId) -> Option<&str> {
        None
    }
}

/// Counts of the rows and values that a format could not represent, each with a description.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LeftOut(pub Vec<(&'static str, u64)>);

impl LeftOut {
    /// Whether all counts are 0.
    pub fn is_nothing(&self) -> bool {
        self.0.iter().all(|(_, count)| *count == 0)
    }
}

/// Prints the counts that are not 0, as in `3 marks, 1 gaps`.
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
