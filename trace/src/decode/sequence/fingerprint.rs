//! The bytes of a frame to what tells a copy of it from another frame with its counter.

use hmtt_format::frame::MAC_HEADER_BYTES;

/// Payload bytes that are told apart: the payload header, the sync and the first records.
const FINGERPRINT_BYTES: usize = 64;

/// An odd multiplier with well spread bits (2^64 / golden ratio).
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

/// The length of a frame's payload, and the bytes that are told apart.
fn compared_part(bytes: &[u8]) -> (usize, &[u8]) {
    let payload = bytes.get(MAC_HEADER_BYTES..).unwrap_or_default();
    (payload.len(), &payload[..payload.len().min(FINGERPRINT_BYTES)])
}

/// Whether two frames have one fingerprint, but for those that were made to: quicker than to compare the two.
pub fn are_alike(one: &[u8], other: &[u8]) -> bool {
    compared_part(one) == compared_part(other)
}

pub fn fingerprint(bytes: &[u8]) -> u64 {
    let (length, start) = compared_part(bytes);
    // The header counts the words too: unless the length is spread first, the two cancel.
    let begin = (length as u64).wrapping_mul(SPREAD);
    start.chunks(size_of::<u64>()).fold(begin, |hash, chunk| {
        let mut word = [0; size_of::<u64>()];
        word[..chunk.len()].copy_from_slice(chunk);
        (hash.rotate_left(5) ^ u64::from_le_bytes(word)).wrapping_mul(SPREAD)
    })
}
