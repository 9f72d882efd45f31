//! Computes what the link carries and what a saturated bus produces: the numbers of
//! `docs/lossless.md`.

use hmtt_format::frame::{MAX_FRAME_BYTES, MAX_WORDS, SYNC_WORDS};

/// Bytes around a frame on the wire: preamble, start delimiter, FCS and gap.
pub const AROUND_BYTES: u32 = 8 + 4 + 12;
/// Length of a full frame on the wire in byte times.
pub const WIRE_BYTES: u32 = MAX_FRAME_BYTES as u32 + AROUND_BYTES;
/// Bytes that a gigabit link carries per second.
pub const LINK_BYTES: u32 = 125_000_000;
/// Words of a full frame that contain records.
pub const RECORD_WORDS: u32 = (MAX_WORDS - SYNC_WORDS) as u32;
/// Line records of a full frame, two per word.
pub const FRAME_RECORDS: u32 = 2 * RECORD_WORDS;

/// Full frames per second.
pub fn frames_per_second() -> f64 {
    f64::from(LINK_BYTES) / f64::from(WIRE_BYTES)
}

/// Bytes of records that the link carries per second.
pub fn record_bytes_per_second() -> f64 {
    frames_per_second() * f64::from(RECORD_WORDS) * 8.0
}
