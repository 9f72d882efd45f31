//! Encodes and decodes maps from physical pages to processes and virtual addresses
//! (`docs/pagemap.md`).
//!
//! ```text
//! header, MACHINE, then for each snapshot:   PROCESS MAPPINGS PAGES SCAN, of each process   SNAPSHOT
//! ```
//!
//! A [`Writer`] writes a map; [`decode_header`] and [`Chunk::decode`] read one. [`changes`] finds
//! the differences between two states of a process.
//!
//! Invariant: every chunk has a CRC-32 and is decoded without any other chunk. Pages of
//! [`Chunk::Pages`] are in order and do not overlap. Numbers of pages and frames are below
//! [`MOST_PAGES`]. Decoding costs time and memory linear in the bytes.

mod changes;
mod chunk;
mod content;
mod fields;
mod marks;
#[cfg(test)]
mod tests;
mod writer;

pub use changes::{Run, changes};
pub use chunk::{CHUNK_HEADER_BYTES, Chunk, MAX_PAYLOAD_BYTES};
pub use content::{Clock, Ending, Entry, Machine, Mapping, Place, Process, Scan, Snapshot};
pub use marks::{MARK_BEGIN, MARK_DIGIT_FIRST, MARK_END, SnapshotMark, SnapshotMarks};
pub use writer::Writer;

use crate::crc32;

/// First bytes of a map.
pub const MAGIC: [u8; 8] = *b"HMTTPMAP";
/// Version of the format. Version 1 has no marks of snapshots; it is still read.
pub const VERSION: u32 = 2;
/// Oldest version that can be read.
const OLDEST_VERSION: u32 = 1;
/// Bytes before the first chunk.
pub const HEADER_BYTES: usize = 16;
/// Limit of the numbers of pages and frames: addresses have 64 bits, and a page has at least 4 KiB.
pub const MOST_PAGES: u64 = 1 << 52;
/// Offset of the CRC-32 in the header.
const CRC_AT: usize = 12;

/// The reason why a map cannot be read, or not to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MapError {
    /// The file begins with other bytes, or is shorter than a header.
    #[error("it is no map of pages")]
    NotAMap,
    /// The version of the format is not supported.
    #[error("its version is {0}, and this hmtt reads versions 1 and {VERSION}")]
    Version(u32),
    /// The CRC-32 of the header is wrong.
    #[error("its header is damaged")]
    Header,
    /// A chunk is longer than the longest one that is written.
    #[error("a chunk of {0} bytes, longer than any")]
    Length(u32),
    /// The CRC-32 of a chunk is wrong.
    #[error("a damaged chunk")]
    Checksum,
    /// The content of a chunk is not possible.
    #[error("a chunk of kind {0} with invalid content")]
    Content(u32),
}

/// The first bytes of a map.
pub fn header() -> [u8; HEADER_BYTES] {
    let mut bytes = [0; HEADER_BYTES];
    bytes[..8].copy_from_slice(&MAGIC);
    bytes[8..CRC_AT].copy_from_slice(&VERSION.to_le_bytes());
    let crc = crc32(&[&bytes[..CRC_AT]]);
    bytes[CRC_AT..].copy_from_slice(&crc.to_le_bytes());
    bytes
}

/// Checks the first bytes of a map.
///
/// # Errors
/// [`MapError::NotAMap`], [`MapError::Version`] or [`MapError::Header`].
pub fn decode_header(bytes: &[u8]) -> Result<(), MapError> {
    let bytes = bytes.first_chunk::<HEADER_BYTES>().ok_or(MapError::NotAMap)?;
    if bytes[..8] != MAGIC {
        return Err(MapError::NotAMap);
    }
    let field =
        |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
    if !(OLDEST_VERSION..=VERSION).contains(&field(8)) {
        return Err(MapError::Version(field(8)));
    }
    if field(CRC_AT) == crc32(&[&bytes[..CRC_AT]]) { Ok(()) } else { Err(MapError::Header) }
}
