//! Computes the CRC-32 of IEEE 802.3 clause 3.2.9, as zlib does.

const POLYNOMIAL: u32 = 0xedb8_8320;

/// Row *n* contains the effect of each byte on the sum if *n* zero bytes follow. With it, eight
/// bytes are processed at once, four times as fast as one by one.
const TABLES: [[u32; 256]; 8] = tables();

const fn tables() -> [[u32; 256]; 8] {
    let mut tables = [[0; 256]; 8];
    let mut byte = 0;
    while byte < 256 {
        let mut sum = byte as u32;
        let mut bit = 0;
        while bit < 8 {
            sum = sum >> 1 ^ POLYNOMIAL * (sum & 1);
            bit += 1;
        }
        tables[0][byte] = sum;
        byte += 1;
    }
    let mut row = 1;
    while row < 8 {
        let mut byte = 0;
        while byte < 256 {
            let sum: u32 = tables[row - 1][byte];
            tables[row][byte] = sum >> 8 ^ tables[0][sum as usize & 255];
            byte += 1;
        }
        row += 1;
    }
    tables
}

/// The CRC-32 of bytes. `before`: the CRC-32 of the preceding bytes, or 0 if there are none.
pub fn crc32(before: u32, bytes: &[u8]) -> u32 {
    let (words, rest) = bytes.as_chunks::<8>();
    let mut sum = !before;
    for word in words {
        let word = u64::from_le_bytes(*word) ^ u64::from(sum);
        sum = 0;
        for (row, byte) in word.to_le_bytes().iter().enumerate() {
            sum ^= TABLES[7 - row][usize::from(*byte)];
        }
    }
    !rest
        .iter()
        .fold(sum, |sum, byte| sum >> 8 ^ TABLES[0][(sum as usize ^ usize::from(*byte)) & 255])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_are_those_of_the_standard() {
        assert_eq!(crc32(0, b"123456789"), 0xcbf4_3926);
        assert_eq!(crc32(0, b""), 0);
        assert_eq!(crc32(0, &[0; 32]), 0x190a_55ad);
    }

    #[test]
    fn parts_sum_up_as_the_whole() {
        let bytes: [u8; 61] = core::array::from_fn(|at| (at * 37) as u8);
        for at in 0..bytes.len() {
            assert_eq!(crc32(crc32(0, &bytes[..at]), &bytes[at..]), crc32(0, &bytes));
        }
    }
}
