//! Encodes and decodes the header of a file and the headers of its chunks.

use super::{MAGIC, MOST_BYTES, VERSION};

/// Bytes before the first chunk.
pub const HEADER_BYTES: usize = 16;
/// Bytes of the header that precedes the content of a chunk.
pub const CHUNK_HEADER_BYTES: usize = 20;

/// Header of a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChunkHeader {
    /// Kind of the content, such as [`UNITS`](super::UNITS).
    pub kind: u32,
    /// Number of the thread in the system; 0 for chunks that belong to no thread.
    pub thread: u32,
    /// Number of bytes that follow the header.
    pub compressed: u32,
    /// Number of bytes of the content after decompression.
    pub bytes: u32,
    /// CRC-32 of the bytes that follow the header.
    pub checksum: u32,
}

/// The first bytes of a file. `flags`: 0 or [`CHOSEN`](super::CHOSEN).
pub fn header(flags: u32) -> [u8; HEADER_BYTES] {
    let mut header = [0; HEADER_BYTES];
    header[..8].copy_from_slice(&MAGIC);
    header[8..12].copy_from_slice(&VERSION.to_le_bytes());
    header[12..].copy_from_slice(&flags.to_le_bytes());
    header
}

impl ChunkHeader {
    /// The encoded header, little-endian.
    pub fn to_bytes(self) -> [u8; CHUNK_HEADER_BYTES] {
        let ChunkHeader { kind, thread, compressed, bytes, checksum } = self;
        let mut header = [0; CHUNK_HEADER_BYTES];
        for (place, number) in header
            .as_chunks_mut::<4>()
            .0
            .iter_mut()
            .zip([kind, thread, compressed, bytes, checksum])
        {
            *place = number.to_le_bytes();
        }
        header
    }

    /// Decodes a header; `None` if it states a size above the limits.
    pub fn from_bytes(header: [u8; CHUNK_HEADER_BYTES]) -> Option<Self> {
        let number = |place: usize| u32::from_le_bytes(header.as_chunks::<4>().0[place]);
        let [kind, thread, compressed, bytes, checksum] = [0, 1, 2, 3, 4].map(number);
        // A zstd frame is not much larger than its content.
        let is_possible = bytes as usize <= MOST_BYTES && compressed as usize <= 2 * MOST_BYTES;
        is_possible.then_some(ChunkHeader { kind, thread, compressed, bytes, checksum })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn headers_are_read_as_they_were_written(encoded in any::<[u8; CHUNK_HEADER_BYTES]>()) {
            if let Some(header) = ChunkHeader::from_bytes(encoded) {
                prop_assert_eq!(header.to_bytes(), encoded);
            }
            let mut possible = encoded;
            (possible[11], possible[15]) = (0, 0);
            let header = ChunkHeader::from_bytes(possible);
            let bytes = u32::from_le_bytes([possible[12], possible[13], possible[14], 0]);
            prop_assert_eq!(header.is_some(), bytes as usize <= MOST_BYTES
                && u32::from_le_bytes([possible[8], possible[9], possible[10], 0]) as usize <= 2 * MOST_BYTES);
        }
    }
}
