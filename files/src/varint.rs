//! Encodes and decodes numbers of variable length: 7 bits in each byte, the lowest bits first
//! (LEB128).

/// Maximum number of bytes of a number.
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

/// Appends a number to bytes.
pub fn push(number: u64, bytes: &mut Vec<u8>) {
    let mut buffer = [0; BYTES_AT_MOST];
    let length = write(number, &mut buffer);
    bytes.extend_from_slice(&buffer[..length]);
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
