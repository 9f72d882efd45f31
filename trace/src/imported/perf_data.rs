//! Reads a recording of perf, the file `perf.data`: the samples of `perf mem record`.
//!
//! ```text
//! header of 104 bytes: where attributes and data are
//! -> events: the fields of each event's samples, by the identifiers of the event's counters
//! -> data: records, each with its type and bytes -> samples, sorted by time
//! ```
//!
//! A recording has the samples of each processor in separate pieces. So all samples are read and
//! then sorted by time, and the use of memory is linear in their number. Recordings that were
//! written to a pipe, compressed recordings, and recordings of the other byte order are refused.
//! The error names the command `perf script`, which converts them to text.

mod events;
mod sample;

use std::collections::VecDeque;
use std::io::{BufRead, Read};

use super::ImportedAccess;
use super::samples::Samples;
use crate::table::TableError;
use events::Events;
use sample::{Cursor, parse};

/// First bytes of a recording in little-endian byte order.
pub const MAGIC: [u8; 8] = *b"PERFILE2";
/// Bytes of the header.
const HEADER_BYTES: usize = 104;
/// Byte offset in the header of the place of the data: their offset and length in the file.
const DATA_SECTION: usize = 40;
/// Byte offset in the header of the size of an attribute.
const ATTRIBUTE_BYTES: usize = 16;
/// Byte offset in the header of the place of the attributes: their offset and length in the file.
const ATTRIBUTE_SECTION: usize = 24;
/// Maximum number of bytes before the data. These bytes contain the attributes and the identifiers
/// of counters.
const MOST_BEGIN_BYTES: u64 = 64 << 20;
/// Bytes of a record's header: type, flags and length.
const RECORD_HEADER_BYTES: usize = 8;
/// Type of a record with a sample.
const SAMPLE: u32 = 9;
/// Type of a record that states a number of bytes. That many bytes follow the record without
/// belonging to it.
const AUXTRACE: u32 = 71;
/// Types of compressed records.
const COMPRESSED: [u32; 2] = [81, 83];
/// Advice for recordings that are refused.
const AS_TEXT: &str = "make text of it, which is read: perf script -F comm,tid,time,event,addr,data_src,weight,ip -i FILE > FILE.txt";

/// Error for a sample that lacks a field that an access needs.
const NO_SAMPLE: &str = "expected a sample with an instruction, a thread, a time and an address, as `perf mem record` takes them";

/// Reads the samples of a recording.
pub struct PerfDataReader<R> {
    input: R,
    offset: u64,
    is_read: bool,
    /// The error that ended reading. It is returned after the accesses before it.
    failure: Option<TableError>,
    samples: Samples,
}

/// The little-endian number at a byte offset; `None` beyond the end.
fn u64_at(bytes: &[u8], offset: usize) -> Option<u64> {
    bytes.get(offset..)?.first_chunk().map(|chunk| u64::from_le_bytes(*chunk))
}

impl<R: BufRead> PerfDataReader<R> {
    pub fn new(input: R) -> Self {
        let samples = Samples::default();
        PerfDataReader { input, offset: 0, is_read: false, failure: None, samples }
    }

    /// The first call reads all samples, and adds their accesses to `add` in the order of time.
    /// Further calls return `false`, or the error.
    ///
    /// # Errors
    /// [`TableError`]: the file cannot be read, is damaged, or is a recording that is refused. The
    /// accesses before the error were added by the first call.
    pub fn advance(&mut self, add: &mut VecDeque<ImportedAccess>) -> Result<bool, TableError> {
        if std::mem::replace(&mut self.is_read, true) {
            return self.failure.take().map_or(Ok(false), Err);
        }
        let mut accesses = Vec::new();
        self.failure = self.read(&mut accesses).err();
        accesses.sort_by_key(|access| access.clock);
        if add.is_empty() {
            // This moves the vector, so that the accesses are not copied.
            *add = accesses.into();
        } else {
            add.extend(accesses);
        }
        Ok(true)
    }

    fn failed(&self, problem: impl Into<String>) -> TableError {
        TableError::Record { offset: self.offset, problem: problem.into() }
    }

    /// Reads the next `count` bytes. Returns fewer bytes at the end of the file.
    fn bytes(&mut self, count: u64) -> Result<Vec<u8>, TableError> {
        let mut bytes = Vec::new();
        self.input.by_ref().take(count).read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    fn read(&mut self, add: &mut Vec<ImportedAccess>) -> Result<(), TableError> {
        let mut begin = self.bytes(HEADER_BYTES as u64)?;
        let number = |offset| u64_at(&begin, offset).unwrap_or(0);
        let [header_bytes, attribute_bytes, attributes, attributes_bytes, data, data_bytes] = [
            8,
            ATTRIBUTE_BYTES,
            ATTRIBUTE_SECTION,
            ATTRIBUTE_SECTION + 8,
            DATA_SECTION,
            DATA_SECTION + 8,
        ]
        .map(number);
        if !begin.starts_with(&MAGIC) || header_bytes < HEADER_BYTES as u64 {
            let pipe = "is a recording that perf has written to a pipe, or of another byte order";
            return Err(self.failed(format!("{pipe}; {AS_TEXT}")));
        }
        if data_bytes == 0 {
            return Err(self.failed("perf has not completed the recording: it has no samples"));
        }
        if !(HEADER_BYTES as u64..=MOST_BEGIN_BYTES).contains(&data) {
            return Err(self.failed(format!("expected data within {MOST_BEGIN_BYTES} bytes")));
        }
        begin.extend(self.bytes(data - begin.len() as u64)?);
        let events = Events::parse(
            &begin,
            attributes..attributes.saturating_add(attributes_bytes),
            attribute_bytes,
        );
        let events = events.ok_or_else(|| self.failed("the events are damaged"))?;
        self.offset = data;
        self.records(data.saturating_add(data_bytes), &events, add)
    }

    /// Reads the records up to the offset `end`.
    fn records(
        &mut self,
        end: u64,
        events: &Events,
        add: &mut Vec<ImportedAccess>,
    ) -> Result<(), TableError> {
        let mut record = Vec::new();
        while self.offset < end {
            let header = self.bytes(RECORD_HEADER_BYTES as u64)?;
            let header = header.first_chunk().copied().map(u64::from_le_bytes);
            let header = header.ok_or_else(|| self.failed("the file ends between records"))?;
            let (kind, bytes) = (header as u32, (header >> 48) as usize);
            let Some(rest) = bytes.checked_sub(RECORD_HEADER_BYTES) else {
                return Err(self.failed("a record is shorter than its header"));
            };
            record.clear();
            self.input.by_ref().take(rest as u64).read_to_end(&mut record)?;
            if record.len() < rest {
                return Err(self.failed(format!("the file ends within a record of {bytes} bytes")));
            }
            if COMPRESSED.contains(&kind) {
                return Err(
                    self.failed(format!("the recording is compressed (perf record -z); {AS_TEXT}"))
                );
            }
            if kind == SAMPLE {
                let sample = events.of(&record).and_then(|event| parse(event, Cursor(&record)));
                let sample = sample.ok_or_else(|| self.failed(NO_SAMPLE))?;
                add.extend(self.samples.access(&sample));
            }
            self.offset += bytes as u64;
            if kind == AUXTRACE {
                self.skip(u64_at(&record, 0).unwrap_or(0))?;
            }
        }
        Ok(())
    }

    /// Skips bytes that follow a record.
    fn skip(&mut self, bytes: u64) -> Result<(), TableError> {
        let skipped = std::io::copy(&mut self.input.by_ref().take(bytes), &mut std::io::sink())?;
        if skipped < bytes {
            return Err(self.failed("the file ends behind a record"));
        }
        self.offset = self.offset.saturating_add(bytes);
        Ok(())
    }
}

impl<R> PerfDataReader<R> {
    /// Sentences on the limits of the results.
    pub fn notes(&self) -> Vec<String> {
        self.samples.notes()
    }
}
