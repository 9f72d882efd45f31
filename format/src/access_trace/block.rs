//! The accesses of a block, or of a path of blocks, and their description in bytes.
//!
//! All numbers are little-endian.
//!
//! | offset | bytes | |
//! |---|---|---|
//! | 0 | 8 | original address of the first instruction |
//! | 8 | 2 | number of instructions |
//! | 10 | 2 | number of slots |
//! | 12 | 2 | number of accesses |
//! | 14 | 2 | number of bytes of the instructions of a block, 0 for a path |
//! | 16 | 2 | number of parts of a path, 0 for a block |
//! | 18 | 2 | number of accesses of its instructions that might be recorded, of which those that are listed were chosen |
//! | 20 | 2 | number of accesses that probably access a chunk of memory which a listed one accesses, too |
//! | 22 | 4 | number of the function that contains its first instruction, from 1 on; 0 if it is not known |
//! | 26 | | the bytes of the instructions, the parts, and then the accesses |
//!
//! | bytes of a part | |
//! |---|---|
//! | 4 | number of its block, which is described before |
//! | 2 | number of instructions of the path up to its end |
//! | 2 | number of slots of the path up to its end |
//!
//! | bytes of an access | |
//! |---|---|
//! | 8 | original address of its instruction |
//! | 2 | index of its instruction |
//! | 2 | number of accesses that it represents, with itself |
//! | 4 | number of bytes that are accessed; of one element if there are several, and 0 if it is not known |
//! | 1 | bit 0: write; bit 1: conditional; bit 2: the base of `fs` is added; bits 4 and 5: where it is |
//! | 8, 10, 10 or 0 | where it is: 0: the address; 1: the number of a slot in 2 bytes, and what is added to it; 2: five numbers of slots, of a count before and after, of the first element, and of a pointer before and after; 3: not known |

use std::ops::Range;
use std::vec::Vec;

use super::{NOT_BEGUN, SLOT_BYTES};
use crate::Direction;

/// Bytes before those of the instructions.
const HEADER_BYTES: usize = 26;
/// Bytes of a part.
const PART_BYTES: usize = 8;
/// Most parts of a path.
pub const MOST_PARTS: usize = 64;
/// Most accesses of a block or path.
pub const MOST_ACCESSES: usize = 1 << 13;
const WRITE: u8 = 1;
const CONDITIONAL: u8 = 2;
const ADDS_FS: u8 = 4;
/// First bit of the kind of a place.
const PLACE_SHIFT: u8 = 4;

/// How the address of an access is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Place {
    /// It is an address in the program.
    Static(u64),
    /// It is the value of a slot plus a constant.
    Slot {
        /// Number of the slot in the block.
        slot: u16,
        /// The constant, in bytes.
        plus: i64,
    },
    /// It has as many elements as a register has become smaller, one after the other.
    Elements {
        /// Slots with the number of elements that are left, before and after the instruction.
        left: [u16; 2],
        /// Slot with the address of the first element.
        first: u16,
        /// Slots with a pointer before and after the instruction, which has become larger or smaller.
        pointer: [u16; 2],
    },
    /// It cannot be found: the addresses depend on more than registers, as those of a gather.
    Unknown,
}

/// An access, and how its address is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Access {
    /// Original address of its instruction.
    pub pc: u64,
    /// Index of its instruction in the block or path.
    pub operation: u16,
    /// Whether it reads or writes.
    pub direction: Direction,
    /// Number of accesses of the block with its address, one of which is recorded.
    pub represents: u16,
    /// Number of bytes; of one element if there are several, and 0 if it is not known.
    pub size: u32,
    /// Whether it depends on other values than the address if memory is accessed.
    pub conditional: bool,
    /// Whether the base of `fs` is added to the address.
    pub adds_fs: bool,
    /// Where it is.
    pub place: Place,
}

/// A block of a path: what was executed if the path was left behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Part {
    /// Number of the block.
    pub block: u32,
    /// Number of instructions of the path up to its end.
    pub instructions: u16,
    /// Number of slots of the path up to its end.
    pub slots: u16,
}

/// The accesses of a block, or of blocks that are executed one after the other, and how many slots they follow from.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct BlockAccesses {
    /// Original address of its first instruction.
    pub start: u64,
    /// Number of the function that contains its first instruction, from 1 on; 0 if it is not known.
    pub function: u32,
    /// Number of its instructions.
    pub instructions: u16,
    /// Number of its slots.
    pub slots: u16,
    /// Original bytes of its instructions, one after the other.
    pub code: Vec<u8>,
    /// Its accesses that are recorded, in program order.
    pub accesses: Vec<Access>,
    /// Number of all its accesses that might be recorded: those of the directions and functions that are wanted.
    pub all: u16,
    /// Number of accesses that none represents, but that are probably in a chunk of memory with a recorded one.
    pub near: u16,
    /// Of a path: its blocks. Each has a number, which is that of the path up to there.
    pub parts: Vec<Part>,
}

/// An access that was made, or those to all elements of a string.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Made {
    /// Original address of its instruction.
    pub pc: u64,
    /// Whether it reads or writes.
    pub direction: Direction,
    /// Its virtual address, or that of the first element; `None` if it is not known.
    pub address: Option<u64>,
    /// Number of bytes; of one element if there are several, and 0 if it is not known.
    pub size: u32,
    /// Number of accesses that it represents, with itself. The others have its address, and may be reads or writes of other
    /// sizes.
    pub represents: u16,
    /// Number of elements, at least 1. An instruction that copies or compares strings accesses one element of each in turn.
    pub elements: u64,
    /// Whether each element is at a lower address than the one before it.
    pub is_down: bool,
    /// Whether memory may not have been accessed.
    pub conditional: bool,
}

impl BlockAccesses {
    /// How many numbers it has: one, or one for each part.
    pub fn numbers(&self) -> usize {
        self.parts.len().max(1)
    }

    /// How many instructions and slots it has if it is executed up to the end of a part. A block is one part.
    pub fn up_to(&self, part: usize) -> (u16, u16) {
        let whole = (self.instructions, self.slots);
        self.parts.get(part).map_or(whole, |part| (part.instructions, part.slots))
    }

    /// Bytes of the slots.
    pub fn slot_bytes(&self) -> usize {
        usize::from(self.slots) * SLOT_BYTES
    }

    /// The accesses that the block has made. `executed`: how many of its instructions were executed. `slots`: the values of
    /// its slots. `fs`: the base of that segment.
    ///
    /// Slots that are missing count as 0. Numbers of elements that do not fit how far the pointer has moved are forged, and
    /// count as 0, too.
    pub fn made(&self, executed: usize, slots: &[u64], fs: u64, add: impl FnMut(Made)) {
        self.made_by(0..self.accesses.len(), executed, slots, fs, add);
    }

    /// Those of some of its accesses, all of each instruction, as [`made`](Self::made) does.
    pub fn made_by(
        &self,
        accesses: Range<usize>,
        executed: usize,
        slots: &[u64],
        fs: u64,
        mut add: impl FnMut(Made),
    ) {
        let value = |slot: u16| slots.get(usize::from(slot)).copied().unwrap_or(0);
        let mut rest = self.accesses.get(accesses).unwrap_or_default();
        while let [first, after @ ..] = rest {
            if usize::from(first.operation) > executed {
                break;
            }
            let is_elements = matches!(first.place, Place::Elements { .. });
            if !is_elements {
                if usize::from(first.operation) < executed {
                    add(first.made(&value, fs, 1));
                }
                rest = after;
                continue;
            }
            let same = rest.iter().take_while(|it| it.operation == first.operation);
            let (all, after) = rest.split_at(same.count());
            rest = after;
            let elements = match first.place {
                Place::Elements { left: [before, after], pointer: [from, to], .. } => {
                    let count = value(before).wrapping_sub(value(after));
                    let distance = value(to).wrapping_sub(value(from)) as i64;
                    let is_right =
                        Some(distance.unsigned_abs()) == count.checked_mul(first.size.into());
                    if value(after) == NOT_BEGUN || !is_right { 0 } else { count }
                }
                _ => 0,
            };
            if elements > 0 {
                all.iter().for_each(|one| add(one.made(&value, fs, elements)));
            }
        }
    }

    /// Adds its description to bytes.
    pub fn write(&self, bytes: &mut Vec<u8>) {
        bytes.extend(self.start.to_le_bytes());
        let counts = [self.accesses.len(), self.code.len(), self.parts.len()];
        let counts = counts.map(|count| count as u16);
        let sums = [self.all, self.near];
        for number in [self.instructions, self.slots].into_iter().chain(counts).chain(sums) {
            bytes.extend(number.to_le_bytes());
        }
        bytes.extend(self.function.to_le_bytes());
        bytes.extend(&self.code);
        for Part { block, instructions, slots } in &self.parts {
            bytes.extend(block.to_le_bytes());
            bytes.extend(instructions.to_le_bytes());
            bytes.extend(slots.to_le_bytes());
        }
        self.accesses.iter().for_each(|access| access.write(bytes));
    }

    /// The block that is described at the start of bytes, and the bytes after it. `None` if they do not describe one.
    pub fn parse(bytes: &[u8]) -> Option<(Self, &[u8])> {
        let (header, rest) = bytes.split_first_chunk::<HEADER_BYTES>()?;
        let number = |at: usize| u16::from_le_bytes([header[at], header[at + 1]]);
        let start = u64::from_le_bytes(*header.first_chunk()?);
        let (instructions, slots, count) = (number(8), number(10), number(12));
        let (all, near) = (number(18), number(20));
        let function = u32::from_le_bytes(*header.last_chunk()?);
        let (code, mut rest) = rest.split_at_checked(number(14).into())?;
        if usize::from(number(16)) > MOST_PARTS || usize::from(count) > MOST_ACCESSES {
            return None;
        }
        let mut parts = Vec::new();
        for _ in 0..number(16) {
            parts.push(Part::parse(take(&mut rest)?));
        }
        // Each instruction of a block has a byte at least.
        let has_code = usize::from(instructions) <= code.len() || !parts.is_empty();
        if !(has_code && are_ascending(&parts, instructions, slots)) {
            return None;
        }
        let mut accesses = Vec::new();
        for _ in 0..count {
            let (access, after) = Access::parse(rest)?;
            let is_valid = access.operation < instructions && access.slots().all(|it| it < slots);
            accesses.push(Some(access).filter(|_| is_valid)?);
            rest = after;
        }
        // Each slot is used by an access, which uses five at most.
        if usize::from(slots) > 5 * accesses.len() {
            return None;
        }
        let code = code.to_vec();
        let block = BlockAccesses {
            start,
            function,
            instructions,
            slots,
            code,
            accesses,
            all,
            near,
            parts,
        };
        Some((block, rest))
    }
}

/// Whether each part ends behind the one before it, and the last one ends the path.
fn are_ascending(parts: &[Part], instructions: u16, slots: u16) -> bool {
    let ends = |part: &Part| (part.instructions, part.slots);
    let is_ascending = parts
        .is_sorted_by(|one, next| one.instructions <= next.instructions && one.slots <= next.slots);
    is_ascending && parts.last().map(ends).is_none_or(|last| last == (instructions, slots))
}

impl Part {
    fn parse(bytes: &[u8; PART_BYTES]) -> Self {
        let [a, b, c, d, instructions @ .., e, f] = *bytes;
        Part {
            block: u32::from_le_bytes([a, b, c, d]),
            instructions: u16::from_le_bytes(instructions),
            slots: u16::from_le_bytes([e, f]),
        }
    }
}

impl Access {
    /// The slots from which its address follows.
    fn slots(&self) -> impl Iterator<Item = u16> {
        let (some, count) = match self.place {
            Place::Slot { slot, .. } => ([slot; 5], 1),
            Place::Elements { left, first, pointer } => {
                ([left[0], left[1], first, pointer[0], pointer[1]], 5)
            }
            Place::Static(_) | Place::Unknown => ([0; 5], 0),
        };
        some.into_iter().take(count)
    }

    /// The access that was made. `value`: of a slot.
    fn made(&self, value: &impl Fn(u16) -> u64, fs: u64, elements: u64) -> Made {
        let (address, is_down) = match self.place {
            Place::Static(address) => (Some(address), false),
            Place::Slot { slot, plus } => (Some(value(slot).wrapping_add(plus as u64)), false),
            Place::Elements { first, pointer: [from, to], .. } => {
                let is_down = (value(to).wrapping_sub(value(from)) as i64) < 0;
                (Some(value(first)), is_down)
            }
            Place::Unknown => (None, false),
        };
        let address = address.map(|at| if self.adds_fs { at.wrapping_add(fs) } else { at });
        let Access { pc, direction, size, conditional, represents, .. } = *self;
        Made { pc, direction, address, represents, size, elements, is_down, conditional }
    }

    fn write(&self, bytes: &mut Vec<u8>) {
        let kind = match self.place {
            Place::Static(_) => 0,
            Place::Slot { .. } => 1,
            Place::Elements { .. } => 2,
            Place::Unknown => 3,
        };
        let flag = |is_set: bool, flag: u8| if is_set { flag } else { 0 };
        let flags = flag(self.direction == Direction::Write, WRITE)
            | flag(self.conditional, CONDITIONAL)
            | flag(self.adds_fs, ADDS_FS)
            | kind << PLACE_SHIFT;
        bytes.extend(self.pc.to_le_bytes());
        bytes.extend(self.operation.to_le_bytes());
        bytes.extend(self.represents.to_le_bytes());
        bytes.extend(self.size.to_le_bytes());
        bytes.push(flags);
        match self.place {
            Place::Static(address) => bytes.extend(address.to_le_bytes()),
            Place::Slot { slot, plus } => {
                bytes.extend(slot.to_le_bytes());
                bytes.extend(plus.to_le_bytes());
            }
            Place::Elements { .. } => self.slots().for_each(|it| bytes.extend(it.to_le_bytes())),
            Place::Unknown => {}
        }
    }

    fn parse(bytes: &[u8]) -> Option<(Self, &[u8])> {
        let (pc, bytes) = bytes.split_first_chunk()?;
        let ([a, b, c, d, size @ .., flags], mut rest) = bytes.split_first_chunk::<9>()?;
        let place = match flags >> PLACE_SHIFT {
            0 => Place::Static(u64::from_le_bytes(*take(&mut rest)?)),
            1 => Place::Slot {
                slot: u16::from_le_bytes(*take(&mut rest)?),
                plus: i64::from_le_bytes(*take(&mut rest)?),
            },
            2 => {
                let mut slot = || Some(u16::from_le_bytes(*take(&mut rest)?));
                let (left, first) = ([slot()?, slot()?], slot()?);
                Place::Elements { left, first, pointer: [slot()?, slot()?] }
            }
            3 => Place::Unknown,
            _ => return None,
        };
        if flags & 1 << 3 != 0 {
            return None;
        }
        let access = Access {
            pc: u64::from_le_bytes(*pc),
            operation: u16::from_le_bytes([*a, *b]),
            represents: u16::from_le_bytes([*c, *d]),
            direction: if flags & WRITE == 0 { Direction::Read } else { Direction::Write },
            size: u32::from_le_bytes(*size),
            conditional: flags & CONDITIONAL != 0,
            adds_fs: flags & ADDS_FS != 0,
            place,
        };
        Some((access, rest))
    }
}

/// Takes bytes from the start of others.
pub(super) fn take<'a, const COUNT: usize>(bytes: &mut &'a [u8]) -> Option<&'a [u8; COUNT]> {
    let (taken, rest) = bytes.split_first_chunk()?;
    *bytes = rest;
    Some(taken)
}

#[cfg(test)]
mod tests;
