//! What the link takes and what a saturated bus gives: the numbers of `docs/lossless.md`.

use hmtt_format::frame::{MAX_FRAME_BYTES, MAX_WORDS, SYNC_WORDS};

/// Preamble, start delimiter, FCS and gap.
pub const AROUND_BYTES: u32 = 8 + 4 + 12;
/// A full frame on the wire, in byte times.
pub const WIRE_BYTES: u32 = MAX_FRAME_BYTES as u32 + AROUND_BYTES;
/// Bytes a gigabit link carries a second.
pub const LINK_BYTES: u32 = 125_000_000;
/// Words of a full frame that hold records.
pub const RECORD_WORDS: u32 = (MAX_WORDS - SYNC_WORDS) as u32;
/// Line records of a full frame, two a word.
pub const FRAME_RECORDS: u32 = 2 * RECORD_WORDS;

/// Full frames a second.
pub fn frames_per_second() -> f64 {
    f64::from(LINK_BYTES) / f64::from(WIRE_BYTES)
}

/// Bytes of records the link takes a second.
pub fn record_bytes_per_second() -> f64 {
    frames_per_second() * f64::from(RECORD_WORDS) * 8.0
}
