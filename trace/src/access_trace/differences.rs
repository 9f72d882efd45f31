//! The values of slots that are not as expected, in bytes: by how much they differ.

use hmtt_format::access_trace::{SLOT_BYTES, VALUE_BYTES};

use super::column::{Column, take};

/// Most bytes of a value, which are written before it is known how many it has.
pub const MOST_VALUE_BYTES: usize = 9;

/// The bits of a value with its length, by the lowest two bits; of one that has its length apart,
/// none.
const SHORT: [u64; 4] = [0xff, 0xffff, 0xffff_ffff, 0];

/// Compares at most eight values with the expected ones, which they replace, and writes by how much
/// they differ. Returns which differ. [`MOST_VALUE_BYTES`] were reserved in the column for each
/// value.
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
        // The sign becomes the lowest bit.
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

/// Reads the next difference of a column.
#[inline]
pub fn read_difference(column: &mut &[u8]) -> Option<u64> {
    // Mostly there are as many bytes as the longest one has: then there is no branch for each
    // length.
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

/// Reads a difference near the end of a column.
#[cold]
fn read_last_difference(column: &mut &[u8]) -> Option<u64> {
    let kind = usize::from(column.first()? & 3);
    let folded = if kind == 3 {
        *column = column.get(1..)?;
        u64::from_le_bytes(take(column, 8)?.try_into().ok()?)
    } else {
        let bytes = take(column, VALUE_BYTES[kind])?;
        let mut all = [0; 8];
        all[..bytes.len()].copy_from_slice(bytes);
        u64::from_le_bytes(all) >> 2
    };
    Some(folded >> 1 ^ (folded & 1).wrapping_neg())
}
