//! Finds islands: five unused bytes within reach of a two-byte jump, which hold the jump to a stub.
//!
//! A function uses its own free bytes where it can; [`super::island_allocator`] finds the other
//! islands.

use std::ops::Range;

use super::region::{RegionFinder, Span};
use super::{JUMP_BYTES, SHORT_BYTES};

/// Distance in bytes that a two-byte jump certainly reaches, in both directions.
pub(super) const REACH: u64 = 110;
/// Maximum length in bytes of an occupied range. Regions do not extend across the start of another
/// function, and other ranges are short.
const LONGEST_TAKEN: u64 = 1 << 10;
/// Maximum number of instructions of a region that is moved only to free bytes.
const LONGEST: usize = 8;
/// Distance in bytes beyond which a range does not matter for a region that is moved to free bytes:
/// no two-byte jump reaches the range, and no region is that long.
pub(super) const FAR: u64 = REACH + LONGEST_TAKEN;

/// Takes five free bytes that a two-byte jump at `from` reaches. Returns their address.
pub(super) fn island(free: &mut [Range<u64>], from: u64) -> Option<u64> {
    let after = from + SHORT_BYTES;
    let reaches = |at: u64| i8::try_from(at.wrapping_sub(after).cast_signed()).is_ok();
    for range in free {
        let first = range.start.max(after.saturating_sub(i8::MIN.unsigned_abs().into()));
        if reaches(first) && first + JUMP_BYTES as u64 <= range.end {
            // Free bytes before the island are given up. They are seldom missed.
            range.start = first + JUMP_BYTES as u64;
            return Some(first);
        }
    }
    None
}

/// Like [`island`], for a long list of free ranges in address order. Only the near ranges are
/// examined.
pub(super) fn island_near(free: &mut [Range<u64>], from: u64) -> Option<u64> {
    let far = u64::from(u8::MAX);
    let first = free.partition_point(|range| range.end + far < from);
    let last = free.partition_point(|range| range.start < from + far);
    island(free.get_mut(first..last)?, from)
}

impl RegionFinder<'_> {
    /// Finds instructions that can be moved so that five bytes within reach of an address become
    /// free. They do not overlap the ranges in `obstacles`.
    pub fn find_movable(&self, at: u64, obstacles: &[Range<u64>]) -> Option<Span> {
        let body = self.body;
        let count = body.instructions.len();
        let least = 2 * JUMP_BYTES as u64;
        let before =
            body.instructions.partition_point(|instruction| instruction.ip() + REACH <= at);
        let after = body.instructions.partition_point(|instruction| instruction.ip() < at + REACH);
        (before.max(1)..after).find_map(|first| {
            let ends = first + 1..=(first + LONGEST).min(count);
            let spans = ends.map_while(|end| self.close(first, end).ok());
            let fits = |span: &Span| {
                let start = body.address(span.first);
                let apart = |other: &Range<u64>| span.limit <= other.start || other.end <= start;
                span.first > 0
                    && span.limit - start >= least
                    && start.abs_diff(at) < REACH
                    && obstacles.iter().all(apart)
            };
            spans.into_iter().find(fits)
        })
    }
}
