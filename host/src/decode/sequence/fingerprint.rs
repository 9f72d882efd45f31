//! The bytes of a frame to what tells a copy of it from another frame with its counter.

use hmtt_format::frame::MAC_HEADER_BYTES;

/// Payload bytes that are told apart: the payload header, the sync and the first records.
const FINGERPRINT_BYTES: usize = 64;

pub fn fingerprint(bytes: &[u8]) -> u64 {
    let payload = bytes.get(MAC_HEADER_BYTES..).unwrap_or_default();
    let start = &payload[..payload.len().min(FINGERPRINT_BYTES)];
    start.chunks(size_of::<u64>()).fold(payload.len() as u64, |hash, chunk| {
        let mut word = [0; size_of::<u64>()];
        word[..chunk.len()].copy_from_slice(chunk);
        // An odd multiplier with well spread bits (2^64 / golden ratio).
        (hash.rotate_left(5) ^ u64::from_le_bytes(word)).wrapping_mul(0x9e37_79b9_7f4a_7c15)
    })
}
