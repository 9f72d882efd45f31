//! Splits a CSV file into records, each with the number of the line on which it begins.
//!
//! The csv crate splits fields and quotes, and follows a quoted field over several lines. It has
//! two limitations: it accepts a file that ends inside a quote, and it does not limit the length of
//! a record. So a last record is appended to the file: if a quote is open at the end, this record
//! is part of the quoted field. And [`Bounded`], from which the csv crate reads, limits the bytes
//! of a record.

use std::io::{self, BufRead, Chain, Cursor, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use csv::{ByteRecord, ErrorKind, ReaderBuilder, Terminator};

use crate::table::TableError;

/// Longest accepted record, in bytes. No row of a trace is longer.
const MAX_RECORD_BYTES: u64 = 1 << 16;
/// Size of the read buffer, in bytes.
const BUFFER_BYTES: usize = 1 << 16;
/// Maximum number of fields of a record.
const MAX_FIELDS: usize = 32;
/// The record that is appended to the file.
const LAST: &[u8] = b"\n\0the end of the file\n";

/// A file followed by the appended record.
type Extended<R> = Chain<R, Cursor<&'static [u8]>>;

/// A reader of records that skips blank lines.
pub(super) struct Records<R> {
    reader: csv::Reader<Bounded<Extended<R>>>,
    bound: Bound,
    record: Record,
    line: u64,
}

/// One record. Its fields need not be valid UTF-8.
#[derive(Default)]
pub(super) struct Record(ByteRecord);

impl Record {
    /// The fields as text.
    pub fn fields(&self) -> Result<Vec<&str>, String> {
        if self.0.len() > MAX_FIELDS {
            return Err(format!("more than {MAX_FIELDS} fields"));
        }
        let text = |field| std::str::from_utf8(field).map_err(|_| "not UTF-8 text".to_owned());
        self.0.iter().map(text).collect()
    }

    fn is_blank(&self) -> bool {
        self.0.len() <= 1 && self.0.as_slice().trim_ascii().is_empty()
    }

    /// Whether this is the record that was appended to the file.
    fn is_last(&self) -> bool {
        self.0.len() == 1 && self.0.as_slice() == LAST.trim_ascii()
    }

    /// Number of line ends within quoted fields.
    fn line_ends(&self) -> u64 {
        self.0.as_slice().iter().filter(|byte| **byte == b'\n').count() as u64
    }
}

impl<R: BufRead> Records<R> {
    pub fn new(input: R) -> Self {
        let bound = Bound::default();
        let input = input.chain(Cursor::new(LAST));
        let input = Bounded { input, bound: bound.clone(), offset: 0, is_after_line: true };
        let reader = ReaderBuilder::new()
            .has_headers(false)
            .flexible(true)
            .buffer_capacity(BUFFER_BYTES)
            // A carriage return before the line feed is white space, which the parsers of fields
            // ignore.
            .terminator(Terminator::Any(b'\n'))
            .from_reader(input);
        Records { reader, bound, record: Record::default(), line: 1 }
    }

    /// Reads the next record that is not blank; `None` at the end.
    pub fn advance(&mut self) -> Result<Option<&Record>, TableError> {
        loop {
            self.line = self.reader.position().line();
            self.bound.allow(self.reader.position().byte());
            let is_read = match self.reader.read_byte_record(&mut self.record.0) {
                Ok(is_read) => is_read,
                Err(error) => return Err(self.failed(error)),
            };
            // The csv crate has skipped blank lines before the record, so the line is counted back
            // from the end of the record.
            let is_open = self.record.0.as_slice().ends_with(LAST);
            let own = self.record.line_ends() + u64::from(!is_open);
            self.line = self.reader.position().line().saturating_sub(own).max(self.line);
            if !is_read {
                return Ok(None);
            }
            if is_open {
                return Err(self.error("a quoted field does not end"));
            }
            let bytes = self.record.0.as_slice().len() as u64;
            if bytes > MAX_RECORD_BYTES {
                return Err(self.error(format!("longer than {MAX_RECORD_BYTES} bytes")));
            }
            if !self.record.is_blank() && !self.record.is_last() {
                return Ok(Some(&self.record));
            }
        }
    }

    /// An error about the current record, with its line number.
    pub fn error(&self, problem: impl Into<String>) -> TableError {
        TableError::Line { line: self.line, problem: problem.into() }
    }

    fn failed(&self, error: csv::Error) -> TableError {
        match error.into_kind() {
            ErrorKind::Io(error) if error.get_ref().is_some_and(|inner| inner.is::<TooLong>()) => {
                self.error(format!(
                    "longer than {MAX_RECORD_BYTES} bytes, or a quoted field does not end"
                ))
            }
            ErrorKind::Io(error) => error.into(),
            other => self.error(format!("{other:?}")),
        }
    }
}

/// Offset up to which the file may be read for the current record. [`Records`] sets the offset, and
/// [`Bounded`] reads no further. Both share the offset, because the reader of the csv crate owns
/// the [`Bounded`].
#[derive(Clone, Debug, Default)]
struct Bound(Arc<AtomicU64>);

impl Bound {
    /// Allows one record of the greatest length, which begins at this offset.
    fn allow(&self, offset: u64) {
        let end = offset + MAX_RECORD_BYTES + BUFFER_BYTES as u64;
        self.0.store(end, Ordering::Relaxed);
    }
}

/// The error that a record is longer than the limit.
#[derive(Debug, thiserror::Error)]
#[error("a record is too long")]
struct TooLong;

/// A file that can be read up to a bound.
struct Bounded<R> {
    input: R,
    bound: Bound,
    /// Bytes read so far.
    offset: u64,
    is_after_line: bool,
}

impl<R: Read> Read for Bounded<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let left = self.bound.0.load(Ordering::Relaxed).saturating_sub(self.offset);
        if left == 0 {
            return Err(io::Error::other(TooLong));
        }
        let most = buffer.len().min(usize::try_from(left).unwrap_or(usize::MAX));
        let read = self.input.read(&mut buffer[..most])?;
        self.offset += read as u64;
        // Empty lines are not part of a record, so any number of empty lines may precede a record.
        let mut empty = 0;
        for byte in &buffer[..read] {
            empty += u64::from(self.is_after_line && *byte == b'\n');
            self.is_after_line = *byte == b'\n';
        }
        self.bound.0.fetch_add(empty, Ordering::Relaxed);
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn all(text: &[u8]) -> Result<Vec<(u64, Vec<String>)>, TableError> {
        let mut records = Records::new(text);
        let mut lines = Vec::new();
        loop {
            let Some(record) = records.advance()? else { return Ok(lines) };
            let fields = record.fields().unwrap().into_iter().map(str::to_owned).collect();
            lines.push((records.line, fields));
        }
    }

    proptest! {
        #[test]
        fn quoted_fields_parse_back_with_their_lines(
            rows in prop::collection::vec(prop::collection::vec("[a-c,\" \n]{0,6}", 2..20), 0..8),
        ) {
            let quote = |field: &String| format!("\"{}\"", field.replace('"', "\"\""));
            let row = |row: &Vec<String>| row.iter().map(quote).collect::<Vec<_>>().join(",");
            let (mut text, mut expected, mut line) = (String::new(), Vec::new(), 1);
            for fields in &rows {
                text += &(row(fields) + "\n\n");
                expected.push((line, fields.clone()));
                line += 2 + fields.iter().flat_map(|field| field.bytes()).filter(|b| *b == b'\n').count() as u64;
            }
            prop_assert_eq!(all(text.as_bytes()).unwrap(), expected);
        }

        #[test]
        fn any_file_is_split_or_rejected(text in "[a\",é\n\r\u{0}]{0,40}") {
            let _ = all(text.as_bytes());
        }
    }

    #[test]
    fn plain_fields_are_the_text_between_commas() {
        let records = all(b"a,,b\"c,\r\n\r\n \nd").unwrap();
        let fields = |fields: &[&str]| fields.iter().map(|field| (*field).to_owned()).collect();
        assert_eq!(records, [(1, fields(&["a", "", "b\"c", "\r"])), (4, fields(&["d"]))]);
    }

    #[test]
    fn a_quote_that_does_not_end_is_an_error_where_it_begins() {
        let error = |text: &[u8]| all(text).unwrap_err().to_string();
        assert_eq!(error(b"a\n\nb,\"c\nd,e\n"), "line 3: a quoted field does not end");
        assert_eq!(error(b"\""), "line 1: a quoted field does not end");
        let long = [b"a\n\"".to_vec(), vec![b'x'; 1 << 20]].concat();
        let expected = "line 2: longer than 65536 bytes, or a quoted field does not end";
        assert_eq!(error(&long), expected);
        let many = [vec![b'\n'; 1 << 20], b"a".to_vec()].concat();
        assert_eq!(all(&many).unwrap(), [((1 << 20) + 1, vec!["a".to_owned()])]);
    }
}
