//! Reads the accesses that other programs have recorded, one access at a time, in the order of the
//! file.
//!
//! ```text
//! file -> text: a line at a time      -> a parser for each format ---.
//!         records: a record at a time -> ChampSim, oracleGeneral -----+-> ImportedAccess
//!         packets: a message at a time -> gem5 -----------------------+
//!         perf_data: all records -> samples, sorted ------------------'
//! ```
//!
//! A value that a format does not state is absent and never guessed. [`Contents`] names the values
//! that a format states, and [`ImportedReader::notes`] names further limits of the results.
//! Invariant: a line or record that is not understood is an error with its line number or offset.
//! Time is linear in the file. The use of memory is limited to a line, record or message; for a
//! recording of perf it is linear in the number of samples.

mod format;
mod objects;
mod packets;
mod perf_data;
mod records;
mod refused;
mod samples;
mod text;

use std::collections::VecDeque;
use std::io::BufRead;

use hmtt_format::Direction;

use crate::table::TableError;
pub use format::{Contents, ImportedAddresses, ImportedFormat};
use packets::PacketReader;
use perf_data::PerfDataReader;
use records::{RecordParser, RecordReader};
pub use refused::{DAMON, is_damon};
use text::{Parser, TextReader};

/// Number of first bytes that [`ImportedFormat::of`] needs.
pub const BEGIN_BYTES: usize = 4096;
/// Sentence on results from samples, which are never complete.
const SAMPLES: &str =
    "accesses were sampled: most of them are missing, and numbers are those of the samples";

/// An access in the recording of another program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ImportedAccess {
    /// Time of the access, in the unit of the format; 0 if the format has no times.
    pub clock: u64,
    /// Number of the thread; 0 if the format has no threads.
    pub thread: u32,
    /// Address of the instruction; 0 if it is not known.
    pub pc: u64,
    /// Whether the access reads or writes.
    pub direction: Direction,
    /// Address of the access; [`Contents::addresses`] states its kind.
    pub address: u64,
    /// Size in bytes; 0 if it is not known.
    pub size: u32,
}

impl ImportedAccess {
    /// An access with a direction and an address, and no other values.
    const fn new(direction: Direction, address: u64) -> Self {
        ImportedAccess { clock: 0, thread: 0, pc: 0, direction, address, size: 0 }
    }
}

impl ImportedFormat {
    /// Recognises the format of a file by its first bytes. Returns `None` if no format fits. A CSV
    /// file of libCacheSim is recognised only by its heading. A trace of instructions for Ramulator
    /// is recognised only if it has lines with and lines without a write.
    pub fn of(begin: &[u8]) -> Option<ImportedFormat> {
        if begin.starts_with(&packets::MAGIC) {
            return Some(ImportedFormat::Gem5);
        }
        if begin.starts_with(&perf_data::MAGIC) {
            return Some(ImportedFormat::PerfData);
        }
        text::format_of(begin).or_else(|| records::format_of(begin))
    }

    /// Selects one of the formats that share a name: requests or instructions for Ramulator, CSV or
    /// binary records of libCacheSim, text or recording of perf. `begin`: first bytes of the file.
    pub fn resolve(self, begin: &[u8]) -> ImportedFormat {
        let first = begin.trim_ascii_start().first();
        match self {
            ImportedFormat::Ramulator
                if first.is_some_and(u8::is_ascii_digit) && !begin.starts_with(b"0x") =>
            {
                ImportedFormat::RamulatorInstructions
            }
            ImportedFormat::Perf if begin.starts_with(&perf_data::MAGIC) => {
                ImportedFormat::PerfData
            }
            // Binary records contain zero bytes in sizes and numbers. Text contains none.
            ImportedFormat::LibCacheSim if begin.contains(&0) => ImportedFormat::OracleGeneral,
            other => other,
        }
    }
}

/// Reads the accesses of a file.
///
/// ```
/// # fn main() -> Result<(), hmtt::table::TableError> {
/// use hmtt::imported::{ImportedFormat, ImportedReader};
///
/// let text = "I  00401000,3\n S 1ffefffe50,8\n";
/// assert_eq!(ImportedFormat::of(text.as_bytes()), Some(ImportedFormat::Lackey));
/// let mut reader = ImportedReader::new(ImportedFormat::Lackey, text.as_bytes());
/// let access = reader.next_access()?.expect("there is an access");
/// assert_eq!((access.address, access.size, access.pc), (0x1f_feff_fe50, 8, 0x40_1000));
/// assert_eq!(reader.next_access()?, None);
/// # Ok(())
/// # }
/// ```
pub struct ImportedReader<R> {
    format: ImportedFormat,
    content: Content<R>,
    waiting: VecDeque<ImportedAccess>,
    /// The error that has ended reading. It is returned after the accesses in `waiting`.
    error: Option<TableError>,
}

/// The reader of the file: by lines, by records, by messages, or of a whole recording.
enum Content<R> {
    Text(TextReader<R>),
    Records(RecordReader<R>),
    Packets(PacketReader<R>),
    PerfData(PerfDataReader<R>),
}

impl<R: BufRead> ImportedReader<R> {
    /// Creates a reader. Nothing is read yet.
    pub fn new(format: ImportedFormat, input: R) -> Self {
        let content = if let Some(parser) = Parser::new(format) {
            Content::Text(TextReader::new(parser, input))
        } else if let Some(parser) = RecordParser::new(format) {
            Content::Records(RecordReader::new(parser, input))
        } else if format == ImportedFormat::PerfData {
            Content::PerfData(PerfDataReader::new(input))
        } else {
            Content::Packets(PacketReader::new(input))
        };
        ImportedReader { format, content, waiting: VecDeque::new(), error: None }
    }

    /// Reads the next access; `None` at the end of the file. After an error nothing more can be
    /// read.
    ///
    /// # Errors
    /// [`TableError`]: the file cannot be read, or a line or record is not understood.
    pub fn next_access(&mut self) -> Result<Option<ImportedAccess>, TableError> {
        loop {
            if let Some(access) = self.waiting.pop_front() {
                return Ok(Some(access));
            }
            if let Some(error) = self.error.take() {
                return Err(error);
            }
            let has_more = match &mut self.content {
                Content::Text(reader) => reader.advance(&mut self.waiting),
                Content::Records(reader) => reader.advance(&mut self.waiting),
                Content::Packets(reader) => reader.advance(&mut self.waiting),
                Content::PerfData(reader) => reader.advance(&mut self.waiting),
            };
            match has_more {
                Ok(true) => {}
                Ok(false) => return Ok(self.waiting.pop_front()),
                Err(error) => self.error = Some(error),
            }
        }
    }

    /// Sentences on the limits of the results, as far as they are known after the accesses read so
    /// far.
    pub fn notes(&self) -> Vec<String> {
        match &self.content {
            Content::Text(reader) => reader.notes(),
            Content::Records(reader) => reader.notes(),
            Content::Packets(reader) => reader.notes(),
            Content::PerfData(reader) => reader.notes(),
        }
    }

    /// The values that the file states for each access. Complete after the first access was read.
    pub fn contents(&self) -> Contents {
        let contents = self.format.contents();
        match &self.content {
            Content::Packets(reader) => Contents { tck_ps: reader.tck_ps(), ..contents },
            _ => contents,
        }
    }

    /// Sentences on accesses that are missing in the file, as far as this is known after the
    /// accesses read so far.
    pub fn missing(&self) -> Vec<String> {
        let samples = self.format.contents().are_samples.then(|| SAMPLES.to_owned());
        let packets = match &self.content {
            Content::Packets(reader) => reader.missing(),
            _ => None,
        };
        samples.into_iter().chain(packets).collect()
    }
}

#[cfg(test)]
mod tests;
