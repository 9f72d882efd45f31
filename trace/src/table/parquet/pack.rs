//! Packs values into the bytes of a page, in the encodings of Parquet that HMTT writes.

/// Number of values of a block of differences.
const BLOCK: usize = PART * PARTS;
/// Number of values of a part of a block (a miniblock). Each part has its own bit width.
const PART: usize = 64;
/// Number of parts of a block.
const PARTS: usize = 4;

/// Packs booleans as PLAIN: 8 values in a byte, the first value in the lowest bit.
pub(super) fn bits(values: &[bool], page: &mut Vec<u8>) {
    // Multiplication by this constant collects 8 bytes of 0 or 1 as the bits of the highest byte.
    const GATHER: u64 = 0x0102_0408_1020_4080;
    let (eights, rest) = values.as_chunks::<8>();
    page.extend(eights.iter().map(|[a, b, c, d, e, f, g, h]| {
        let eight =
            [*a as u8, *b as u8, *c as u8, *d as u8, *e as u8, *f as u8, *g as u8, *h as u8];
        (u64::from_le_bytes(eight).wrapping_mul(GATHER) >> 56) as u8
    }));
    if !rest.is_empty() {
        let bits = rest.iter().zip(0..).map(|(value, at)| u8::from(*value) << at);
        page.push(bits.sum());
    }
}

/// Packs numbers as PLAIN: 8 bytes each, little-endian.
pub(super) fn plain(values: &[i64], page: &mut Vec<u8>) {
    page.extend(values.iter().flat_map(|value| value.to_le_bytes()));
}

/// Packs numbers as BYTE_STREAM_SPLIT: the lowest bytes of all values, then their second bytes, and
/// so on. `greatest`: an upper bound of all values as unsigned numbers. The bytes above its highest
/// byte are 0 in all values, so they are not computed.
pub(super) fn split_bytes(values: &[i64], greatest: u64, page: &mut Vec<u8>) {
    for shift in (0..u64::BITS).step_by(8) {
        if greatest >> shift == 0 {
            page.resize(page.len() + values.len(), 0);
        } else {
            page.extend(values.iter().map(|value| (value >> shift) as u8));
        }
    }
}

/// Packs numbers as DELTA_BINARY_PACKED: the first value, then blocks of differences between
/// adjacent values. The least difference of a block is subtracted from all of its differences. The
/// values 10, 12, 15 have the differences 2 and 3, which are stored as the least difference 2 and
/// the numbers 0 and 1.
pub(super) fn differences(values: &[i64], page: &mut Vec<u8>) {
    let (first, rest) = values.split_first().map_or((0, values), |(first, rest)| (*first, rest));
    [BLOCK, PARTS, values.len()].into_iter().for_each(|number| varint(number as u64, page));
    zigzag(first, page);
    let mut last = first;
    for block in rest.chunks(BLOCK) {
        let (mut packed, mut least) = ([0; BLOCK], i64::MAX);
        for (difference, value) in packed.iter_mut().zip(block) {
            *difference = value.wrapping_sub(last) as u64;
            least = least.min(*difference as i64);
            last = *value;
        }
        // The elements after the last value remain 0.
        let differences = &mut packed[..block.len()];
        differences.iter_mut().for_each(|number| *number = number.wrapping_sub(least as u64));
        zigzag(least, page);
        let (parts, _) = packed.as_chunks::<PART>();
        let width = |part: &[u64; PART]| {
            u64::BITS - part.iter().fold(0, |bits, number| bits | number).leading_zeros()
        };
        page.extend(parts.iter().map(|part| width(part) as u8));
        parts.iter().for_each(|part| numbers(part, width(part), page));
    }
}

/// Packs the lowest `width` bits of each number, the first number in the lowest bits.
fn numbers(values: &[u64; PART], width: u32, page: &mut Vec<u8>) {
    if width == 0 {
        return;
    }
    let (mut word, mut filled) = (0, 0);
    for value in values {
        word |= value << filled;
        filled += width;
        if filled >= u64::BITS {
            page.extend_from_slice(&u64::to_le_bytes(word));
            filled -= u64::BITS;
            word = if filled == 0 { 0 } else { value >> (width - filled) };
        }
    }
}

/// Packs a number in groups of 7 bits, the lowest group first (ULEB128).
pub(super) fn varint(mut number: u64, page: &mut Vec<u8>) {
    while number >= 0x80 {
        page.push(number as u8 | 0x80);
        number >>= 7;
    }
    page.push(number as u8);
}

/// Packs a signed number in zigzag encoding: 0, -1, 1, -2 become 0, 1, 2, 3, so that numbers near 0
/// stay small.
fn zigzag(number: i64, page: &mut Vec<u8>) {
    varint((number << 1 ^ number >> 63) as u64, page);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn bits_are_packed_lowest_first(values in prop::collection::vec(any::<bool>(), 0..40)) {
            let mut page = Vec::new();
            bits(&values, &mut page);
            prop_assert_eq!(page.len(), values.len().div_ceil(8));
            for (at, value) in values.iter().enumerate() {
                prop_assert_eq!(page[at / 8] >> (at % 8) & 1 == 1, *value);
            }
        }

        #[test]
        fn bytes_are_split_lowest_first(
            values in prop::collection::vec(any::<u64>(), 0..40),
            shift in 0..64u32,
        ) {
            let values: Vec<i64> = values.iter().map(|value| (value >> shift) as i64).collect();
            let greatest = values.iter().map(|value| *value as u64).max().unwrap_or(0);
            let mut page = Vec::new();
            split_bytes(&values, greatest, &mut page);
            for (at, value) in values.iter().enumerate() {
                for (byte, expected) in value.to_le_bytes().into_iter().enumerate() {
                    prop_assert_eq!(page[byte * values.len() + at], expected);
                }
            }
        }
    }

    #[test]
    fn differences_of_one_size_take_no_bits() {
        let mut page = Vec::new();
        differences(&[7, 10, 13], &mut page);
        // 256 values in a block, 4 parts, 3 values in total, first value 7. Then the block: least
        // difference 3, and a width of 0 for each part.
        assert_eq!(page, [0x80, 2, 4, 3, 14, 6, 0, 0, 0, 0]);
    }
}
