//! Jumps of two bytes to islands within their reach: five bytes that nothing needs any more.
//!
//! A function finds its own where it can; `neighbours` finds the rest.

use std::ops::Range;

use super::region::{Ground, Span};
use super::{JUMP_BYTES, SHORT_BYTES};

/// Distances that a jump of two bytes surely reaches.
pub(super) const REACH: u64 = 110;
/// From how far before a function it is looked for what reaches into it: no region reaches over where another function
/// begins, and little else is taken.
const LONGEST_TAKEN: u64 = 1 << 10;
/// How far a region that makes room may reach, in instructions.
const LONGEST: usize = 8;
/// Farther from a place than this, nothing matters for a region that makes room for it: jumps of two bytes do not
/// reach it, and no region is so long.
pub(super) const FAR: u64 = REACH + LONGEST_TAKEN;

/// Takes five free bytes within reach of a jump of two bytes.
pub(super) fn island(free: &mut [Range<u64>], from: u64) -> Option<u64> {
    let behind = from + SHORT_BYTES;
    let reaches = |at: u64| i8::try_from(at.wrapping_sub(behind).cast_signed()).is_ok();
    for range in free {
        let first = range.start.max(behind.saturating_sub(i8::MIN.unsigned_abs().into()));
        if reaches(first) && first + JUMP_BYTES as u64 <= range.end {
            // What is before it is lost, and seldom missed.
            range.start = first + JUMP_BYTES as u64;
            return Some(first);
        }
    }
    None
}

/// The same of many free ranges, by address, of which few are near.
pub(super) fn island_near(free: &mut [Range<u64>], from: u64) -> Option<u64> {
    let far = u64::from(u8::MAX);
    let first = free.partition_point(|range| range.end + far < from);
    let last = free.partition_point(|range| range.start < from + far);
    island(free.get_mut(first..last)?, from)
}

impl Ground<'_> {
    /// A region whose jump leaves five bytes free within reach of an address, apart from others.
    pub fn spare(&self, at: u64, taken: &[Range<u64>]) -> Option<Span> {
        let body = self.body;
        let all = body.instructions.len();
        let least = 2 * JUMP_BYTES as u64;
        let before = body.instructions.partition_point(|one| one.ip() + REACH <= at);
        let behind = body.instructions.partition_point(|one| one.ip() < at + REACH);
        (before.max(1)..behind).find_map(|first| {
            let ends = first + 1..=(first + LONGEST).min(all);
            let spans = ends.map_while(|end| self.close(first, end).ok());
            let fits = |span: &Span| {
                let start = body.address(span.first);
                let apart = |other: &Range<u64>| span.room <= other.start || other.end <= start;
                span.first > 0
                    && span.room - start >= least
                    && start.abs_diff(at) < REACH
                    && taken.iter().all(apart)
            };
            spans.into_iter().find(fits)
        })
    }
}
