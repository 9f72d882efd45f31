//! A Parquet file to the same file, whose pages are refused if they would take more memory than a trace needs.
//!
//! The library decompresses a page as a whole, however long its header says it is: a few kilobytes of zstd stand
//! for 2 GiB. And the values of `DELTA_BYTE_ARRAY` name prefixes of those before them, so that each of them can
//! be as long as the page. It opens a reader where a header begins, which is looked at first.

use std::fs::File;
use std::io::BufReader;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use ::parquet::errors::{ParquetError, Result};
use ::parquet::file::reader::{ChunkReader, Length};
use bytes::Bytes;

/// Longest page, decompressed. Ours have 16 MiB, and the rest of a batch.
const MAX_PAGE_BYTES: u64 = 64 << 20;
/// All that is looked at of a header fits.
const HEADER_BYTES: usize = 64;
/// `DELTA_BYTE_ARRAY` in the format's numbers.
const DELTA_BYTE_ARRAY: u64 = 7;

/// A file whose pages are looked at before they are read.
pub(super) struct Checked {
    file: File,
    has_metadata: Arc<AtomicBool>,
}

impl Checked {
    /// Pages are looked at once the flag is set: the metadata are read before, and are none.
    pub fn new(file: File) -> (Self, Arc<AtomicBool>) {
        let has_metadata = Arc::new(AtomicBool::new(false));
        (Checked { file, has_metadata: Arc::clone(&has_metadata) }, has_metadata)
    }
}

impl Length for Checked {
    fn len(&self) -> u64 {
        Length::len(&self.file)
    }
}

impl ChunkReader for Checked {
    type T = BufReader<File>;

    fn get_read(&self, start: u64) -> Result<Self::T> {
        if self.has_metadata.load(Ordering::Relaxed) {
            let mut bytes = [0; HEADER_BYTES];
            let read = self.file.read_at(&mut bytes, start)?;
            let header = Header::decode(&bytes[..read]);
            check(header).map_err(|problem| {
                ParquetError::General(format!("the page at offset {start} {problem}"))
            })?;
        }
        self.file.get_read(start)
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<Bytes> {
        self.file.get_bytes(start, length)
    }
}

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
        Some(_) => Ok(()),
    }
}

/// What is looked at of a page's header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Header {
    /// Bytes, decompressed.
    bytes: u64,
    /// Of a page of values.
    encoding: Option<u64>,
}

/// Bytes in Thrift's compact protocol.
struct Compact<'a>(&'a [u8]);

/// Types of fields.
const I32: u8 = 5;
const STRUCT: u8 = 12;

impl Compact<'_> {
    fn byte(&mut self) -> Option<u8> {
        let (byte, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*byte)
    }

    /// A number that is not negative.
    fn number(&mut self) -> Option<u64> {
        let mut number = 0u64;
        for place in 0..5 {
            let byte = self.byte()?;
            number |= u64::from(byte & 0x7f) << (7 * place);
            if byte & 0x80 == 0 {
                // Zigzag: even ones are not negative.
                return (number & 1 == 0).then_some(number >> 1);
            }
        }
        None
    }

    /// The number and the type of the next field, of which the one before is known.
    fn field(&mut self, before: u8) -> Option<(u8, u8)> {
        let byte = self.byte()?;
        let (distance, kind) = (byte >> 4, byte & 15);
        (distance != 0).then_some((before + distance, kind))
    }

    /// The `i32` field of this number, in a structure that has only such up to there.
    fn member(&mut self, wanted: u8) -> Option<u64> {
        let mut field = 0;
        loop {
            let (next, kind) = self.field(field)?;
            let number = (kind == I32 && next <= wanted).then(|| self.number())??;
            if next == wanted {
                return Some(number);
            }
            field = next;
        }
    }
}

impl Header {
    /// Of `PageHeader`: 1 type, 2 uncompressed size, 3 compressed size, 4 CRC; then a structure, 5 of a page of
    /// values, 6 of an index, 7 of a dictionary, 8 of a page of values of version 2.
    fn decode(bytes: &[u8]) -> Option<Header> {
        let mut compact = Compact(bytes);
        let (mut header, mut field) = (Header::default(), 0);
        loop {
            let (next, kind) = compact.field(field)?;
            match (next, kind) {
                (2, I32) => header.bytes = compact.number()?,
                // A CRC may look negative.
                (4, I32) => while compact.byte()? & 0x80 != 0 {},
                (1 | 3, I32) => drop(compact.number()?),
                (5, STRUCT) => {
                    return Some(Header { encoding: Some(compact.member(2)?), ..header });
                }
                (8, STRUCT) => {
                    return Some(Header { encoding: Some(compact.member(4)?), ..header });
                }
                (6 | 7, STRUCT) => return Some(header),
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
        // Type 3 (values, version 2), 300 bytes, 100 compressed; 7 values, no nulls, 7 rows, encoding 5.
        let header =
            [0x15, 6, 0x15, 0xd8, 4, 0x15, 0xc8, 1, 0x5c, 0x15, 14, 0x15, 0, 0x15, 14, 0x15, 10, 0];
        assert_eq!(Header::decode(&header), Some(Header { bytes: 300, encoding: Some(5) }));
        assert_eq!(check(Header::decode(&header)), Ok(()));
        // Type 0 (values), 2^31 - 1 bytes.
        let long = [0x15, 0, 0x15, 0xfe, 0xff, 0xff, 0xff, 15, 0x15, 2, 0x2c, 0x15, 2, 0x15, 0, 0];
        let problem = check(Header::decode(&long)).unwrap_err();
        assert_eq!(problem, "becomes longer than 64 MiB; write the table with smaller pages");
        let prefixes = [0x15, 0, 0x15, 2, 0x15, 2, 0x2c, 0x15, 2, 0x15, 14, 0];
        assert!(check(Header::decode(&prefixes)).unwrap_err().starts_with("is DELTA_BYTE_ARRAY"));
        for length in 0..12 {
            assert_eq!(Header::decode(&header[..length]), None);
        }
        assert!(check(Header::decode(&[0x15, 1])).is_err(), "a negative type");
    }
}
