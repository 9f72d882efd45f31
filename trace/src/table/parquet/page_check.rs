//! Wraps a Parquet file, and rejects pages that would take more memory than a trace needs.
//!
//! The library decompresses a page as a whole, whatever size its header states: a few kilobytes of
//! zstd can expand to 2 GiB. In `DELTA_BYTE_ARRAY`, each value refers to a prefix of the value
//! before it, so each value can be as long as the page. The library opens a reader at each page
//! header, and the header is checked at that moment.

use std::fs::File;
use std::io::BufReader;
use std::os::unix::fs::FileExt;
use std::sync::{Arc, OnceLock};

use ::parquet::errors::{ParquetError, Result};
use ::parquet::file::reader::{ChunkReader, Length};
use bytes::Bytes;

use super::catch_panic::outside_library;
use super::compact::{Compact, Flaw, I32, STRUCT};
use super::page_expansion::{StreamedChunks, StreamedPage};
use super::thrift_schema::PAGE_HEADER;

/// Size from which a page is refused, in decompressed bytes. A page of [`super::ParquetWriter`]
/// ends after the batch of rows with which it exceeds 16 MiB.
const MAX_PAGE_BYTES: u64 = 64 << 20;
/// Bytes that are read of a page header at first. They include all fields that are checked, and
/// mostly the whole header.
const HEADER_BYTES: usize = 128;
/// Longest accepted page header, in bytes. Only statistics make a header long, because they contain
/// two values of the page.
const MAX_HEADER_BYTES: usize = 64 << 10;
/// Maximum number of values in a dictionary. The library allocates memory for all of them before it
/// reads them.
const MAX_ENTRIES: u64 = 1 << 20;
/// The format's number of the encoding `DELTA_BYTE_ARRAY`.
const DELTA_BYTE_ARRAY: u64 = 7;

/// A file whose page headers are checked before the pages are read.
pub struct CheckedFile {
    file: File,
    chunks: Arc<OnceLock<StreamedChunks>>,
}

impl CheckedFile {
    /// Wraps a file. Page headers are checked as soon as the returned chunks are set. The metadata
    /// must be read before that, because they are no pages.
    pub(super) fn new(file: File) -> (Self, Arc<OnceLock<StreamedChunks>>) {
        let chunks = Arc::new(OnceLock::new());
        (CheckedFile { file, chunks: Arc::clone(&chunks) }, chunks)
    }

    /// Checks the page header at offset `start`, in time that is linear in its length. Also checks
    /// the length of the decompressed page, if the library does not check it.
    fn check_page(&self, start: u64, chunks: &StreamedChunks) -> std::result::Result<(), String> {
        let read = |bytes: &mut [u8]| self.file.read_at(bytes, start).map_err(|e| e.to_string());
        let mut first = [0; HEADER_BYTES];
        let length = read(&mut first)?;
        let header = Header::decode(&first[..length]);
        check(header)?;
        let mut compact = Compact::new(&first[..length]);
        let mut end = compact.skip_struct(PAGE_HEADER).map(|()| length - compact.remaining());
        if end == Err(Flaw::Ended) && length == HEADER_BYTES {
            let mut header = vec![0; MAX_HEADER_BYTES];
            let length = read(&mut header)?;
            let mut compact = Compact::new(&header[..length]);
            end = compact.skip_struct(PAGE_HEADER).map(|()| length - compact.remaining());
        }
        let header_bytes = end.map_err(|flaw| format!("has a header that {flaw}"))?;
        let (Some(header), Some(codec)) = (header, chunks.codec(start)) else { return Ok(()) };
        let first = start + header_bytes as u64 + header.level_bytes;
        let stored_bytes = header.stored_bytes.saturating_sub(header.level_bytes);
        StreamedPage { codec, first, stored_bytes, stated_bytes: header.bytes }.check(&self.file)
    }
}

impl Length for CheckedFile {
    fn len(&self) -> u64 {
        Length::len(&self.file)
    }
}

impl ChunkReader for CheckedFile {
    type T = BufReader<File>;

    fn get_read(&self, start: u64) -> Result<Self::T> {
        if let Some(chunks) = self.chunks.get() {
            outside_library(|| self.check_page(start, chunks)).map_err(|problem| {
                ParquetError::General(format!("the page at offset {start} {problem}"))
            })?;
        }
        self.file.get_read(start)
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<Bytes> {
        self.file.get_bytes(start, length)
    }
}

/// Checks the fields of a page header; `None` for a header that cannot be decoded.
fn check(header: Option<Header>) -> std::result::Result<(), String> {
    match header {
        None => Err("has no header that can be read: the file is damaged".into()),
        Some(Header { bytes: MAX_PAGE_BYTES.., .. }) => Err(format!(
            "becomes longer than {} MiB; write the table with smaller pages",
            MAX_PAGE_BYTES >> 20
        )),
        Some(Header { encoding: Some(DELTA_BYTE_ARRAY), .. }) => {
            Err("is DELTA_BYTE_ARRAY; write the table with PLAIN or dictionary strings".into())
        }
        Some(Header { entries, bytes, .. }) if entries > bytes => {
            Err(format!("states {entries} dictionary values in {bytes} bytes: the file is damaged"))
        }
        Some(Header { entries, .. }) if entries > MAX_ENTRIES => Err(format!(
            "has {entries} dictionary values, more than {MAX_ENTRIES}; write the table with smaller dictionaries"
        )),
        Some(_) => Ok(()),
    }
}

/// The fields of a page header that are checked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Header {
    /// Size of the page, in decompressed bytes.
    bytes: u64,
    /// Encoding of a page of values; `None` for other pages.
    encoding: Option<u64>,
    /// Number of values of a dictionary; 0 for other pages.
    entries: u64,
    /// Bytes of the page in the file.
    stored_bytes: u64,
    /// Bytes of levels that are stored uncompressed before the values.
    level_bytes: u64,
}

impl Header {
    /// Decodes a `PageHeader`, whose fields are: 1 type, 2 uncompressed size, 3 compressed size, 4
    /// CRC; then a structure, 5 for a page of values, 6 for an index, 7 for a dictionary, 8 for a
    /// page of values of version 2.
    fn decode(bytes: &[u8]) -> Option<Header> {
        let mut compact = Compact::new(bytes);
        let (mut header, mut field) = (Header::default(), 0);
        loop {
            let (next, kind) = compact.field(field)?;
            match (next, kind) {
                (2, I32) => header.bytes = compact.number()?,
                // A CRC may have the highest bit set, which decodes as a negative number.
                (4, I32) => while compact.byte()? & 0x80 != 0 {},
                (3, I32) => header.stored_bytes = compact.number()?,
                (1, I32) => drop(compact.number()?),
                (5, STRUCT) => {
                    return Some(Header { encoding: Some(compact.i32_field(2)?), ..header });
                }
                (8, STRUCT) => {
                    let encoding = Some(compact.i32_field(4)?);
                    let level_bytes = compact.level_bytes().unwrap_or(0);
                    return Some(Header { encoding, level_bytes, ..header });
                }
                (6, STRUCT) => return Some(header),
                (7, STRUCT) => return Some(Header { entries: compact.i32_field(1)?, ..header }),
                _ => return None,
            }
            field = next;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_read_as_the_protocol_has_them() {
        // Type 3 (values, version 2), 300 bytes, 100 compressed; 7 values, no nulls, 7 rows,
        // encoding 5.
        let header =
            [0x15, 6, 0x15, 0xd8, 4, 0x15, 0xc8, 1, 0x5c, 0x15, 14, 0x15, 0, 0x15, 14, 0x15, 10, 0];
        assert_eq!(
            Header::decode(&header),
            Some(Header { bytes: 300, encoding: Some(5), stored_bytes: 100, ..Header::default() })
        );
        assert_eq!(check(Header::decode(&header)), Ok(()));
        // Type 0 (values), 2^31 - 1 bytes.
        let long = [0x15, 0, 0x15, 0xfe, 0xff, 0xff, 0xff, 15, 0x15, 2, 0x2c, 0x15, 2, 0x15, 0, 0];
        let problem = check(Header::decode(&long)).unwrap_err();
        assert_eq!(problem, "becomes longer than 64 MiB; write the table with smaller pages");
        let prefixes = [0x15, 0, 0x15, 2, 0x15, 2, 0x2c, 0x15, 2, 0x15, 14, 0];
        assert!(check(Header::decode(&prefixes)).unwrap_err().starts_with("is DELTA_BYTE_ARRAY"));
        // Type 2 (dictionary), 40 bytes; 41 values, or 2^20 + 1 of 8 MiB.
        let dictionary = [0x15, 4, 0x15, 80, 0x15, 80, 0x4c, 0x15, 82, 0x15, 0, 0, 0];
        let problem = check(Header::decode(&dictionary)).unwrap_err();
        assert_eq!(problem, "states 41 dictionary values in 40 bytes: the file is damaged");
        let large =
            [0x15, 4, 0x15, 0x80, 0x80, 0x80, 8, 0x15, 80, 0x4c, 0x15, 0x82, 0x80, 0x80, 1, 0];
        let problem = check(Header::decode(&large)).unwrap_err();
        assert!(problem.starts_with("has 1048577 dictionary values, more than"), "{problem}");
        for length in 0..12 {
            assert_eq!(Header::decode(&header[..length]), None);
        }
        assert!(check(Header::decode(&[0x15, 1])).is_err(), "a negative type");
    }
}
