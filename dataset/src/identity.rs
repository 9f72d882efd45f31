//! Identifies a capture by the hash of its bytes.

use std::fmt;
use std::path::Path;

use hmtt_paths::open_file;

use crate::error::DatasetError;

/// Number of bytes in a hash. To make two captures with the same hash on purpose, about 2^64
/// attempts would be needed.
const BYTES: usize = 16;

/// Identity of a capture: the first 128 bits of the BLAKE3 hash of its bytes, printed as 32
/// hexadecimal digits. All copies of a file have the same hash, whatever their names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CaptureHash([u8; BYTES]);

impl CaptureHash {
    /// The hash of a file's bytes.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn of_file(path: &Path) -> Result<Self, DatasetError> {
        let mut file = open_file(path).map_err(|error| DatasetError::file("open", path, error))?;
        let mut hasher = blake3::Hasher::new();
        hasher.update_reader(&mut file).map_err(|error| DatasetError::file("read", path, error))?;
        let mut bytes = [0; BYTES];
        hasher.finalize_xof().fill(&mut bytes);
        Ok(CaptureHash(bytes))
    }

    /// Parses the printed form of a [`CaptureHash`]; `None` for any other text.
    pub fn parse(text: &str) -> Option<Self> {
        let (pairs, rest) = text.as_bytes().as_chunks::<2>();
        let pairs: &[[u8; 2]; BYTES] = pairs.try_into().ok().filter(|_| rest.is_empty())?;
        let digit = |byte: u8| match byte {
            b'0'..=b'9' => Some(byte - b'0'),
            b'a'..=b'f' => Some(byte - b'a' + 10),
            _ => None,
        };
        let mut bytes = [0; BYTES];
        for (byte, [high, low]) in bytes.iter_mut().zip(pairs) {
            *byte = digit(*high)? << 4 | digit(*low)?;
        }
        Some(CaptureHash(bytes))
    }
}

impl fmt::Display for CaptureHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_is_that_of_the_published_test_vector() {
        let file = tempfile::NamedTempFile::new().unwrap();
        // BLAKE3's test vectors: the hash of no bytes.
        let hash = CaptureHash::of_file(file.path()).unwrap();
        assert_eq!(hash.to_string(), "af1349b9f5f9a1a6a0404dea36dcc949");
        assert_eq!(CaptureHash::parse(&hash.to_string()), Some(hash));
        for text in ["", "af", "AF1349b9f5f9a1a6a0404dea36dcc949", &"0".repeat(33)] {
            assert_eq!(CaptureHash::parse(text), None, "{text}");
        }
    }
}
