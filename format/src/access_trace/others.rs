//! Accesses that have the wanted direction and function but are not recorded, and what follows for
//! each from a recorded one.
//!
//! | bytes | |
//! |---|---|
//! | 2 | index of its instruction in the block or path |
//! | 2 | bits 0 to 12: index of a recorded access; bits 13 and 14: what follows from that: 0: the address; 1: probably the chunk; 2: nothing, and the index is 0 |

use std::vec::Vec;

use super::take;

/// Most accesses of a block or path that are recorded, and most that are not.
pub const MOST_ACCESSES: usize = 1 << INDEX_BITS;
/// Bits of the index.
const INDEX_BITS: u32 = 13;

/// What is known of an access that is not recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Known {
    /// It has the address of a recorded one, by index, which is not behind it.
    Address(u16),
    /// It is probably in the same chunk of memory as a recorded one, by index: the first one of
    /// which that is so.
    Chunk(u16),
    /// Nothing.
    Nothing,
}

/// An access that might have been recorded: it has the wanted direction, and its function is
/// wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Other {
    /// Index of its instruction in the block or path.
    pub operation: u16,
    /// What is known of it.
    pub known: Known,
}

impl Other {
    /// Adds it to bytes.
    pub(super) fn write(&self, bytes: &mut Vec<u8>) {
        let known = match self.known {
            Known::Address(index) => index,
            Known::Chunk(index) => 1 << INDEX_BITS | index,
            Known::Nothing => 2 << INDEX_BITS,
        };
        bytes.extend(self.operation.to_le_bytes());
        bytes.extend(known.to_le_bytes());
    }

    /// The one at the start of bytes. `None` if there is none.
    pub(super) fn parse(bytes: &mut &[u8]) -> Option<Self> {
        let [a, b, known @ ..] = *take::<4>(bytes)?;
        let known = u16::from_le_bytes(known);
        let index = known & ((1 << INDEX_BITS) - 1);
        let known = match (known >> INDEX_BITS, index) {
            (0, _) => Known::Address(index),
            (1, _) => Known::Chunk(index),
            (2, 0) => Known::Nothing,
            _ => return None,
        };
        Some(Other { operation: u16::from_le_bytes([a, b]), known })
    }
}
