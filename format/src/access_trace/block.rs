//! The accesses of a block, or of a path of blocks, and how their addresses are found.

mod description;
mod tail;

use std::ops::Range;
use std::vec::Vec;

use super::derived::Derived;
use super::kept::{Kept, MOST_KEPT, Repeated};
use super::lanes::Lanes;
use super::others::{Known, MOST_ACCESSES, Other};
use super::{Accuracy, NOT_BEGUN, SLOT_BYTES};
use crate::Direction;

/// Most parts of a path.
pub const MOST_PARTS: usize = 64;
/// Most slots of a block or path.
pub const MOST_SLOTS: usize = 1 << 10;
/// Most derived values of a block or path.
pub const MOST_DERIVED: usize = 1 << 13;
/// Most accesses with lanes for each slot: readers compute up to 64 accesses of each.
const MOST_LANES: usize = 16;
/// Most slots and derived values for each access and each kept value, besides the masks and indexes
/// of accesses.
pub const MOST_VALUES: usize = 8;

/// How the address of an access is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Place {
    /// It is an address in the program.
    Static(u64),
    /// It is the value of a slot, or a value that is derived of slots, plus a constant.
    Slot {
        /// Index of the value: those of the block's slots come first, then those that it takes,
        /// then the derived ones.
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
        /// Slots with a pointer before and after the instruction, which has become larger or
        /// smaller.
        pointer: [u16; 2],
    },
    /// It has several elements, of which some are accessed.
    Lanes(Lanes),
    /// It cannot be found.
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
    /// Number of accesses of the block or path with its address, one of which is recorded. That
    /// follows from the [others](BlockAccesses::others).
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

/// The accesses of a block, or of blocks that are executed one after the other, and how many slots
/// they follow from.
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
    /// Whether it takes values that another execution has kept.
    pub repeated: Repeated,
    /// The values that are derived of its slots and of those that it takes, each of those before
    /// it.
    pub derived: Vec<Derived>,
    /// The values that it keeps if it is executed as a whole.
    pub kept: Vec<Kept>,
    /// Its accesses that are recorded, in program order.
    pub accesses: Vec<Access>,
    /// Its other accesses that might be recorded, in program order: those of the directions and
    /// functions that are wanted.
    pub others: Vec<Other>,
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
    /// Number of accesses that it represents, with itself. The others have its address, and may be
    /// reads or writes of other sizes.
    pub represents: u16,
    /// Number of elements, at least 1. An instruction that copies or compares strings accesses one
    /// element of each in turn.
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

    /// How many instructions and slots it has if it is executed up to the end of a part. A block is
    /// one part.
    pub fn up_to(&self, part: usize) -> (u16, u16) {
        let whole = (self.instructions, self.slots);
        self.parts.get(part).map_or(whole, |part| (part.instructions, part.slots))
    }

    /// Bytes of the slots.
    pub fn slot_bytes(&self) -> usize {
        usize::from(self.slots) * SLOT_BYTES
    }

    /// Whether it has no more values than its accesses and what it keeps may need: all of them are
    /// computed for each execution. Registers at the start of a path that may be repeated are
    /// needed at most once each.
    pub fn is_possible(&self) -> bool {
        let kept = self.kept.len().max(self.repeated.taken.into());
        let at_start = if kept > 0 { MOST_KEPT } else { 0 };
        let lanes = self.accesses.iter().filter_map(|access| match access.place {
            Place::Lanes(lanes) => Some(lanes.own_slots()),
            _ => None,
        });
        let (lanes, own_slots) = lanes.fold((0, 0), |(count, slots), own| (count + 1, slots + own));
        let most = MOST_VALUES * (self.accesses.len() + kept) + at_start + own_slots;
        kept <= MOST_KEPT
            && self.accesses.len().max(self.others.len()) <= MOST_ACCESSES
            && usize::from(self.slots) <= MOST_SLOTS
            && lanes <= MOST_LANES * usize::from(self.slots)
            && self.derived.len() <= MOST_DERIVED
            && usize::from(self.given()) + self.derived.len() <= most
    }

    /// How many accesses it has that might be recorded.
    pub fn all(&self) -> usize {
        self.accesses.len() + self.others.len()
    }

    /// What some of its instructions account for, one after the other, if all before them were
    /// executed, too. What is probably known of an access by one behind it counts where that is.
    pub fn accuracy(&self, instructions: Range<usize>) -> Accuracy {
        let is_within = |operation: u16| instructions.contains(&usize::from(operation));
        let recorded = self.accesses.iter().filter(|one| is_within(one.operation)).count() as u128;
        let mut accuracy =
            Accuracy { accesses: recorded, traced: recorded, equal: recorded, near: 0 };
        for other in &self.others {
            accuracy.accesses += u128::from(is_within(other.operation));
            let is_known = u128::from(self.known_from(other).is_some_and(is_within));
            match other.known {
                Known::Address(_) => accuracy.equal += is_known,
                Known::Chunk(_) => accuracy.near += is_known,
                Known::Nothing => {}
            }
        }
        accuracy
    }

    /// Index of the instruction behind which it is known what is known of an access. `None`: that
    /// is never known.
    fn known_from(&self, other: &Other) -> Option<u16> {
        let of = |index: u16| self.accesses.get(usize::from(index)).map(|one| one.operation);
        match other.known {
            Known::Address(index) | Known::Chunk(index) => Some(of(index)?.max(other.operation)),
            Known::Nothing => None,
        }
    }

    /// Sets how many accesses each recorded one [represents](Access::represents), as the others
    /// state it.
    pub fn count_represented(&mut self) {
        self.accesses.iter_mut().for_each(|access| access.represents = 1);
        for other in &self.others {
            if let Known::Address(index) = other.known
                && let Some(access) = self.accesses.get_mut(usize::from(index))
            {
                access.represents += 1;
            }
        }
    }

    /// How many values it has that are not derived: of slots, and those that it takes.
    pub fn given(&self) -> u16 {
        self.slots.saturating_add(self.repeated.taken)
    }

    /// Adds values that another execution has kept to those of slots. Slots that are missing count
    /// as 0.
    #[inline]
    pub fn take(&self, values: &mut Vec<u64>, kept: &[u64]) {
        if self.repeated.taken > 0 {
            values.resize(self.slots.into(), 0);
            values.extend(kept.iter().take(self.repeated.taken.into()));
        }
    }

    /// Adds the first derived values to those of slots and those that were [taken](Self::take).
    /// Those that are missing count as 0.
    #[inline]
    pub fn derive(&self, values: &mut Vec<u64>, count: u16) {
        let Some(derived) = self.derived.get(..count.into()).filter(|some| !some.is_empty()) else {
            return;
        };
        values.resize(self.given().into(), 0);
        for derived in derived {
            values.push(derived.value(values));
        }
    }

    /// How many derived values some of its accesses need.
    pub fn derived_for(&self, accesses: Range<usize>) -> u16 {
        let accesses = self.accesses.get(accesses).unwrap_or_default();
        self.derived_up_to(accesses.iter().flat_map(Access::values))
    }

    /// How many derived values are needed to know those that are kept.
    pub fn derived_for_kept(&self) -> u16 {
        self.derived_up_to(self.kept.iter().map(|kept| kept.value))
    }

    fn derived_up_to(&self, values: impl Iterator<Item = u16>) -> u16 {
        let needed = |value: u16| value.saturating_add(1).saturating_sub(self.given());
        values.map(needed).max().unwrap_or(0).min(self.derived.len() as u16)
    }

    /// The accesses that the block has made. `executed`: how many of its instructions were
    /// executed. `slots`: the values of its slots, and those that are [derived](Self::derive) of
    /// them. `fs`: the base of that segment.
    ///
    /// Values that are missing count as 0. Numbers of elements that do not fit how far the pointer
    /// has moved are forged, and count as 0, too. What accesses [represent](Made::represents) is
    /// that of a whole execution.
    #[inline]
    pub fn made(&self, executed: usize, slots: &[u64], fs: u64, mut add: impl FnMut(Made)) {
        self.made_by(0..self.accesses.len(), executed, slots, fs, |_, made| add(made));
    }

    /// Those of some of its accesses, all of each instruction, with their indexes, as
    /// [`made`](Self::made) does.
    #[inline]
    pub fn made_by(
        &self,
        accesses: Range<usize>,
        executed: usize,
        slots: &[u64],
        fs: u64,
        mut add: impl FnMut(usize, Made),
    ) {
        let value = |slot: u16| slots.get(usize::from(slot)).copied().unwrap_or(0);
        let mut index = accesses.start;
        let mut rest = self.accesses.get(accesses).unwrap_or_default();
        while let [first, after @ ..] = rest {
            if usize::from(first.operation) > executed {
                break;
            }
            if let Place::Elements { left, pointer, .. } = first.place {
                let same = rest.iter().take_while(|it| it.operation == first.operation);
                let (all, after) = rest.split_at(same.count());
                rest = after;
                let from = index;
                index += all.len();
                let elements = first.elements(left.map(value), pointer.map(value));
                if elements > 0 {
                    let made = all.iter().map(|one| one.made(&value, fs, elements));
                    (from..).zip(made).for_each(|(index, made)| add(index, made));
                }
                continue;
            }
            if usize::from(first.operation) < executed {
                match first.place {
                    Place::Lanes(lanes) => {
                        first.made_of_lanes(&lanes, &value, fs, |made| add(index, made));
                    }
                    _ => add(index, first.made(&value, fs, 1)),
                }
            }
            index += 1;
            rest = after;
        }
    }
}

impl Access {
    /// The values from which its address follows.
    fn values(&self) -> impl Iterator<Item = u16> {
        let (some, count) = match self.place {
            Place::Slot { slot, .. } => ([slot; 5], 1),
            Place::Elements { left, first, pointer } => {
                ([left[0], left[1], first, pointer[0], pointer[1]], 5)
            }
            Place::Lanes(lanes) => {
                let mut some = [0; 5];
                let mut count = 0;
                for value in lanes.values().into_iter().flatten() {
                    some[count] = value;
                    count += 1;
                }
                (some, count)
            }
            Place::Static(_) | Place::Unknown => ([0; 5], 0),
        };
        some.into_iter().take(count)
    }

    /// How many elements were accessed, by how many are left and by the pointer, each before and
    /// after it. A forged number counts as 0.
    fn elements(&self, [before, after]: [u64; 2], [from, to]: [u64; 2]) -> u64 {
        let count = before.wrapping_sub(after);
        let distance = to.wrapping_sub(from) as i64;
        let is_right = Some(distance.unsigned_abs()) == count.checked_mul(self.size.into());
        if after == NOT_BEGUN || !is_right { 0 } else { count }
    }

    /// The access that was made. `value`: of a slot.
    #[inline]
    fn made(&self, value: &impl Fn(u16) -> u64, fs: u64, elements: u64) -> Made {
        let (address, is_down) = match self.place {
            Place::Static(address) => (Some(address), false),
            Place::Slot { slot, plus } => (Some(value(slot).wrapping_add(plus as u64)), false),
            Place::Elements { first, pointer: [from, to], .. } => {
                let is_down = (value(to).wrapping_sub(value(from)) as i64) < 0;
                (Some(value(first)), is_down)
            }
            Place::Unknown | Place::Lanes(_) => (None, false),
        };
        let address = address.map(|at| if self.adds_fs { at.wrapping_add(fs) } else { at });
        let Access { pc, direction, size, conditional, represents, .. } = *self;
        Made { pc, direction, address, represents, size, elements, is_down, conditional }
    }

    /// The accesses that were made to elements. `value`: of a slot.
    #[inline]
    fn made_of_lanes(
        &self,
        lanes: &Lanes,
        value: &impl Fn(u16) -> u64,
        fs: u64,
        mut add: impl FnMut(Made),
    ) {
        let fs = if self.adds_fs { fs } else { 0 };
        let Access { pc, direction, conditional, represents, .. } = *self;
        lanes.each(self.size, value, |at, count| {
            let (address, size) = (Some(at.wrapping_add(fs)), self.size.saturating_mul(count));
            let (elements, is_down) = (1, false);
            add(Made { pc, direction, address, represents, size, elements, is_down, conditional });
        });
    }
}

#[cfg(test)]
mod tests;
