//! What a translated program writes about its accesses to memory, and how the accesses follow from
//! that.
//!
//! Each thread writes a series of little-endian units of 8 bytes:
//!
//! | low 4 bytes | high 4 bytes | units that follow | |
//! |---|---|---|---|
//! | number of a block, from 1 on | 0 | its slots | the block is executed |
//! | [`NOTE`], a kind in bits 28 to 30, and a payload in the bits below | 0, or another note | what the kind says | a note |
//!
//! A *slot* is the value of a register, or the sum of two, that address memory or that such values
//! are computed of. Slots of [`Lanes`] are masks, and parts of vectors with indexes.
//! [`BlockAccesses`] states, for each block, how many slots it has, which values are [`Derived`] of
//! them, and how the address of each access follows from these. A block has been executed as a
//! whole, unless a note of the kind [`CUT`] follows it.
//!
//! A *path* is several blocks that are executed one after the other, and record their accesses
//! together. It has a number for each of its blocks: that of those up to there, which is written if
//! the path is left behind them. A path that is executed again and again may have a second
//! description for executions right behind another one, in which values that are [`Kept`] have no
//! slots. Such executions follow in the same chunk.
//!
//! # The file
//!
//! [`MAGIC`], [`VERSION`] in 4 bytes, flags in 4 bytes (0 or [`CHOSEN`]), and then chunks. All
//! numbers are little-endian.
//!
//! | offset in a chunk | bytes | |
//! |---|---|---|
//! | 0 | 4 | kind: [`FUNCTIONS`], [`BLOCKS`], [`UNITS`], [`GAP`], [`UNRECORDED`], [`REGION`] or [`END`] |
//! | 4 | 4 | number of the thread in the system, of [`UNITS`]; 0 otherwise |
//! | 8 | 4 | number of bytes that follow the header |
//! | 12 | 4 | number of bytes of the content, at most [`MOST_BYTES`] |
//! | 16 | 4 | CRC-32 (IEEE 802.3) of the bytes that follow |
//! | 20 | | of [`UNITS`]: the base of the segment `fs` of the thread before them, in 8 bytes; then the content as a frame of zstd (RFC 8878) |
//!
//! # Units in the file
//!
//! Units are in columns, and mostly follow from those before them: a number is expected to be
//! followed by the number that followed it the last time in the chunk, and a slot to have the value
//! of the last time, or 0 at first. The slots of all numbers of a path are the same ones.
//!
//! | offset in the content | bytes | |
//! |---|---|---|
//! | 0 | 4 | number of bytes of the units, at most [`MOST_BYTES`] |
//! | 4 | 12 | number of bytes of the first three columns, 4 bytes each |
//! | 16 | | the columns: controls, changes, numbers, values |
//!
//! - A *control* has one byte for each executed block or path, for each note, and for a unit behind
//!   it that the note announces: bit 0, [`OTHER_NUMBER`]: the number is not the expected one, but
//!   in 4 bytes in the numbers; bit 1, [`RAW_UNIT`]: a unit as it is, in 8 bytes in the numbers;
//!   bits 2 to 7: which of its first slots do not have the expected value.
//! - The *changes* have one byte for each further 8 slots: which of them do not have the expected
//!   value.
//! - The *values* have one entry for each slot that is not as expected, in order: the difference
//!   between its value and the expected one, as a zigzag number (0, -1, 1, -2 become 0, 1, 2, 3).
//!   The lowest two bits of the first byte state the length: with 0, 1 and 2 the entry has 1, 2 and
//!   4 bytes, and the zigzag number is in its other bits; with 3 it follows in 8 further bytes.
//!
//! Functions, and blocks and paths, are numbered from 1 on, in the order of the file. Functions are
//! described before their blocks, and blocks before units contain their numbers. Units of a thread
//! begin with a number or a note in each chunk. A file without [`END`] is cut.

mod accuracy;
mod block;
mod chunk;
mod derived;
mod function;
mod kept;
mod lanes;
mod others;
mod region;
mod unrecorded;

pub use accuracy::Accuracy;
pub use block::{Access, BlockAccesses, MOST_DERIVED, MOST_PARTS, MOST_SLOTS, Made, Part, Place};
pub use chunk::{CHUNK_HEADER_BYTES, ChunkHeader, HEADER_BYTES, header};
pub use derived::{Derived, Operation};
pub use function::Function;
pub use kept::{Kept, MOST_KEPT, Repeated};
pub use lanes::{LaneOrder, Lanes};
pub use others::{Known, MOST_ACCESSES, Other};
pub use region::RecordedRegion;
pub use unrecorded::{Continuation, Unrecorded};

/// First bytes of a file.
pub const MAGIC: [u8; 8] = *b"HMTTACCS";
/// Version of the format.
pub const VERSION: u32 = 8;
/// Oldest version that is read. Version 7 has no [`REGION`]. Version 6 has no [`Lanes`] either: its
/// masked accesses have the size of all elements, and its gathers one element without an address.
pub const OLDEST_VERSION: u32 = 6;
/// Flag of a file: only some of the accesses were to be recorded.
pub const CHOSEN: u32 = 1;
/// Kind of a chunk: descriptions of blocks, as [`BlockAccesses`] defines them.
pub const BLOCKS: u32 = 1;
/// Kind of a chunk: units of a thread.
pub const UNITS: u32 = 2;
/// Kind of a chunk, the last one: 8 bytes with the number of words of 4 bytes that threads have
/// dropped, and 8 bytes with the number of threads whose last units are missing.
pub const END: u32 = 3;
/// Kind of a chunk: descriptions of functions, as [`Function`] defines them.
pub const FUNCTIONS: u32 = 4;
/// Kind of a chunk: 8 bytes with the nanoseconds for which the program ran natively here, as was
/// asked for.
pub const GAP: u32 = 5;
/// Kind of a chunk: what has run natively although that was not asked for, as [`Unrecorded`]
/// defines it. There is none if there is nothing of it; of several chunks, the last one is valid.
pub const UNRECORDED: u32 = 6;
/// Kind of a chunk: only a region of the instructions of a thread was to be recorded, as
/// [`RecordedRegion`] defines it. There is none if all were; of several chunks, the last one is
/// valid.
pub const REGION: u32 = 7;
/// Most bytes of the content of a chunk, and of the units in it.
pub const MOST_BYTES: usize = 1 << 22;
/// Most bytes of all descriptions of functions and blocks, which readers keep. Those of a million
/// blocks have about as many.
pub const MOST_DESCRIBED: usize = 256 << 20;
/// Bytes of the base of the segment `fs` before the columns of units.
pub const FS_BYTES: usize = 8;
/// Bytes before the columns of units.
pub const COLUMNS_HEADER_BYTES: usize = 16;
/// Bit of a control: the number is not the expected one.
pub const OTHER_NUMBER: u8 = 1;
/// Bit of a control: a unit as it is.
pub const RAW_UNIT: u8 = 2;
/// How many slots a control tells the changes of.
pub const FIRST_CHANGES: usize = 6;
/// Bytes of a value, by the lowest two bits of its first byte.
pub const VALUE_BYTES: [usize; 4] = [1, 2, 4, 9];

/// Bytes of a unit, and so of a slot.
pub const SLOT_BYTES: usize = 8;
/// Bit of notes.
pub const NOTE: u32 = 1 << 31;
/// First bit of the kind of a note.
pub const KIND_SHIFT: u32 = 28;
/// Bits of the payload of a note.
pub const PAYLOAD: u32 = (1 << KIND_SHIFT) - 1;
/// Kind of a note: the next block does not follow the last one.
pub const START: u32 = 0;
/// Kind of a note: a system call is made. The payload is its number.
pub const CALL: u32 = 1;
/// Kind of a note, in the high bytes of a [`CALL`]: the system call has returned. The payload is
/// its duration.
pub const TIME: u32 = 2;
/// Kind of a note: of the last block or path only as many instructions were executed as the payload
/// says. If the next one is a repeated string instruction, its elements up to then were accessed.
pub const CUT: u32 = 3;
/// Kind of a note: a unit with the base address of the segment `fs` follows.
pub const FS_BASE: u32 = 4;
/// Kind of a note: a unit follows with the number of words of 4 bytes that the thread has dropped
/// here, before the next block.
pub const LOST: u32 = 5;
/// Kind of a note: before the next block, the thread has executed code natively, whose accesses are
/// missing.
pub const NATIVE: u32 = 6;
/// Value of a slot after a string instruction that has not begun. It is no number of elements.
pub const NOT_BEGUN: u64 = u64::MAX >> 1;

/// A note of a kind.
pub const fn note(kind: u32, payload: u32) -> u32 {
    NOTE | kind << KIND_SHIFT | payload & PAYLOAD
}

/// The kind and the payload of a note; `None` for another word.
#[inline]
pub const fn parse_note(word: u32) -> Option<(u32, u32)> {
    if word & NOTE == 0 { None } else { Some(((word & !NOTE) >> KIND_SHIFT, word & PAYLOAD)) }
}

/// Takes bytes from the start of others.
fn take<'a, const COUNT: usize>(bytes: &mut &'a [u8]) -> Option<&'a [u8; COUNT]> {
    let (taken, rest) = bytes.split_first_chunk()?;
    *bytes = rest;
    Some(taken)
}
