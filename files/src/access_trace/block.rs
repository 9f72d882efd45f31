//! Describes the accesses of a block or of a path of blocks, and computes their addresses from
//! slots.
//!
//! Example: `mov rax, [rbx + 8]`, `mov [rbx], rcx`. The block has one slot, which contains `rbx`.
//! The load is at [`Place::Slot`] with slot 0 plus 8, and the store at slot 0 plus 0.

mod description;
mod tail;

use std::ops::Range;
use std::vec::Vec;

use super::derived::Derived;
use super::kept::{Kept, MOST_KEPT, Repeated};
use super::lanes::Lanes;
use super::others::{Known, MOST_ACCESSES, Other};
use super::{Accuracy, NOT_BEGUN, SLOT_BYTES};
use hmtt_format::Direction;

/// Maximum number of parts of a path.
pub const MOST_PARTS: usize = 64;
/// Maximum number of slots of a block or path.
pub const MOST_SLOTS: usize = 1 << 10;
/// Maximum number of derived values of a block or path.
pub const MOST_DERIVED: usize = 1 << 13;
/// Maximum number of accesses with lanes, for each slot of the block. Readers compute up to 64
/// accesses for each access with lanes.
const MOST_LANES: usize = 16;
/// Maximum number of slots and derived values, for each access and each kept value. Masks and
/// indexes of accesses are not counted.
pub const MOST_VALUES: usize = 8;

/// How the address of an access is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Place {
    /// The address is a constant.
    Static(u64),
    /// The address is the value of a slot, or a derived value, plus a constant.
    Slot {
        /// Index of the value: the block's slots come first, then the values that it takes, then
        /// the derived values.
        slot: u16,
        /// The constant, in bytes.
        plus: i64,
    },
    /// The access has several elements, one after the other. Their number is the decrease of a
    /// register.
    Elements {
        /// Slots with the number of remaining elements, before and after the instruction.
        left: [u16; 2],
        /// Slot with the address of the first element.
        first: u16,
        /// Slots with a pointer before and after the instruction. The pointer has increased or
        /// decreased by the bytes of the elements.
        pointer: [u16; 2],
    },
    /// The access has several elements, of which only some may be accessed.
    Lanes(Lanes),
    /// The address is not known.
    Unknown,
}

/// A recorded access, and how its address is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Access {
    /// Original address of the access's instruction.
    pub pc: u64,
    /// Index of the access's instruction in the block or path.
    pub operation: u16,
    /// Whether the access reads or writes.
    pub direction: Direction,
    /// Number of accesses of the block or path with this address, including the recorded one. The
    /// number follows from [`BlockAccesses::others`].
    pub represents: u16,
    /// Number of bytes, of one element if there are several; 0 if it is not known.
    pub size: u32,
    /// Whether memory may not be accessed at all. This depends on values that are not recorded.
    pub conditional: bool,
    /// Whether the base of `fs` is added to the address.
    pub adds_fs: bool,
    /// Where the accessed memory is.
    pub place: Place,
}

/// A block of a path. Its counts hold for an execution that leaves the path after this block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Part {
    /// Number of the block itself.
    pub block: u32,
    /// Number of instructions of the path up to the end of this block.
    pub instructions: u16,
    /// Number of slots of the path up to the end of this block.
    pub slots: u16,
}

/// The accesses of a block or of a path of blocks, with the values from which their addresses
/// follow.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct BlockAccesses {
    /// Original address of the first instruction.
    pub start: u64,
    /// Number of the function that contains the first instruction, from 1 on; 0 if it is not known.
    pub function: u32,
    /// Number of instructions.
    pub instructions: u16,
    /// Number of slots.
    pub slots: u16,
    /// Original bytes of a block's instructions, one after the other; empty for a path.
    pub code: Vec<u8>,
    /// The values that the block takes from another execution, if any.
    pub repeated: Repeated,
    /// The values that are derived from slots, from taken values, and from earlier derived values.
    pub derived: Vec<Derived>,
    /// The values that are kept if the block or path is executed completely.
    pub kept: Vec<Kept>,
    /// The recorded accesses, in program order.
    pub accesses: Vec<Access>,
    /// The accesses that are not recorded, in program order, although their directions and
    /// functions are wanted.
    pub others: Vec<Other>,
    /// The blocks of a path; empty for a block. Each entry has a number of its own, which stands
    /// for an execution of the path up to the end of this block.
    pub parts: Vec<Part>,
}

/// An access that was made, or accesses to all elements of a string.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Made {
    /// Original address of the access's instruction.
    pub pc: u64,
    /// Whether the access reads or writes.
    pub direction: Direction,
    /// Virtual address of the access, or of its first element; `None` if it is not known.
    pub address: Option<u64>,
    /// Number of bytes, of one element if there are several; 0 if it is not known.
    pub size: u32,
    /// Number of accesses that this one represents, including itself. The represented accesses have
    /// the same address, but may differ in direction and size.
    pub represents: u16,
    /// Number of elements, at least 1. An instruction that copies or compares strings accesses one
    /// element of each string in turn.
    pub elements: u64,
    /// Whether each element is at a lower address than the previous element.
    pub is_down: bool,
    /// Whether it is not known if memory was accessed.
    pub conditional: bool,
}

impl BlockAccesses {
    /// Count of numbers that the block or path has: one, or one for each part.
    pub fn numbers(&self) -> usize {
        self.parts.len().max(1)
    }

    /// Number of instructions and of slots in an execution up to the end of a part. A block has one
    /// part, number 0.
    pub fn up_to(&self, part: usize) -> (u16, u16) {
        let whole = (self.instructions, self.slots);
        self.parts.get(part).map_or(whole, |part| (part.instructions, part.slots))
    }

    /// Bytes of the slots of a complete execution.
    pub fn slot_bytes(&self) -> usize {
        usize::from(self.slots) * SLOT_BYTES
    }

    /// Whether the counts are within the limits. Readers compute all values for each execution, so
    /// there must not be many more values than accesses and kept values may need. A path that may
    /// be repeated needs each register at its start at most once.
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

    /// Number of recorded and other accesses.
    pub fn all(&self) -> usize {
        self.accesses.len() + self.others.len()
    }

    /// Accuracy of a range of instructions, if all instructions before the range were executed too.
    /// If the chunk of an access follows from a later access, the first one counts as near only if
    /// the range contains the later instruction. Example: instruction 0 makes a recorded access,
    /// instruction 1 accesses the same address, and instruction 3 probably the same chunk. The
    /// range `0..2` has 2 accesses, of which 1 is traced, 2 are equal and none is near. The range
    /// `0..4` has 3 accesses and 1 is near.
    pub fn accuracy(&self, instructions: Range<usize>) -> Accuracy {
        let is_within = |operation: u16| instructions.contains(&usize::from(operation));
        let recorded =
            self.accesses.iter().filter(|access| is_within(access.operation)).count() as u128;
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

    /// Index of the instruction after which the address or chunk of an access is known. `None`: it
    /// is never known.
    fn known_from(&self, other: &Other) -> Option<u16> {
        let operation_at =
            |index: u16| self.accesses.get(usize::from(index)).map(|one| one.operation);
        match other.known {
            Known::Address(index) | Known::Chunk(index) => {
                Some(operation_at(index)?.max(other.operation))
            }
            Known::Nothing => None,
        }
    }

    /// Sets [`Access::represents`] of each recorded access, according to the other accesses.
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

    /// Number of values that are not derived: slots and taken values.
    pub fn given(&self) -> u16 {
        self.slots.saturating_add(self.repeated.taken)
    }

    /// Appends `kept`, the values that another execution has kept, to the slots in `values`.
    /// Missing slots count as 0. Does nothing if the block takes no values.
    #[inline]
    pub fn take(&self, values: &mut Vec<u64>, kept: &[u64]) {
        if self.repeated.taken > 0 {
            values.resize(self.slots.into(), 0);
            values.extend(kept.iter().take(self.repeated.taken.into()));
        }
    }

    /// Appends the first `count` derived values to the slots and the [taken](Self::take) values in
    /// `values`. Missing values count as 0.
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

    /// Number of derived values that a range of the recorded accesses needs. Example: with two
    /// slots and one taken value, the derived values have the indexes from 3 on, so an access that
    /// needs value 4 needs two derived values.
    pub fn derived_for(&self, accesses: Range<usize>) -> u16 {
        let accesses = self.accesses.get(accesses).unwrap_or_default();
        self.derived_up_to(accesses.iter().flat_map(Access::values))
    }

    /// Number of derived values that the kept values need.
    pub fn derived_for_kept(&self) -> u16 {
        self.derived_up_to(self.kept.iter().map(|kept| kept.value))
    }

    fn derived_up_to(&self, values: impl Iterator<Item = u16>) -> u16 {
        let needed = |value: u16| value.saturating_add(1).saturating_sub(self.given());
        values.map(needed).max().unwrap_or(0).min(self.derived.len() as u16)
    }

    /// Computes the accesses of one execution and passes them to `add`, in program order.
    /// `executed`: number of executed instructions. `slots`: values of the slots, the taken values
    /// and the values that are [derived](Self::derive) from them. `fs`: base of the segment `fs`.
    ///
    /// Missing values count as 0. A number of elements that does not match the distance of the
    /// pointer is forged, and also counts as 0. [`Made::represents`] is always the number for a
    /// complete execution.
    #[inline]
    pub fn made(&self, executed: usize, slots: &[u64], fs: u64, mut add: impl FnMut(Made)) {
        self.made_by(0..self.accesses.len(), executed, slots, fs, |_, made| add(made));
    }

    /// Computes the accesses of one execution as [`made`](Self::made) does, but only a range of the
    /// recorded ones, and also passes their indexes. The range must contain all accesses of each
    /// instruction in it.
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
                let (matching, after) = rest.split_at(same.count());
                rest = after;
                let from = index;
                index += matching.len();
                let elements = first.elements(left.map(value), pointer.map(value));
                if elements > 0 {
                    let performed = matching.iter().map(|one| one.made(&value, fs, elements));
                    (from..).zip(performed).for_each(|(index, made)| add(index, made));
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
    /// Indexes of the values from which the address follows. Of consecutive slots only the last one
    /// is returned.
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

    /// Number of accessed elements. `before`, `after`: remaining elements. `from`, `to`: the
    /// pointer. A forged number counts as 0. Example: `rep movsq` has moved its pointer from 0x1000
    /// to 0x1018, and `rcx` has become 2 instead of 5, so 3 elements of 8 bytes were accessed.
    fn elements(&self, [before, after]: [u64; 2], [from, to]: [u64; 2]) -> u64 {
        let count = before.wrapping_sub(after);
        let distance = to.wrapping_sub(from) as i64;
        let is_right = Some(distance.unsigned_abs()) == count.checked_mul(self.size.into());
        if after == NOT_BEGUN || !is_right { 0 } else { count }
    }

    /// Computes the access that was made. `value`: returns the value with an index.
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

    /// Computes the accesses to elements of lanes. `value`: returns the value with an index.
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
