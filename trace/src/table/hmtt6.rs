//! Rows to the 6-byte records in which the HMTT group publishes its traces, and back.
//!
//! ```text
//! 47      40 39      32  31  30                            0
//! | Seq_num | Duration | R/W | Phy_addr: number of a 64-byte line |   little-endian
//! ```
//!
//! The layout and the meaning of its fields are those of the published traces of SPEC CPU 2017 and of
//! their readers (`docs/convert.md` names them and says what we assume). The format holds accesses
//! only, and clocks only as differences.

mod reader;
mod writer;

pub use reader::Hmtt6Reader;
pub use writer::Hmtt6;

/// Bytes of a record.
pub const RECORD_BYTES: usize = 6;
/// log2 of the bytes a line number counts.
const LINE_LOG2: u32 = 6;
/// Bits of a line number: addresses below 128 GiB.
const LINE_BITS: u32 = 31;
/// Clocks that a record of nothing but a sequence number stands for.
const EMPTY_CLOCKS: u64 = 256;

/// One record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// Counts records modulo 256.
    pub sequence: u8,
    /// Clocks since the record before.
    pub duration: u8,
    /// It is a read.
    pub read: bool,
    /// Number of the line, below 2^31.
    pub line: u32,
}

impl Record {
    /// Packs the record; bits of the line number beyond the field are dropped.
    pub const fn encode(self) -> [u8; RECORD_BYTES] {
        let [a, b, c, d] =
            (self.line & !(1 << LINE_BITS) | (self.read as u32) << LINE_BITS).to_le_bytes();
        [a, b, c, d, self.duration, self.sequence]
    }

    /// Unpacks a record.
    pub const fn decode(bytes: [u8; RECORD_BYTES]) -> Record {
        let [a, b, c, d, duration, sequence] = bytes;
        let low = u32::from_le_bytes([a, b, c, d]);
        let (read, line) = (low >> LINE_BITS != 0, low & !(1 << LINE_BITS));
        Record { sequence, duration, read, line }
    }

    /// Whether it is no access but [`EMPTY_CLOCKS`] clocks. The published readers do not look at the
    /// direction for this.
    const fn is_empty(self) -> bool {
        self.duration == 0 && self.line == 0
    }
}

/// The hole that a machine leaves in its physical addresses for devices: memory from `base` on
/// appears at twice `base`, but the card, which sees the memory, counts on. 0: no hole.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Hole {
    /// Where the hole begins; also its size.
    pub base: u64,
}

impl Hole {
    /// The machine's address for the card's.
    fn open(self, address: u64) -> u64 {
        if self.base != 0 && address >= self.base {
            address.saturating_add(self.base)
        } else {
            address
        }
    }

    /// The card's address for the machine's; none within the hole.
    fn close(self, address: u64) -> Option<u64> {
        if self.base == 0 || address < self.base {
            return Some(address);
        }
        address.checked_sub(self.base).filter(|address| *address >= self.base)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn records_come_back(sequence: u8, duration: u8, read: bool, line in 0u32..1 << 31) {
            let record = Record { sequence, duration, read, line };
            prop_assert_eq!(Record::decode(record.encode()), record);
        }

        #[test]
        fn bytes_come_back(bytes: [u8; 6]) {
            prop_assert_eq!(Record::decode(bytes).encode(), bytes);
        }

        #[test]
        fn what_the_hole_moves_it_moves_back(base in 0u64..1 << 40, address in 0u64..1 << 50) {
            let hole = Hole { base };
            prop_assert_eq!(hole.close(hole.open(address)), Some(address));
        }
    }

    #[test]
    fn fields_are_where_the_published_figure_has_them() {
        let record = Record { sequence: 0x81, duration: 0x42, read: true, line: 0x1234_5678 };
        let mut word = [0; 8];
        word[..RECORD_BYTES].copy_from_slice(&record.encode());
        let word = u64::from_le_bytes(word);
        assert_eq!(word, 0x81 << 40 | 0x42 << 32 | 1 << 31 | 0x1234_5678);
    }
}
