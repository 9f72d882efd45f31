//! Describes the last instructions of one execution of a block, as a block of their own.
//!
//! ```text
//! block  slots a, b     derived c = a + 8   mov [a] | mov [c] | mov [b + 4]
//! tail   slots c, b                                   mov [c] | mov [b + 4]
//! ```
//!
//! The values that its accesses need become its slots, also those that were derived of slots of
//! instructions before it. So only what is known of the one execution is needed, and nothing of the
//! instructions that are left out.

use std::vec::Vec;

use super::{Access, BlockAccesses, Place};
use crate::access_trace::lanes::{LaneOrder, Lanes};
use crate::access_trace::others::{Known, Other};

/// The indexes of values that are kept, ascending.
struct KeptValues(Vec<u16>);

impl KeptValues {
    /// The index that a value has among those that are kept.
    fn index(&self, value: u16) -> u16 {
        self.0.binary_search(&value).unwrap_or(0) as u16
    }

    /// A place, whose values are slots now. Slots one behind the other stay so, because all of them
    /// are kept.
    fn place(&self, place: Place) -> Place {
        let index = |value| self.index(value);
        match place {
            Place::Slot { slot, plus } => Place::Slot { slot: index(slot), plus },
            Place::Elements { left, first, pointer } => Place::Elements {
                left: left.map(index),
                first: index(first),
                pointer: pointer.map(index),
            },
            Place::Lanes(lanes) => {
                let order = match lanes.order {
                    LaneOrder::Indexed { slot, bytes, scale, is_narrow } => {
                        LaneOrder::Indexed { slot: index(slot), bytes, scale, is_narrow }
                    }
                    other => other,
                };
                let (base, mask) = (lanes.base.map(index), lanes.mask.map(index));
                Place::Lanes(Lanes { base, mask, order, ..lanes })
            }
            Place::Static(_) | Place::Unknown => place,
        }
    }
}

impl BlockAccesses {
    /// The block of its instructions from `first` on, whose code begins at byte `offset` of its
    /// code, and the slots of that block in an execution in which this one has these slots.
    ///
    /// Slots that are missing count as 0. `None` for paths, for what takes values of another
    /// execution, and if there is no such code.
    pub fn tail(&self, first: u16, offset: usize, slots: &[u64]) -> Option<(Self, Vec<u64>)> {
        if !self.parts.is_empty() || self.repeated.taken > 0 || first > self.instructions {
            return None;
        }
        // Each instruction has a byte at least.
        let is_described = |code: &&[u8]| code.len() >= usize::from(self.instructions - first);
        let code = self.code.get(offset..).filter(is_described)?.to_vec();
        let mut values = slots.to_vec();
        values.resize(self.slots.into(), 0);
        self.derive(&mut values, self.derived.len() as u16);
        let left_out = self.accesses.iter().filter(|access| access.operation < first).count();
        let accesses = &self.accesses[left_out..];
        let mut kept: Vec<u16> = accesses.iter().flat_map(Access::all_values).collect();
        kept.sort_unstable();
        kept.dedup();
        let slots = kept.iter().map(|value| values.get(usize::from(*value)).copied());
        let slots: Vec<u64> = slots.map(Option::unwrap_or_default).collect();
        let kept = KeptValues(kept);
        let moved = |access: &Access| Access {
            operation: access.operation - first,
            place: kept.place(access.place),
            ..*access
        };
        let others = self.others.iter().filter(|other| other.operation >= first);
        let mut tail = BlockAccesses {
            start: self.start.wrapping_add(offset as u64),
            function: self.function,
            instructions: self.instructions - first,
            slots: slots.len() as u16,
            code,
            accesses: accesses.iter().map(moved).collect(),
            others: others.map(|other| moved_other(other, first, left_out)).collect(),
            ..BlockAccesses::default()
        };
        tail.count_represented();
        Some((tail, slots))
    }
}

impl Access {
    /// All values from which its address follows.
    fn all_values(&self) -> impl Iterator<Item = u16> {
        let indexes = match self.place {
            Place::Lanes(lanes) => lanes.indexes(),
            _ => 0..0,
        };
        self.values().chain(indexes)
    }
}

/// An access that is not recorded, in a block without the first instructions and their accesses.
fn moved_other(other: &Other, first: u16, left_out: usize) -> Other {
    let moved = |index: u16| usize::from(index).checked_sub(left_out).map(|index| index as u16);
    let known = match other.known {
        Known::Address(index) => moved(index).map_or(Known::Nothing, Known::Address),
        Known::Chunk(index) => moved(index).map_or(Known::Nothing, Known::Chunk),
        Known::Nothing => Known::Nothing,
    };
    Other { operation: other.operation - first, known }
}
