//! Reads binary formats whose records all have the same number of bytes.
//!
//! These formats have no magic number. A format is recognised by conditions that the first records
//! of a file must fulfil, so that files of other formats are not mistaken for it. Invariant: an
//! impossible record, and a file that ends within a record, are errors with their offset.

mod champsim;
mod oracle;

use std::collections::VecDeque;
use std::io::{self, BufRead, Read};

use super::{BEGIN_BYTES, ImportedAccess, ImportedFormat};
use crate::table::TableError;
use champsim::ChampSim;
use oracle::OracleGeneral;

/// Bytes of the longest record of all formats.
const MOST_BYTES: usize = 64;

/// The parser for the records of a format.
pub enum RecordParser {
    ChampSim(ChampSim),
    OracleGeneral(OracleGeneral),
}

impl RecordParser {
    /// Creates the parser of a format; `None` if the format has no such records.
    pub fn new(format: ImportedFormat) -> Option<Self> {
        match format {
            ImportedFormat::ChampSim => Some(RecordParser::ChampSim(ChampSim::default())),
            ImportedFormat::OracleGeneral => {
                Some(RecordParser::OracleGeneral(OracleGeneral::default()))
            }
            _ => None,
        }
    }

    /// Bytes of a record.
    const fn bytes(&self) -> usize {
        match self {
            RecordParser::ChampSim(_) => champsim::RECORD_BYTES,
            RecordParser::OracleGeneral(_) => oracle::RECORD_BYTES,
        }
    }

    /// Parses a record, and adds its accesses to `add`. The error is a text that says why the
    /// record is impossible.
    fn record(&mut self, bytes: &[u8], add: &mut VecDeque<ImportedAccess>) -> Result<(), String> {
        match (self, bytes.first_chunk(), bytes.first_chunk()) {
            (RecordParser::ChampSim(parser), Some(record), _) => parser.record(record, add),
            (RecordParser::OracleGeneral(parser), _, Some(record)) => parser.record(record, add),
            _ => Err("is cut".to_owned()),
        }
    }

    fn notes(&self) -> Vec<String> {
        match self {
            RecordParser::ChampSim(parser) => parser.notes(),
            RecordParser::OracleGeneral(parser) => parser.notes(),
        }
    }
}

/// Recognises a format with such records by the first bytes of a file; `None` if no format fits.
pub fn format_of(begin: &[u8]) -> Option<ImportedFormat> {
    let is_whole = begin.len() < BEGIN_BYTES;
    let fits = |bytes: usize| !is_whole || begin.len().is_multiple_of(bytes);
    if fits(champsim::RECORD_BYTES) && champsim::are_records(begin) {
        return Some(ImportedFormat::ChampSim);
    }
    let is_oracle = fits(oracle::RECORD_BYTES) && oracle::are_records(begin);
    is_oracle.then_some(ImportedFormat::OracleGeneral)
}

/// Reads a file record by record.
pub struct RecordReader<R> {
    input: R,
    parser: RecordParser,
    /// Offset of the next record in the file.
    offset: u64,
}

impl<R: BufRead> RecordReader<R> {
    pub fn new(parser: RecordParser, input: R) -> Self {
        RecordReader { input, parser, offset: 0 }
    }

    /// Reads a record, and adds its accesses to `add`. Returns `false` at the end of the file.
    ///
    /// # Errors
    /// [`TableError`]: the file cannot be read, ends within a record, or has an impossible record.
    pub fn advance(&mut self, add: &mut VecDeque<ImportedAccess>) -> Result<bool, TableError> {
        let (bytes, offset) = (self.parser.bytes(), self.offset);
        let mut record = [0; MOST_BYTES];
        let read = read_up_to(&mut self.input, &mut record[..bytes])?;
        if read == 0 {
            return Ok(false);
        }
        let failed = |problem| TableError::Record { offset, problem };
        if read < bytes {
            return Err(failed(format!("the file ends within a record of {bytes} bytes")));
        }
        self.parser.record(&record[..bytes], add).map_err(failed)?;
        self.offset += bytes as u64;
        Ok(true)
    }
}

impl<R> RecordReader<R> {
    /// Sentences on the limits of the results.
    pub fn notes(&self) -> Vec<String> {
        self.parser.notes()
    }
}

/// Fills a buffer. Returns fewer bytes only at the end of the input.
fn read_up_to(input: &mut impl Read, buffer: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match input.read(&mut buffer[filled..]) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

/// The little-endian number at a byte offset of a record; 0 beyond its end.
fn u64_at(record: &[u8], offset: usize) -> u64 {
    let bytes = record.get(offset..).and_then(<[u8]>::first_chunk);
    bytes.map_or(0, |bytes| u64::from_le_bytes(*bytes))
}
