//! Computes a fingerprint of a frame, which distinguishes a copy from another frame with the same
//! counter.

use hmtt_format::frame::MAC_HEADER_BYTES;

/// Payload bytes that are compared: the payload header, the sync and the first records.
const FINGERPRINT_BYTES: usize = 64;

/// An odd multiplier with well spread bits (2^64 / golden ratio).
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

/// The length of a frame's payload, and the payload bytes that are compared.
fn compared_part(bytes: &[u8]) -> (usize, &[u8]) {
    let payload = bytes.get(MAC_HEADER_BYTES..).unwrap_or_default();
    (payload.len(), &payload[..payload.len().min(FINGERPRINT_BYTES)])
}

/// Whether the compared parts of two frames are equal. This is faster than computing both
/// fingerprints, and exact.
pub(super) fn are_alike(first: &[u8], second: &[u8]) -> bool {
    compared_part(first) == compared_part(second)
}

/// A 64-bit hash of the compared part of a frame. It does not withstand collisions made on purpose.
pub(super) fn fingerprint(bytes: &[u8]) -> u64 {
    let (length, start) = compared_part(bytes);
    // The payload header counts the words, too: without the multiplication, length and header would
    // cancel.
    let begin = (length as u64).wrapping_mul(SPREAD);
    start.chunks(size_of::<u64>()).fold(begin, |hash, chunk| {
        let mut word = [0; size_of::<u64>()];
        word[..chunk.len()].copy_from_slice(chunk);
        (hash.rotate_left(5) ^ u64::from_le_bytes(word)).wrapping_mul(SPREAD)
    })
}
