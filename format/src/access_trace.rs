//! What a translated program writes about its accesses to memory, and how the accesses follow from that.
//!
//! Each thread writes a series of little-endian words of 4 bytes:
//!
//! | word | then | |
//! |---|---|---|
//! | number of a block, from 1 on | its slots, 8 bytes each | the block is executed |
//! | [`NOTE`], a kind in bits 28 to 30, and a payload in the bits below | what the kind says | a note |
//!
//! A *slot* is the value of one or two registers that address memory. [`BlockAccesses`] states, for each block, how many slots
//! it has and how the address of each access follows from them. A block has been executed as a whole, unless a note of the
//! kind [`CUT`] follows it.

mod block;

pub use block::{Access, BlockAccesses, Made, Place};

/// Bytes of a word.
pub const WORD_BYTES: usize = 4;
/// Bytes of a slot.
pub const SLOT_BYTES: usize = 8;
/// Bit of words that are notes.
pub const NOTE: u32 = 1 << 31;
/// First bit of the kind of a note.
pub const KIND_SHIFT: u32 = 28;
/// Bits of the payload of a note.
pub const PAYLOAD: u32 = (1 << KIND_SHIFT) - 1;
/// Kind of a note: the next block does not follow the last one.
pub const START: u32 = 0;
/// Kind of a note: a system call is made. The payload is its number.
pub const CALL: u32 = 1;
/// Kind of a note: a system call has returned. The payload is its duration.
pub const TIME: u32 = 2;
/// Kind of a note: of the last block only as many instructions were executed as the payload says. If the next one is a
/// repeated string instruction, its elements up to then were accessed.
pub const CUT: u32 = 3;
/// Kind of a note: 8 bytes with the base address of the segment `fs` follow.
pub const FS_BASE: u32 = 4;
/// Value of a slot after a string instruction that has not begun. It is no number of elements.
pub const NOT_BEGUN: u64 = u64::MAX >> 1;

/// A note of a kind.
pub const fn note(kind: u32, payload: u32) -> u32 {
    NOTE | kind << KIND_SHIFT | payload & PAYLOAD
}

/// The kind and the payload of a note; `None` for another word.
pub const fn parse_note(word: u32) -> Option<(u32, u32)> {
    if word & NOTE == 0 { None } else { Some(((word & !NOTE) >> KIND_SHIFT, word & PAYLOAD)) }
}
