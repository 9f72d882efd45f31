//! Reads a text file, plain or gzip, as numbered lines.
//!
//! Compression is recognised by the first two bytes, not by the name. The length of a line is
//! limited, so that a file without line ends cannot fill the memory.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use flate2::bufread::MultiGzDecoder;

use super::InputError;

/// The content of a file after decompression.
pub type Reader = Box<dyn BufRead + Send>;

/// Longest line in bytes.
const LONGEST_LINE: u64 = 4096;
/// RFC 1952, ID1 and ID2.
const GZIP_MAGIC: [u8; 2] = [0x1f, 0x8b];

/// Opens a plain or gzip file.
pub fn open(path: &Path) -> Result<Reader, InputError> {
    let file = File::open(path).map_err(|source| InputError::Open { path: path.into(), source })?;
    decompress(BufReader::with_capacity(1 << 16, file))
        .map_err(|source| InputError::Open { path: path.into(), source })
}

/// Decompresses `reader` if it holds gzip.
pub fn decompress(mut reader: impl BufRead + Send + 'static) -> io::Result<Reader> {
    if reader.fill_buf()?.starts_with(&GZIP_MAGIC) {
        let decoder = MultiGzDecoder::new(reader);
        return Ok(Box::new(BufReader::with_capacity(1 << 16, decoder)));
    }
    Ok(Box::new(reader))
}

/// Reads lines and counts them.
pub struct Lines {
    path: PathBuf,
    reader: Reader,
    number: u64,
    buffer: Vec<u8>,
}

impl Lines {
    /// Creates a reader of lines. `path` is used in messages.
    pub fn new(path: &Path, reader: Reader) -> Self {
        Lines { path: path.into(), reader, number: 0, buffer: Vec::new() }
    }

    /// The path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Number, from 1, of the line that was read last.
    pub const fn number(&self) -> u64 {
        self.number
    }

    /// Reads the next line without its line end, or `None` at the end of the file.
    pub fn next_line(&mut self) -> Result<Option<&str>, InputError> {
        self.buffer.clear();
        self.number += 1;
        let mut limited = (&mut self.reader).take(LONGEST_LINE);
        if let Err(source) = limited.read_until(b'\n', &mut self.buffer) {
            return Err(InputError::Read { path: self.path.clone(), line: self.number, source });
        }
        if self.buffer.is_empty() {
            return Ok(None);
        }
        if self.buffer.len() as u64 == LONGEST_LINE && self.buffer.last() != Some(&b'\n') {
            let expected = format!("lines shorter than {LONGEST_LINE} bytes");
            let start = String::from_utf8_lossy(&self.buffer);
            return Err(InputError::malformed(&self.path, self.number, expected, &start));
        }
        match std::str::from_utf8(&self.buffer) {
            Ok(line) => Ok(Some(line.trim_end_matches(['\n', '\r']))),
            Err(_) => {
                let line = String::from_utf8_lossy(&self.buffer);
                Err(InputError::malformed(&self.path, self.number, "text", line.trim_end()))
            }
        }
    }

    /// Creates an error for the line that was read last.
    pub fn malformed(&self, expected: impl Into<String>, got: &str) -> InputError {
        InputError::malformed(&self.path, self.number, expected, got)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Cursor, Write};

    fn lines(bytes: &[u8]) -> Lines {
        Lines::new(Path::new("x"), decompress(Cursor::new(bytes.to_vec())).unwrap())
    }

    fn gzip(text: &str) -> Vec<u8> {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(text.as_bytes()).unwrap();
        encoder.finish().unwrap()
    }

    #[test]
    fn compression_is_recognised_by_content() {
        for bytes in [b"a\r\nb".to_vec(), gzip("a\r\nb")] {
            let mut lines = lines(&bytes);
            assert_eq!(lines.next_line().unwrap(), Some("a"));
            assert_eq!(lines.next_line().unwrap(), Some("b"));
            assert_eq!(lines.next_line().unwrap(), None);
        }
    }

    #[test]
    fn a_cut_gzip_file_is_an_error() {
        let text: String = (0..1000).map(|n| format!("{n} {}\n", n * 7919 % 1000)).collect();
        let whole = gzip(&text);
        let mut lines = lines(&whole[..whole.len() - 9]);
        let error = loop {
            match lines.next_line() {
                Ok(Some(_)) => {}
                Ok(None) => panic!("read to the end"),
                Err(error) => break error,
            }
        };
        assert!(matches!(error, InputError::Read { .. }));
    }

    #[test]
    fn a_line_without_end_is_refused() {
        let error = lines(&[b'7'; 10_000]).next_line().unwrap_err();
        assert!(error.to_string().starts_with("x:1: expected lines shorter than 4096 bytes"));
    }
}
