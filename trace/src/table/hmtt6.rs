//! Writes and reads rows as the 6-byte records in which the HMTT group publishes its traces.
//!
//! ```text
//! 47      40 39      32  31  30                            0
//! | Seq_num | Duration | R/W | Phy_addr: number of a 64-byte line |   little-endian
//! ```
//!
//! The layout and the meaning of its fields follow the published traces of SPEC CPU 2017 and their
//! readers (`docs/convert.md` names them and states the assumptions made here). The format has
//! accesses only, and their clocks only as differences.

mod reader;
mod writer;

pub use reader::Hmtt6Reader;
pub use writer::Hmtt6Writer;

/// Size of a record, in bytes.
pub const RECORD_BYTES: usize = 6;
/// log2 of the bytes of a line.
const LINE_LOG2: u32 = 6;
/// Width of a line number, in bits: addresses below 128 GiB.
const LINE_BITS: u32 = 31;
/// Clocks that an empty record stands for. An empty record is 0 except for its sequence number; a
/// reader also ignores its direction.
const EMPTY_CLOCKS: u64 = 256;

/// The fields of one record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// Number of the record, modulo 256.
    pub sequence: u8,
    /// Clocks since the previous record.
    pub duration: u8,
    /// Whether the access is a read.
    pub read: bool,
    /// Number of the 64-byte line, below 2^31.
    pub line: u32,
}

impl Record {
    /// Packs the record. Bits of the line number beyond the width of its field are dropped.
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

    /// Whether the record is no access but stands for [`EMPTY_CLOCKS`] clocks. The direction does
    /// not matter: the published readers ignore it too.
    const fn is_empty(self) -> bool {
        self.duration == 0 && self.line == 0
    }
}

/// The address range that the memory map of a machine reserves for devices (memory-mapped I/O). The
/// machine has the memory from offset `base` on at addresses from twice `base` on. The card counts
/// offsets in memory, without the hole. A `base` of 0 means that there is no hole.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MmioHole {
    /// First address of the hole, and also its size, in bytes.
    pub base: u64,
}

impl MmioHole {
    /// Converts an offset in memory, as the card records it, to an address of the machine.
    fn to_machine(self, address: u64) -> u64 {
        if self.base != 0 && address >= self.base {
            address.saturating_add(self.base)
        } else {
            address
        }
    }

    /// Converts an address of the machine to an offset in memory; `None` for an address in the
    /// hole.
    fn to_card(self, address: u64) -> Option<u64> {
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
        fn records_decode_to_what_was_encoded(sequence: u8, duration: u8, read: bool, line in 0u32..1 << 31) {
            let record = Record { sequence, duration, read, line };
            prop_assert_eq!(Record::decode(record.encode()), record);
        }

        #[test]
        fn bytes_encode_to_what_was_decoded(bytes: [u8; 6]) {
            prop_assert_eq!(Record::decode(bytes).encode(), bytes);
        }

        #[test]
        fn the_two_directions_of_the_hole_are_inverse(base in 0u64..1 << 40, address in 0u64..1 << 50) {
            let hole = MmioHole { base };
            prop_assert_eq!(hole.to_card(hole.to_machine(address)), Some(address));
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
