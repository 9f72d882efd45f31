//! Writes and reads the column of values. It contains the differences between the values of slots
//! and their expected values.
//!
//! A difference is folded so that its sign is the lowest bit (0, -1, 1, -2 become 0, 1, 2, 3). It
//! takes 1, 2, 4 or 9 bytes. The lowest two bits of the first byte state this length. For example,
//! a difference of 3 is folded to 6 and is the byte `6 << 2 | 0`.

use hmtt_files::access_trace::{SLOT_BYTES, VALUE_BYTES};

use super::column::{Column, take};

/// Maximum number of bytes of a difference. A writer always writes this number of bytes, and keeps
/// only the bytes that the difference needs.
pub const MOST_VALUE_BYTES: usize = 9;

/// Mask of the bytes of a difference, by the lowest two bits of its first byte. It is 0 for a
/// difference of 9 bytes, whose first byte contains the length alone.
const SHORT: [u64; 4] = [0xff, 0xffff, 0xffff_ffff, 0];

/// Compares at most eight values with the expected values. Writes the differences that are not 0,
/// and replaces the expected values by the actual ones. Returns a bit for each value that differs;
/// the first value has the lowest bit.
///
/// [`MOST_VALUE_BYTES`] must be reserved in the column for each value.
pub fn write_differences(
    values: &[[u8; SLOT_BYTES]],
    expected: &mut [u64],
    column: &mut Column,
) -> u8 {
    let mut changed = 0;
    let count = values.len().min(expected.len()).min(8);
    for place in 0..count {
        changed |= u8::from(u64::from_le_bytes(values[place]) != expected[place]) << place;
    }
    let mut left = changed;
    while left != 0 {
        let place = left.trailing_zeros() as usize;
        left &= left - 1;
        let value = u64::from_le_bytes(values[place]);
        let difference = value.wrapping_sub(std::mem::replace(&mut expected[place], value)) as i64;
        // Folding moves the sign to the lowest bit.
        let folded = (difference << 1 ^ difference >> 63) as u64;
        let kind = usize::from(folded >= 1 << 6)
            + usize::from(folded >= 1 << 14)
            + usize::from(folded >= 1 << 30);
        let mut bytes = [0; MOST_VALUE_BYTES];
        bytes[..8].copy_from_slice(&(folded << 2 | kind as u64).to_le_bytes());
        if kind == 3 {
            bytes[1..].copy_from_slice(&folded.to_le_bytes());
        }
        column.put(bytes, VALUE_BYTES[kind]);
    }
    changed
}

/// Reads the next difference of a column; `None` if the column ends within it.
#[inline]
pub fn read_difference(column: &mut &[u8]) -> Option<u64> {
    // Except near the end of the column, enough bytes are left for the longest difference. Then a
    // difference is read without a branch for each length.
    let Some([first, rest @ ..]) = column.first_chunk::<MOST_VALUE_BYTES>() else {
        return read_last_difference(column);
    };
    let kind = usize::from(first & 3);
    let rest = u64::from_le_bytes(*rest);
    let short = (rest << 8 | u64::from(*first)) & SHORT[kind];
    let folded = if kind == 3 { rest } else { short >> 2 };
    *column = &column[VALUE_BYTES[kind]..];
    Some(folded >> 1 ^ (folded & 1).wrapping_neg())
}

/// Reads a difference near the end of a column, where fewer than [`MOST_VALUE_BYTES`] bytes are
/// left.
#[cold]
fn read_last_difference(column: &mut &[u8]) -> Option<u64> {
    let kind = usize::from(column.first()? & 3);
    let folded = if kind == 3 {
        *column = column.get(1..)?;
        u64::from_le_bytes(take(column, 8)?.try_into().ok()?)
    } else {
        let bytes = take(column, VALUE_BYTES[kind])?;
        let mut padded = [0; 8];
        padded[..bytes.len()].copy_from_slice(bytes);
        u64::from_le_bytes(padded) >> 2
    };
    Some(folded >> 1 ^ (folded & 1).wrapping_neg())
}
