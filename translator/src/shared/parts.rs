//! Computes where the parts of the areas are in memory and in its file.
//!
//! Addresses of chunks are far apart, because the end of each is a multiple of
//! [`CHUNK_STRIDE`](ring::CHUNK_STRIDE). In the file the chunks are one after the other, and only
//! what is in the file is mapped:
//!
//! ```text
//! file     header | fields of area 0 | fields of area 1 | ... | page | chunk 0, slack | chunk 1, slack | ... of area 0 | of area 1 | ...
//!          0        4096               8192                     CHUNKS_AT - 4096
//! memory   the file up to CHUNKS_AT, at 0; then of each area the fields, and each chunk with the page before it
//! ```
//!
//! The page before a chunk is the last page of slack of the previous chunk, which is mapped already
//! ([`Part::from`]). Nobody accesses it at its second address.

use crate::layout::{PAGE_BYTES, area, ring};

/// Maximum number of threads that are in the cache at the same time.
pub const THREADS: usize = 64;
/// Number of chunks in the ring of a thread.
pub const CHUNKS: u64 = 8;
/// Distance between the addresses of areas, in bytes.
const AREA_STRIDE: u64 = (CHUNKS + 1) * ring::CHUNK_STRIDE;
/// Bytes of a chunk with its slack.
const CHUNK_SPACE: u64 = ring::CHUNK_BYTES + ring::SLACK_BYTES;
/// Offset in the file of the first chunk of the first area. Everything before it is mapped at the
/// start.
pub const CHUNKS_AT: u64 = (2 + THREADS as u64) * PAGE_BYTES;
/// Bytes of the file. Most pages are never accessed.
pub const BYTES: u64 = CHUNKS_AT + THREADS as u64 * CHUNKS * CHUNK_SPACE;

/// A part of the file that is mapped later. Its first page is mapped already at another address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// Address at which its first page is mapped already, relative to the header.
    pub from: u64,
    /// Offset in the file.
    pub offset: u64,
    /// Address at which the part is mapped, relative to the header.
    pub at: u64,
    /// Size in bytes, whole pages.
    pub bytes: u64,
}

/// Address of an area, relative to the header.
pub const fn address(number: usize) -> u64 {
    ring::CHUNK_STRIDE + number as u64 * AREA_STRIDE
}

/// Offset of the fields of an area in the file.
pub const fn fields(number: usize) -> u64 {
    (1 + number as u64) * PAGE_BYTES
}

/// Offset of a chunk of an area in the file.
pub const fn chunk(number: usize, chunk: u64) -> u64 {
    CHUNKS_AT + (number as u64 * CHUNKS + chunk) * CHUNK_SPACE
}

/// End of the first `count` areas, relative to the address of the header.
pub const fn end(count: usize) -> u64 {
    match count {
        0 => CHUNKS_AT,
        count => address(count - 1) + ring::chunk_at(CHUNKS - 1) + CHUNK_SPACE,
    }
}

/// The parts of an area, in the order in which they are mapped. All earlier areas must be mapped
/// before.
pub fn of_area(number: usize) -> Vec<Part> {
    let fields = fields(number);
    let bytes = area::FIELD_BYTES;
    let mut parts = vec![Part { from: fields, offset: fields, at: address(number), bytes }];
    let before = number.checked_sub(1).map(|before| chunk_place(before, CHUNKS - 1));
    let mut last_page = before.map_or(CHUNKS_AT, |at| at + CHUNK_SPACE) - PAGE_BYTES;
    for part in 0..CHUNKS {
        let at = chunk_place(number, part);
        let (offset, bytes) = (chunk(number, part) - PAGE_BYTES, PAGE_BYTES + CHUNK_SPACE);
        parts.push(Part { from: last_page, offset, at: at - PAGE_BYTES, bytes });
        last_page = at + CHUNK_SPACE - PAGE_BYTES;
    }
    parts
}

/// Address of a chunk, relative to the header.
const fn chunk_place(number: usize, chunk: u64) -> u64 {
    address(number) + ring::chunk_at(chunk)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each part begins with a page that is mapped already, at the same offset of the file.
    #[test]
    fn parts_begin_with_mapped_pages_and_do_not_overlap() {
        let start = Part { from: 0, offset: 0, at: 0, bytes: CHUNKS_AT };
        let mut mapped = vec![start];
        for number in 0..THREADS {
            for part in of_area(number) {
                let source = mapped.iter().find(|earlier| {
                    (earlier.at..earlier.at + earlier.bytes).contains(&part.from)
                        && earlier.offset + (part.from - earlier.at) == part.offset
                });
                assert!(source.is_some(), "{number}: {part:x?}");
                let end = part.at + part.bytes;
                assert!(mapped.iter().all(|one| one.at + one.bytes <= part.at || end <= one.at));
                assert!(part.offset + part.bytes <= BYTES && end <= self::end(number + 1));
                mapped.push(part);
            }
        }
        assert_eq!(self::end(0), CHUNKS_AT);
    }

    #[test]
    fn chunks_end_where_the_layout_says() {
        let parts = of_area(3);
        let last = parts.last().unwrap();
        let end = address(3) + CHUNKS * ring::CHUNK_STRIDE + ring::SLACK_BYTES;
        assert_eq!(last.at + last.bytes, end);
        assert_eq!(last.offset + last.bytes, chunk(3, CHUNKS - 1) + CHUNK_SPACE);
    }
}
