//! Describes the last instructions of one execution of a block as a separate block.
//!
//! ```text
//! block  slots a, b     derived c = a + 8   mov [a] | mov [c] | mov [b + 4]
//! tail   slots b, c                                   mov [c] | mov [b + 4]
//! ```
//!
//! Each value that an access of the tail needs becomes a slot of the tail, even if it was derived
//! from slots before the tail. So the tail needs no values of the instructions that are left out.
//! The tail is valid for this one execution only.

use std::vec::Vec;

use super::{Access, BlockAccesses, Place};
use crate::access_trace::lanes::{LaneOrder, Lanes};
use crate::access_trace::others::{Known, Other};

/// Indexes of the values that the tail needs, ascending.
struct KeptValues(Vec<u16>);

impl KeptValues {
    /// The new index of a value, which must be needed.
    fn index(&self, value: u16) -> u16 {
        self.0.binary_search(&value).unwrap_or(0) as u16
    }

    /// The place with the new indexes of its values, which are slots now. Consecutive slots stay
    /// consecutive, because all of them are needed.
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
    /// Returns the block of the instructions from index `first` on, and the values of its slots.
    /// `offset`: byte of the block's code at which these instructions begin. `slots`: values of
    /// this block's slots in the execution.
    ///
    /// Missing slots count as 0. `None` for paths, for blocks that take values of another
    /// execution, and if `first` or `offset` is outside of the block.
    pub fn tail(&self, first: u16, offset: usize, slots: &[u64]) -> Option<(Self, Vec<u64>)> {
        if !self.parts.is_empty() || self.repeated.taken > 0 || first > self.instructions {
            return None;
        }
        // Each instruction has at least one byte.
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
    /// All values from which the address follows, including each slot with indexes.
    fn all_values(&self) -> impl Iterator<Item = u16> {
        let indexes = match self.place {
            Place::Lanes(lanes) => lanes.indexes(),
            _ => 0..0,
        };
        self.values().chain(indexes)
    }
}

/// An access that is not recorded, in the tail. `first`: number of instructions that are left out.
/// `left_out`: number of recorded accesses that are left out.
fn moved_other(other: &Other, first: u16, left_out: usize) -> Other {
    let moved = |index: u16| usize::from(index).checked_sub(left_out).map(|index| index as u16);
    let known = match other.known {
        Known::Address(index) => moved(index).map_or(Known::Nothing, Known::Address),
        Known::Chunk(index) => moved(index).map_or(Known::Nothing, Known::Chunk),
        Known::Nothing => Known::Nothing,
    };
    Other { operation: other.operation - first, known }
}
