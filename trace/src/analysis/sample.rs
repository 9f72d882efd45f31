//! Chooses lines by a hash of their numbers, so that the same lines are sampled everywhere.

use super::batch::UNITS_AT_ONCE;

/// log2 of the number of different hash values.
pub const HASH_LOG2: u32 = 24;

/// The hash of a line, below 2^[`HASH_LOG2`].
#[inline]
pub const fn hash(line: u64) -> u32 {
    // Two rounds of multiplication and shift, as in SplitMix64 (Steele, Lea, Flood 2014).
    let mut word = line.wrapping_add(0x9e37_79b9_7f4a_7c15);
    word = (word ^ word >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    word = (word ^ word >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    (word >> (u64::BITS - HASH_LOG2)) as u32
}

/// Copies the lines whose hash is below a threshold to `sampled`, in order, and returns them.
/// `lines` has at most [`UNITS_AT_ONCE`] elements.
#[inline]
pub fn sample<'a>(
    lines: &[u64],
    threshold: u32,
    sampled: &'a mut [u64; UNITS_AT_ONCE],
) -> &'a [u64] {
    // Without branches: a branch on a hash cannot be predicted if the rate is high.
    let mut count = 0;
    for line in lines {
        sampled[count % UNITS_AT_ONCE] = *line;
        count += usize::from(hash(*line) < threshold);
    }
    &sampled[..count]
}
