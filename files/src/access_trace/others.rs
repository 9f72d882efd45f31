//! Describes accesses that have the wanted direction and function but are not recorded, and what is
//! known about each from a recorded access.
//!
//! | bytes | |
//! |---|---|
//! | 2 | index of the access's instruction in the block or path |
//! | 2 | bits 0 to 12: index of a recorded access; bits 13 and 14: what is known from it: 0: the address; 1: probably the chunk of memory; 2: nothing, and the index is 0 |

use std::vec::Vec;

use super::take;

/// Maximum number of recorded accesses of a block or path. Also the maximum number of its accesses
/// that are not recorded.
pub const MOST_ACCESSES: usize = 1 << INDEX_BITS;
/// Number of bits of an access's index.
const INDEX_BITS: u32 = 13;

/// What is known about an access that is not recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Known {
    /// The access has the address of the recorded access with this index, which precedes it or
    /// belongs to the same instruction.
    Address(u16),
    /// The access is probably in the same chunk of memory as the recorded access with this index,
    /// the first one for which that holds.
    Chunk(u16),
    /// Neither the address nor the chunk is known.
    Nothing,
}

/// An access that is not recorded although it has the wanted direction and its function is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Other {
    /// Index of the access's instruction in the block or path.
    pub operation: u16,
    /// What is known about the access.
    pub known: Known,
}

impl Other {
    /// Appends the description of the access to `bytes`.
    pub(super) fn write(&self, bytes: &mut Vec<u8>) {
        let known = match self.known {
            Known::Address(index) => index,
            Known::Chunk(index) => 1 << INDEX_BITS | index,
            Known::Nothing => 2 << INDEX_BITS,
        };
        bytes.extend(self.operation.to_le_bytes());
        bytes.extend(known.to_le_bytes());
    }

    /// Parses a description and removes its bytes from the start of `bytes`. `None` if there is no
    /// valid one.
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
