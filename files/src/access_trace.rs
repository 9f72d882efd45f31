//! Defines what a translated program writes about its memory accesses, and how the addresses follow
//! from it.
//!
//! Each thread writes a series of little-endian units of 8 bytes:
//!
//! | low 4 bytes | high 4 bytes | units that follow | |
//! |---|---|---|---|
//! | number of a block, from 1 on | 0 | its slots | the block is executed |
//! | [`NOTE`], a kind in bits 28 to 30, and a payload in the bits below | 0, or another note | depends on the kind | a note |
//!
//! A *slot* contains the value of a register, or the sum of two registers. The value addresses
//! memory, or an address is computed from it. Slots of [`Lanes`] are masks, and parts of vectors
//! with indexes. For each block, [`BlockAccesses`] states the number of slots, the values that are
//! [`Derived`] from slots, and how the address of each access follows from these values. A block
//! was executed completely, unless a note of the kind [`CUT`] follows it.
//!
//! A *path* is a series of blocks that are executed one after the other and record their accesses
//! together. A path has one number for each of its blocks. If a thread leaves a path of three
//! blocks after the second one, it writes the number of the first two blocks. A path that is
//! executed again and again may have a second description. That one is for executions directly
//! after another execution of the path; values that are [`Kept`] from the previous execution have
//! no slots in it. Such an execution is in the same chunk as the execution before it.
//!
//! # The file
//!
//! [`MAGIC`], [`VERSION`] in 4 bytes, flags in 4 bytes (0 or [`CHOSEN`]), and then chunks. All
//! numbers are little-endian.
//!
//! | offset in a chunk | bytes | |
//! |---|---|---|
//! | 0 | 4 | kind: [`FUNCTIONS`], [`BLOCKS`], [`UNITS`], [`GAP`], [`UNRECORDED`], [`REGION`] or [`END`] |
//! | 4 | 4 | for [`UNITS`]: number of the thread in the system; 0 otherwise |
//! | 8 | 4 | number of bytes that follow the header |
//! | 12 | 4 | number of bytes of the content, at most [`MOST_BYTES`] |
//! | 16 | 4 | CRC-32 (IEEE 802.3) of the bytes that follow |
//! | 20 | | for [`UNITS`]: the thread's base of the segment `fs` before the units, in 8 bytes; then the content as a zstd frame (RFC 8878) |
//!
//! # Units in the file
//!
//! Units are stored in columns, as differences from what a reader expects. A reader expects a
//! number to be followed by the number that followed it last time in the chunk. It expects a slot
//! to have the same value as last time, or 0 at first. All numbers of a path share the same slots.
//!
//! | offset in the content | bytes | |
//! |---|---|---|
//! | 0 | 4 | number of bytes of the units, at most [`MOST_BYTES`] |
//! | 4 | 12 | number of bytes of the first three columns, 4 bytes each |
//! | 16 | | the columns: controls, changes, numbers, values |
//!
//! - The *controls* have one byte for each executed block or path, for each note, and for each unit
//!   that a note announces. Bit 0, [`OTHER_NUMBER`]: the number is not the expected one, but is
//!   stored as 4 bytes in the numbers. Bit 1, [`RAW_UNIT`]: the unit is stored unchanged, as 8
//!   bytes in the numbers. Bits 2 to 7: which of the first six slots do not have the expected
//!   value.
//! - The *changes* have one byte for every 8 further slots, which states the slots that do not have
//!   the expected value.
//! - The *values* have one entry for each slot that is not as expected, in order: the difference
//!   between its value and the expected one, as a zigzag number (0, -1, 1, -2 become 0, 1, 2, 3).
//!   The lowest two bits of the first byte state the length: with 0, 1 and 2 the entry has 1, 2 and
//!   4 bytes, and the zigzag number is in its other bits; with 3 it follows in 8 further bytes.
//!
//! Functions are numbered from 1 on, in the order of the file; so are blocks and paths, in a range
//! of their own. The description of a function precedes its blocks, and the description of a block
//! precedes units with its number. In each chunk, the units of a thread begin with a number or a
//! note. A file without [`END`] is truncated.

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
/// Version of the format that is written.
pub const VERSION: u32 = 8;
/// Oldest version that is read. Version 7 has no [`REGION`]. Version 6 also has no [`Lanes`]: a
/// masked access has the size of all elements, and a gather has one element without an address.
pub const OLDEST_VERSION: u32 = 6;
/// Flag of a file: only a selection of the accesses was to be recorded.
pub const CHOSEN: u32 = 1;
/// Kind of a chunk: descriptions of blocks, as [`BlockAccesses`] defines them.
pub const BLOCKS: u32 = 1;
/// Kind of a chunk: units of a thread.
pub const UNITS: u32 = 2;
/// Kind of the last chunk: 8 bytes with the number of 4-byte words that threads have dropped, and 8
/// bytes with the number of threads whose last units are missing.
pub const END: u32 = 3;
/// Kind of a chunk: descriptions of functions, as [`Function`] defines them.
pub const FUNCTIONS: u32 = 4;
/// Kind of a chunk: 8 bytes with the nanoseconds for which the program ran natively here on
/// request.
pub const GAP: u32 = 5;
/// Kind of a chunk: counts of what ran natively without a request, as [`Unrecorded`] defines them.
/// The chunk is missing if all counts are 0. If there are several, the last one is valid.
pub const UNRECORDED: u32 = 6;
/// Kind of a chunk: only a region of the instructions of a thread was to be recorded, as
/// [`RecordedRegion`] defines it. The chunk is missing if all instructions were to be recorded. If
/// there are several, the last one is valid.
pub const REGION: u32 = 7;
/// Maximum number of bytes of the content of a chunk, and of the units in a chunk.
pub const MOST_BYTES: usize = 1 << 22;
/// Maximum number of bytes of all descriptions of functions and blocks, which readers keep in
/// memory. The descriptions of a million blocks need about this much.
pub const MOST_DESCRIBED: usize = 256 << 20;
/// Bytes of the base of the segment `fs`, which precedes the columns of units.
pub const FS_BYTES: usize = 8;
/// Bytes of the lengths that precede the columns of units.
pub const COLUMNS_HEADER_BYTES: usize = 16;
/// Bit of a control: the number is not the expected one.
pub const OTHER_NUMBER: u8 = 1;
/// Bit of a control: a unit is stored unchanged.
pub const RAW_UNIT: u8 = 2;
/// Number of slots whose changes are in the control itself.
pub const FIRST_CHANGES: usize = 6;
/// Bytes of a value, by the lowest two bits of its first byte.
pub const VALUE_BYTES: [usize; 4] = [1, 2, 4, 9];

/// Bytes of a unit, and of a slot.
pub const SLOT_BYTES: usize = 8;
/// Bit that is set in a note, and not in the number of a block.
pub const NOTE: u32 = 1 << 31;
/// First bit of the kind of a note.
pub const KIND_SHIFT: u32 = 28;
/// Bits of the payload of a note.
pub const PAYLOAD: u32 = (1 << KIND_SHIFT) - 1;
/// Kind of a note: the next block does not follow the previous one.
pub const START: u32 = 0;
/// Kind of a note: a system call is made. The payload is its number.
pub const CALL: u32 = 1;
/// Kind of a note, in the high 4 bytes of a [`CALL`]: the system call has returned. The payload is
/// its duration.
pub const TIME: u32 = 2;
/// Kind of a note: only the first instructions of the previous block or path were executed, as many
/// as the payload says. If the next instruction is a repeated string instruction, the elements
/// before the interruption were accessed.
pub const CUT: u32 = 3;
/// Kind of a note: a unit with the base address of the segment `fs` follows.
pub const FS_BASE: u32 = 4;
/// Kind of a note: a unit follows with the number of 4-byte words that the thread dropped here,
/// before the next block.
pub const LOST: u32 = 5;
/// Kind of a note: before the next block the thread executed code natively. The accesses of that
/// code are missing.
pub const NATIVE: u32 = 6;
/// Value of a slot after a string instruction that has not begun. No instruction has so many
/// elements.
pub const NOT_BEGUN: u64 = u64::MAX >> 1;

/// Composes a note from its kind and its payload, whose bits above [`PAYLOAD`] are dropped.
pub const fn note(kind: u32, payload: u32) -> u32 {
    NOTE | kind << KIND_SHIFT | payload & PAYLOAD
}

/// The kind and the payload of a note; `None` for another word.
#[inline]
pub const fn parse_note(word: u32) -> Option<(u32, u32)> {
    if word & NOTE == 0 { None } else { Some(((word & !NOTE) >> KIND_SHIFT, word & PAYLOAD)) }
}

/// Removes an array from the start of `bytes`. `None`, and nothing is removed, if there are too few
/// bytes.
fn take<'a, const COUNT: usize>(bytes: &mut &'a [u8]) -> Option<&'a [u8; COUNT]> {
    let (first, rest) = bytes.split_first_chunk()?;
    *bytes = rest;
    Some(first)
}
