//! Encodes and decodes half words: accesses, skips of time, and segments (the high bits of
//! numbers).

use crate::units::Direction;

/// Number of low bits of a unit's number, which each record contains.
pub const NUMBER_BITS: u32 = 26;
/// Number of high bits of a unit's number, which the segment contains.
pub const SEGMENT_BITS: u32 = 12;
/// Place of the clock delta in a half.
pub const DELTA_AT: u32 = 26;
/// Longest clock delta of an access.
pub const MAX_DELTA: u32 = ESCAPE - 1;
/// The value of the delta in a half that is not an access.
pub const ESCAPE: u32 = 31;
/// Place of the write bit in a half.
pub const WRITE_AT: u32 = 31;
/// Longest skip, in clocks.
pub const MAX_SKIP: u32 = (1 << SEGMENT_FLAG_AT) - 1;
/// Place of the bit that is 1 in a segment and 0 in a skip.
pub const SEGMENT_FLAG_AT: u32 = 25;
/// Place of the segment in a segment half.
pub const SEGMENT_AT: u32 = 13;
/// Longest skip in a segment half, in clocks.
pub const MAX_SEGMENT_SKIP: u32 = (1 << SEGMENT_AT) - 1;
/// A half without content: a skip of 0 clocks.
pub const EMPTY_HALF: u32 = ESCAPE << DELTA_AT;

/// One half of a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Half {
    /// An access to a unit.
    Access {
        /// Read or write.
        direction: Direction,
        /// Clocks since the previous record, at most [`MAX_DELTA`].
        delta: u32,
        /// Low bits of the unit's number.
        number: u32,
    },
    /// A number of clocks without a record, at most [`MAX_SKIP`]; 0 fills an unused half.
    Skip(u32),
    /// The high bits of the unit numbers in the following halves.
    Segment {
        /// The high bits.
        segment: u32,
        /// Clocks without a record, at most [`MAX_SEGMENT_SKIP`].
        skip: u32,
    },
}

impl Half {
    /// Packs a half. Bits beyond the width of a field are dropped.
    pub const fn encode(self) -> u32 {
        match self {
            Half::Access { direction, delta, number } => {
                (direction.bit() as u32) << WRITE_AT
                    | (delta & 31) << DELTA_AT
                    | number & ((1 << NUMBER_BITS) - 1)
            }
            Half::Skip(clocks) => EMPTY_HALF | clocks & MAX_SKIP,
            Half::Segment { segment, skip } => {
                EMPTY_HALF
                    | 1 << SEGMENT_FLAG_AT
                    | (segment & ((1 << SEGMENT_BITS) - 1)) << SEGMENT_AT
                    | skip & MAX_SEGMENT_SKIP
            }
        }
    }

    /// Unpacks a half; `None` if it is the high half of a record of whole words.
    #[inline]
    pub const fn decode(half: u32) -> Option<Half> {
        let write = half >> WRITE_AT != 0;
        let delta = half >> DELTA_AT & 31;
        if delta != ESCAPE {
            let direction = Direction::from_bit(write);
            return Some(Half::Access {
                direction,
                delta,
                number: half & ((1 << NUMBER_BITS) - 1),
            });
        }
        if write {
            return None;
        }
        Some(if half >> SEGMENT_FLAG_AT & 1 == 0 {
            Half::Skip(half & MAX_SKIP)
        } else {
            let segment = half >> SEGMENT_AT & ((1 << SEGMENT_BITS) - 1);
            Half::Segment { segment, skip: half & MAX_SEGMENT_SKIP }
        })
    }
}
