//! Encodes and decodes numbers of variable length: 7 bits in each byte, the lowest bits first
//! (LEB128).

/// Most bytes of a number.
pub const BYTES_AT_MOST: usize = 10;

/// Writes a number and returns its length in bytes. `output` must have at least [`BYTES_AT_MOST`]
/// bytes.
#[inline]
pub fn write(mut number: u64, output: &mut [u8]) -> usize {
    let mut length = 0;
    while number >= 0x80 {
        output[length] = number as u8 | 0x80;
        number >>= 7;
        length += 1;
    }
    output[length] = number as u8;
    length + 1
}

/// Reads a number from the start of `input`, and advances `input`; `None` if the number is
/// truncated or has more than 64 bits.
#[inline(always)]
pub fn read(input: &mut &[u8]) -> Option<u64> {
    let (&first, rest) = input.split_first()?;
    *input = rest;
    if first < 0x80 {
        return Some(u64::from(first));
    }
    read_on(u64::from(first & 0x7f), input)
}

#[inline]
fn read_on(mut number: u64, input: &mut &[u8]) -> Option<u64> {
    let mut shift = 7;
    loop {
        let (&byte, rest) = input.split_first()?;
        *input = rest;
        let bits = u64::from(byte & 0x7f);
        if shift == 63 && byte > 1 {
            return None;
        }
        number |= bits << shift;
        if byte < 0x80 {
            return Some(number);
        }
        shift += 7;
    }
}

/// Converts a distance on the stack to a number that is small if the distance is small and a
/// multiple of 8, as nearly all distances are: 0, -8, 8, 16 become 0, 1, 2, 4. The high three bits
/// of the number are the remainder of the division by 8.
#[inline]
pub fn fold(distance: i32) -> u32 {
    let words = distance >> 3;
    let folded = (words << 1 ^ words >> 31) as u32;
    folded & (1 << 29) - 1 | (distance as u32 & 7) << 29
}

/// Converts a number of [`fold`] back to the distance.
#[inline]
pub fn unfold(number: u32) -> i32 {
    let folded = number & (1 << 29) - 1;
    let words = (folded >> 1) as i32 ^ -((folded & 1) as i32);
    words << 3 | (number >> 29) as i32
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn numbers_survive(number: u64, high in 0u32..64) {
            let number = number >> high;
            let mut bytes = [0; BYTES_AT_MOST];
            let length = write(number, &mut bytes);
            let mut input = &bytes[..length];
            prop_assert_eq!(read(&mut input), Some(number));
            prop_assert!(input.is_empty());
            prop_assert_eq!(read(&mut &bytes[..length - 1]), None);
        }

        #[test]
        fn distances_survive(distance: i32, high in 0u32..32) {
            let distance = distance >> high;
            prop_assert_eq!(unfold(fold(distance)), distance);
        }
    }

    #[test]
    fn near_words_are_small_and_all_else_survives() {
        assert_eq!([0, -8, 8, -512, 504].map(fold), [0, 1, 2, 127, 126]);
        for distance in [i32::MIN, i32::MIN + 1, i32::MAX, -1, 1, 7, -7] {
            assert_eq!(unfold(fold(distance)), distance);
        }
    }

    #[test]
    fn more_than_64_bits_are_no_number() {
        let mut bytes = [0xff; BYTES_AT_MOST];
        bytes[9] = 1;
        assert_eq!(read(&mut &bytes[..]), Some(u64::MAX));
        bytes[9] = 2;
        assert_eq!(read(&mut &bytes[..]), None);
        bytes[9] = 0x81;
        assert_eq!(read(&mut &bytes[..]), None);
    }
}
