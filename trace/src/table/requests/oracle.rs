//! Writes the format `oracleGeneral` of libCacheSim. In it, each request states when its object is
//! requested next.
//!
//! | offset | bytes | little-endian, without padding |
//! |---|---|---|
//! | 0 | 4 | time, unsigned |
//! | 4 | 8 | object, unsigned |
//! | 12 | 4 | bytes of the object, unsigned |
//! | 16 | 8 | number of the next request for the object, signed, where the first request of the file is 1; -1 if there is none |
//!
//! The next request for an object is only known after all requests have been made. So requests are
//! collected in a temporary file without a name (in `TMPDIR`), which is then read backwards once.
//! Time is linear in the number of requests, and memory in the number of distinct objects.

use std::collections::HashMap;
use std::env;
use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};

use rustix::fs::OFlags;

/// Bytes of a record.
const RECORD_BYTES: usize = 24;
/// Byte offset in a record of the number of the next request.
const NEXT: usize = 16;
/// Bytes that are read at a time. A block has whole records.
const BLOCK_BYTES: usize = RECORD_BYTES << 15;
/// The value for no next request.
const NONE: i64 = -1;

/// A request for an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OracleRecord {
    /// Time of the request.
    pub time: u32,
    /// Number of the object.
    pub object: u64,
    /// Bytes of the object.
    pub bytes: u32,
}

/// The temporary file with the requests.
pub struct OracleFile {
    records: BufWriter<File>,
    /// Number of requests.
    count: u64,
}

/// Opens a file without a name, which disappears when it is closed.
fn temporary_file() -> io::Result<File> {
    let folder = env::temp_dir();
    let mut options = OpenOptions::new();
    options.read(true).write(true).mode(0o600);
    options.custom_flags(OFlags::TMPFILE.bits().cast_signed());
    options.open(&folder).map_err(|error| {
        let folder = folder.display();
        io::Error::new(error.kind(), format!("no temporary file in {folder} (TMPDIR): {error}"))
    })
}

impl OracleFile {
    /// Creates the temporary file.
    ///
    /// # Errors
    /// The temporary file cannot be created.
    pub fn new() -> io::Result<Self> {
        let records = BufWriter::with_capacity(BLOCK_BYTES, temporary_file()?);
        Ok(OracleFile { records, count: 0 })
    }

    /// Adds a request.
    ///
    /// # Errors
    /// The temporary file cannot be written.
    pub fn push(&mut self, record: OracleRecord) -> io::Result<()> {
        let OracleRecord { time, object, bytes } = record;
        self.count += 1;
        self.records.write_all(&time.to_le_bytes())?;
        self.records.write_all(&object.to_le_bytes())?;
        self.records.write_all(&bytes.to_le_bytes())?;
        self.records.write_all(&NONE.to_le_bytes())
    }

    /// Fills in the next requests, and writes all requests to `output`. If the objects 7, 8 and 7
    /// are requested, the next requests are 3, -1 and -1.
    ///
    /// # Errors
    /// The temporary file cannot be read or written, or the output cannot be written.
    pub fn finish(self, output: &mut impl Write) -> io::Result<()> {
        let mut file = self.records.into_inner().map_err(io::IntoInnerError::into_error)?;
        let mut next: HashMap<[u8; 8], i64> = HashMap::new();
        let mut block = vec![0; BLOCK_BYTES];
        let (mut end, mut number) = (self.count * RECORD_BYTES as u64, self.count.cast_signed());
        while end > 0 {
            let begin = end.saturating_sub(BLOCK_BYTES as u64);
            let block = &mut block[..(end - begin) as usize];
            file.read_exact_at(block, begin)?;
            let (records, _) = block.as_chunks_mut::<RECORD_BYTES>();
            for record in records.iter_mut().rev() {
                let mut object = [0; 8];
                object.copy_from_slice(&record[4..12]);
                let later = next.insert(object, number).unwrap_or(NONE);
                record[NEXT..].copy_from_slice(&later.to_le_bytes());
                number -= 1;
            }
            file.write_all_at(block, begin)?;
            end = begin;
        }
        file.seek(SeekFrom::Start(0))?;
        loop {
            let count = match file.read(&mut block) {
                Ok(0) => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                count => count?,
            };
            output.write_all(&block[..count])?;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn written(objects: &[u64]) -> Vec<u8> {
        let mut file = OracleFile::new().unwrap();
        for (time, object) in (0..).zip(objects) {
            file.push(OracleRecord { time, object: *object, bytes: 64 }).unwrap();
        }
        let mut output = Vec::new();
        file.finish(&mut output).unwrap();
        output
    }

    #[test]
    fn a_record_is_packed() {
        let bytes = written(&[0x0102_0304_0506_0708, 9, 0x0102_0304_0506_0708]);
        let first = [0, 0, 0, 0, 8, 7, 6, 5, 4, 3, 2, 1, 64, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0];
        assert_eq!(bytes[..24], first);
        assert_eq!(bytes[24 + 16..48], [0xff; 8]);
        assert_eq!(bytes.len(), 72);
    }

    #[test]
    fn blocks_are_joined() {
        let count = 2 * BLOCK_BYTES / RECORD_BYTES + 3;
        let objects: Vec<u64> = (0..count as u64).map(|at| at % 2).collect();
        let bytes = written(&objects);
        let (records, []) = bytes.as_chunks::<RECORD_BYTES>() else { panic!("a record is cut") };
        for (index, record) in records.iter().enumerate() {
            let next = if index + 2 < count { index as i64 + 3 } else { NONE };
            assert_eq!(record[NEXT..], next.to_le_bytes(), "{index}");
        }
    }

    proptest! {
        #[test]
        fn the_next_request_is_that_of_a_search(objects in proptest::collection::vec(0u64..8, 0..60)) {
            let bytes = written(&objects);
            prop_assert_eq!(bytes.len(), objects.len() * RECORD_BYTES);
            for (index, record) in bytes.chunks(RECORD_BYTES).enumerate() {
                let later = objects[index + 1..].iter().position(|other| *other == objects[index]);
                let next = later.map_or(NONE, |distance| (index + distance + 2) as i64);
                prop_assert_eq!(&record[NEXT..], &next.to_le_bytes()[..]);
            }
        }
    }
}
