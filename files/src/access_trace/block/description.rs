//! Encodes and decodes the description of a block, or of a path of blocks.
//!
//! All numbers are little-endian.
//!
//! | offset | bytes | |
//! |---|---|---|
//! | 0 | 8 | original address of the first instruction |
//! | 8 | 2 | number of instructions |
//! | 10 | 2 | number of slots |
//! | 12 | 2 | number of accesses |
//! | 14 | 2 | number of bytes of a block's instructions, 0 for a path |
//! | 16 | 2 | number of parts of a path, 0 for a block |
//! | 18 | 2 | number of other accesses, which have the wanted direction and function but are not recorded |
//! | 20 | 4 | number of the function that contains the first instruction, from 1 on; 0 if it is not known |
//! | 24 | 2 | number of derived values |
//! | 26 | 4 | for a repeated path: number of the first path as a whole; 0 otherwise |
//! | 30 | 2 | for a repeated path: number of values that it takes, whose indexes follow the indexes of its slots; 0 otherwise |
//! | 32 | 2 | number of values that the block or path keeps |
//! | 34 | | the bytes of the instructions, the parts, the [derived values](Derived), the [kept values](Kept), the accesses, and then the [others](Other) |
//!
//! | bytes of a part | |
//! |---|---|
//! | 4 | number of the block itself, whose description precedes this one |
//! | 2 | number of instructions of the path up to the end of the block |
//! | 2 | number of slots of the path up to the end of the block |
//!
//! | bytes of an access | |
//! |---|---|
//! | 8 | original address of the access's instruction |
//! | 2 | index of the access's instruction |
//! | 4 | number of accessed bytes, of one element if there are several; 0 if it is not known |
//! | 1 | bit 0: write; bit 1: conditional; bit 2: the base of `fs` is added; bit 3: 0; bits 4 to 7: kind of the [`Place`] |
//! | 8, 10, 10, 0 or more | the place, by its kind: 0: an address in 8 bytes; 1: index of a value in 2 bytes (slots come first, then taken values, then derived values) and a constant that is added in 8 bytes; 2: five indexes of values in 2 bytes each: a count before and after, the first element, a pointer before and after; 3: not known; 4: [`Lanes`] |

use super::{Access, BlockAccesses, MOST_PARTS, Part, Place};
use crate::access_trace::derived::Derived;
use crate::access_trace::kept::{Kept, Repeated};
use crate::access_trace::lanes::Lanes;
use crate::access_trace::others::{Known, MOST_ACCESSES, Other};
use crate::access_trace::take;
use hmtt_format::Direction;

/// Bytes before the instructions.
const HEADER_BYTES: usize = 34;
/// Bytes of a part.
const PART_BYTES: usize = 8;
const WRITE: u8 = 1;
const CONDITIONAL: u8 = 2;
const ADDS_FS: u8 = 4;
/// First bit of the kind of a place.
const PLACE_SHIFT: u8 = 4;

impl BlockAccesses {
    /// Appends the description to `bytes`.
    pub fn write(&self, bytes: &mut Vec<u8>) {
        bytes.extend(self.start.to_le_bytes());
        let counts = [self.accesses.len(), self.code.len(), self.parts.len(), self.others.len()];
        let counts = counts.map(|count| count as u16);
        for number in [self.instructions, self.slots].into_iter().chain(counts) {
            bytes.extend(number.to_le_bytes());
        }
        bytes.extend(self.function.to_le_bytes());
        bytes.extend((self.derived.len() as u16).to_le_bytes());
        bytes.extend(self.repeated.first.to_le_bytes());
        bytes.extend(self.repeated.taken.to_le_bytes());
        bytes.extend((self.kept.len() as u16).to_le_bytes());
        bytes.extend(&self.code);
        for Part { block, instructions, slots } in &self.parts {
            bytes.extend(block.to_le_bytes());
            bytes.extend(instructions.to_le_bytes());
            bytes.extend(slots.to_le_bytes());
        }
        self.derived.iter().for_each(|derived| derived.write(bytes));
        self.kept.iter().for_each(|kept| kept.write(bytes));
        self.accesses.iter().for_each(|access| access.write(bytes));
        self.others.iter().for_each(|other| other.write(bytes));
    }

    /// Parses the block at the start of `bytes`. Returns the block and the bytes after it, or
    /// `None` if the bytes are invalid.
    pub fn parse(bytes: &[u8]) -> Option<(Self, &[u8])> {
        let (header, rest) = bytes.split_first_chunk::<HEADER_BYTES>()?;
        let number = |at: usize| u16::from_le_bytes([header[at], header[at + 1]]);
        let start = u64::from_le_bytes(*header.first_chunk()?);
        let (instructions, slots, count) = (number(8), number(10), number(12));
        let others = number(18);
        let long = |at: usize| u32::from_le_bytes([0, 1, 2, 3].map(|byte| header[at + byte]));
        let (function, repeated) = (long(20), Repeated { first: long(26), taken: number(30) });
        let inputs = usize::from(slots) + usize::from(repeated.taken);
        let values = inputs + usize::from(number(24));
        let (code, mut rest) = rest.split_at_checked(number(14).into())?;
        if usize::from(number(16)) > MOST_PARTS || usize::from(count.max(others)) > MOST_ACCESSES {
            return None;
        }
        let mut parts = Vec::new();
        for _ in 0..number(16) {
            parts.push(Part::parse(take(&mut rest)?));
        }
        // Each instruction of a block has at least one byte.
        let has_code = usize::from(instructions) <= code.len() || !parts.is_empty();
        if !(has_code && are_ascending(&parts, instructions, slots)) {
            return None;
        }
        let (taken_count, kept) = (usize::from(repeated.taken), usize::from(number(32)));
        let has_first = (repeated.first != 0) == (taken_count > 0);
        let may_repeat = !parts.is_empty() || taken_count == 0 && kept == 0;
        if !(has_first && may_repeat) {
            return None;
        }
        let derived = (inputs..values).map(|before| Derived::parse(&mut rest, before));
        let derived: Vec<Derived> = derived.collect::<Option<_>>()?;
        let kept = (0..kept).map(|_| Kept::parse(&mut rest, values));
        let kept: Vec<Kept> = kept.collect::<Option<_>>()?;
        let mut accesses = Vec::new();
        for _ in 0..count {
            let (access, after) = Access::parse(rest)?;
            let fits = match access.place {
                Place::Lanes(lanes) => lanes.fits(slots),
                _ => true,
            };
            let is_valid = fits
                && access.operation < instructions
                && access.values().all(|it| usize::from(it) < values);
            accesses.push(Some(access).filter(|_| is_valid)?);
            rest = after;
        }
        let others = (0..others).map(|_| Other::parse(&mut rest));
        let others: Vec<Other> = others.collect::<Option<_>>()?;
        let code = code.to_vec();
        let mut block = BlockAccesses {
            start,
            function,
            instructions,
            slots,
            code,
            repeated,
            derived,
            kept,
            accesses,
            others,
            parts,
        };
        block.count_represented();
        (block.is_possible() && block.has_valid_others()).then_some((block, rest))
    }

    /// Whether the other accesses are in program order, and each recorded access that they name
    /// exists and does not follow an access with its address.
    fn has_valid_others(&self) -> bool {
        let is_valid = |other: &Other| {
            let recorded = |index: u16| self.accesses.get(usize::from(index));
            let is_known = match other.known {
                Known::Address(index) => {
                    recorded(index).is_some_and(|one| one.operation <= other.operation)
                }
                Known::Chunk(index) => recorded(index).is_some(),
                Known::Nothing => true,
            };
            other.operation < self.instructions && is_known
        };
        self.others.is_sorted_by_key(|other| other.operation) && self.others.iter().all(is_valid)
    }
}

/// Whether no part ends before the previous one, and the last part ends with the path.
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
    fn write(&self, bytes: &mut Vec<u8>) {
        let kind = match self.place {
            Place::Static(_) => 0,
            Place::Slot { .. } => 1,
            Place::Elements { .. } => 2,
            Place::Unknown => 3,
            Place::Lanes(_) => 4,
        };
        let flag = |is_set: bool, flag: u8| if is_set { flag } else { 0 };
        let flags = flag(self.direction == Direction::Write, WRITE)
            | flag(self.conditional, CONDITIONAL)
            | flag(self.adds_fs, ADDS_FS)
            | kind << PLACE_SHIFT;
        bytes.extend(self.pc.to_le_bytes());
        bytes.extend(self.operation.to_le_bytes());
        bytes.extend(self.size.to_le_bytes());
        bytes.push(flags);
        match self.place {
            Place::Static(address) => bytes.extend(address.to_le_bytes()),
            Place::Slot { slot, plus } => {
                bytes.extend(slot.to_le_bytes());
                bytes.extend(plus.to_le_bytes());
            }
            Place::Elements { .. } => self.values().for_each(|it| bytes.extend(it.to_le_bytes())),
            Place::Lanes(lanes) => lanes.write(bytes),
            Place::Unknown => {}
        }
    }

    fn parse(bytes: &[u8]) -> Option<(Self, &[u8])> {
        let (pc, bytes) = bytes.split_first_chunk()?;
        let ([a, b, size @ .., flags], mut rest) = bytes.split_first_chunk::<7>()?;
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
            4 => Place::Lanes(Lanes::parse(&mut rest)?),
            _ => return None,
        };
        if flags & 1 << 3 != 0 {
            return None;
        }
        let access = Access {
            pc: u64::from_le_bytes(*pc),
            operation: u16::from_le_bytes([*a, *b]),
            represents: 1,
            direction: if flags & WRITE == 0 { Direction::Read } else { Direction::Write },
            size: u32::from_le_bytes(*size),
            conditional: flags & CONDITIONAL != 0,
            adds_fs: flags & ADDS_FS != 0,
            place,
        };
        Some((access, rest))
    }
}
