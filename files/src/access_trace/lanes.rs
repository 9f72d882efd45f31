//! Describes accesses with several elements of which only some are accessed: masked loads and
//! stores, gathers and scatters. A mask selects the elements, or a vector contains their addresses.
//!
//! Example: `vmaskmovps [rax], ymm1, ymm2` has 8 lanes and 8 elements of 4 bytes. If the mask in
//! `ymm1` has set sign bits in the lanes 0, 2 and 3, the bytes 0 to 3 and 8 to 15 after `rax` are
//! written.
//!
//! | bytes | |
//! |---|---|
//! | 2 | index of the value from which the address of the first element follows; [`NO_VALUE`] if the address is a constant |
//! | 8 | constant that is added to this value |
//! | 2 | slot with the mask; [`NO_VALUE`] if all lanes are active |
//! | 1 | number of the mask's bit for the first lane; the bits of the other lanes follow |
//! | 1 | number of lanes, 1 to 64 |
//! | 1 | number of elements, 1 to 64, which divides the number of lanes |
//! | 1 | order of the elements: 0 [`Apart`](LaneOrder::Apart), 1 [`Packed`](LaneOrder::Packed), 2 and 3 [`Indexed`](LaneOrder::Indexed) |
//!
//! With [`Indexed`](LaneOrder::Indexed) these bytes follow:
//!
//! | bytes | |
//! |---|---|
//! | 2 | first of the consecutive slots with the indexes; an index has 4 bytes with order 2, and 8 with order 3 |
//! | 1 | factor of the indexes: 1, 2, 4 or 8 |
//! | 1 | 1 if addresses are computed modulo 2^32, 0 otherwise |

use std::vec::Vec;

use super::{SLOT_BYTES, take};

/// Means "no value" in a description.
pub const NO_VALUE: u16 = u16::MAX;

/// An access with several elements, of which only some may be accessed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Lanes {
    /// Index of the value from which the address of the first element follows, as in
    /// [`Place::Slot`](super::Place::Slot). `None`: the address is the constant.
    pub base: Option<u16>,
    /// Constant that is added to the value, in bytes.
    pub plus: i64,
    /// Slot with a bit for each lane, which is 1 if the lane is active. `None`: all lanes are
    /// active.
    pub mask: Option<u16>,
    /// Number of the mask's bit for the first lane.
    pub first_bit: u8,
    /// Number of lanes.
    pub lanes: u8,
    /// Number of elements. Lane n belongs to element n modulo this number; with 8 lanes and 4
    /// elements, the lanes 1 and 5 belong to element 1. An element is accessed if one of its lanes
    /// is active.
    pub elements: u8,
    /// Where the elements are.
    pub order: LaneOrder,
}

/// Where the accessed elements are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LaneOrder {
    /// Each element has its own place, one element after the other.
    Apart,
    /// The accessed elements are one after the other. Elements that are not accessed take no place.
    Packed,
    /// Each element has an index, which is multiplied by the scale and added to the address of the
    /// first element.
    Indexed {
        /// First of the slots with the indexes.
        slot: u16,
        /// Bytes of an index: 4, which is extended by its sign, or 8.
        bytes: u8,
        /// Factor of the indexes: 1, 2, 4 or 8.
        scale: u8,
        /// Whether addresses are computed modulo 2^32.
        is_narrow: bool,
    },
}

/// A mask of the lowest `count` bits.
const fn low(count: u32) -> u64 {
    if count >= 64 { u64::MAX } else { (1 << count) - 1 }
}

impl Lanes {
    /// Number of slots for the mask and the indexes.
    pub fn own_slots(&self) -> usize {
        usize::from(self.mask.is_some()) + self.index_slots()
    }

    fn index_slots(&self) -> usize {
        match self.order {
            LaneOrder::Indexed { bytes, .. } => {
                (usize::from(self.elements) * usize::from(bytes)).div_ceil(SLOT_BYTES)
            }
            LaneOrder::Apart | LaneOrder::Packed => 0,
        }
    }

    /// Range of the slots with the indexes; empty if there are none.
    pub(super) fn indexes(&self) -> std::ops::Range<u16> {
        match self.order {
            LaneOrder::Indexed { slot, .. } => slot..slot.saturating_add(self.index_slots() as u16),
            LaneOrder::Apart | LaneOrder::Packed => 0..0,
        }
    }

    /// Indexes of the base, of the mask and of the last slot with indexes. They are the highest of
    /// their kind.
    pub(super) fn values(&self) -> [Option<u16>; 3] {
        let index = match self.order {
            LaneOrder::Indexed { slot, .. } => {
                Some(slot.saturating_add(self.index_slots() as u16 - 1))
            }
            LaneOrder::Apart | LaneOrder::Packed => None,
        };
        [self.base, self.mask, index]
    }

    /// Whether the access has slots of its own, and they are below `slots`, the number of slots of
    /// the block.
    pub(super) fn fits(&self, slots: u16) -> bool {
        let [_, mask, index] = self.values();
        let is_slot = |value: Option<u16>| value.is_none_or(|value| value < slots);
        self.own_slots() > 0 && is_slot(mask) && is_slot(index)
    }

    /// Calls `add` with the address and the number of elements of each access. Adjacent elements
    /// are one access, unless they have indexes. `size`: bytes of an element. `value`: returns the
    /// value of a slot or the derived value with an index.
    ///
    /// Example: elements of 4 bytes at 0x1000, of which the elements 0, 2 and 3 are accessed.
    /// [`LaneOrder::Apart`] gives 1 element at 0x1000 and 2 elements at 0x1008,
    /// [`LaneOrder::Packed`] 3 elements at 0x1000.
    #[inline]
    pub fn each(&self, size: u32, value: &impl Fn(u16) -> u64, mut add: impl FnMut(u64, u32)) {
        let base = self.base.map_or(0, value).wrapping_add(self.plus as u64);
        let mut accessed = self.accessed(value);
        match self.order {
            LaneOrder::Packed => {
                if accessed != 0 {
                    add(base, accessed.count_ones());
                }
            }
            LaneOrder::Apart => {
                while accessed != 0 {
                    let from = accessed.trailing_zeros();
                    let count = (accessed >> from).trailing_ones();
                    accessed &= !(low(count) << from);
                    let distance = u64::from(from).wrapping_mul(size.into());
                    add(base.wrapping_add(distance), count);
                }
            }
            LaneOrder::Indexed { slot, bytes, scale, is_narrow } => {
                while accessed != 0 {
                    let element = accessed.trailing_zeros();
                    accessed &= accessed - 1;
                    let index = match bytes {
                        8 => value(slot.wrapping_add(element as u16)),
                        _ => {
                            let both = value(slot.wrapping_add(element as u16 / 2));
                            i64::from((both >> (element % 2 * 32)) as i32) as u64
                        }
                    };
                    let address = base.wrapping_add(index.wrapping_mul(scale.into()));
                    add(if is_narrow { address & low(32) } else { address }, 1);
                }
            }
        }
    }

    /// The accessed elements, one bit for each.
    fn accessed(&self, value: &impl Fn(u16) -> u64) -> u64 {
        let all_lanes = low(self.lanes.into());
        let active = self.mask.map_or(all_lanes, |slot| value(slot) >> self.first_bit & all_lanes);
        let steps = (0..self.lanes).step_by(self.elements.max(1).into());
        steps.fold(0, |sum, step| sum | active >> step) & low(self.elements.into())
    }

    pub(super) fn write(&self, bytes: &mut Vec<u8>) {
        bytes.extend(self.base.unwrap_or(NO_VALUE).to_le_bytes());
        bytes.extend(self.plus.to_le_bytes());
        bytes.extend(self.mask.unwrap_or(NO_VALUE).to_le_bytes());
        bytes.extend([self.first_bit, self.lanes, self.elements]);
        match self.order {
            LaneOrder::Apart => bytes.push(0),
            LaneOrder::Packed => bytes.push(1),
            LaneOrder::Indexed { slot, bytes: size, scale, is_narrow } => {
                bytes.push(if size == 4 { 2 } else { 3 });
                bytes.extend(slot.to_le_bytes());
                bytes.extend([scale, u8::from(is_narrow)]);
            }
        }
    }

    /// Parses lanes and removes their bytes from the start of `bytes`. `None` if the bytes are
    /// invalid.
    pub(super) fn parse(bytes: &mut &[u8]) -> Option<Self> {
        let value = |value: u16| (value != NO_VALUE).then_some(value);
        let base = value(u16::from_le_bytes(*take(bytes)?));
        let plus = i64::from_le_bytes(*take(bytes)?);
        let mask = value(u16::from_le_bytes(*take(bytes)?));
        let [first_bit, lanes, elements, kind] = *take(bytes)?;
        let order = match kind {
            0 => LaneOrder::Apart,
            1 => LaneOrder::Packed,
            2 | 3 => {
                let slot = u16::from_le_bytes(*take(bytes)?);
                let [scale, is_narrow] = *take(bytes)?;
                let is_possible = matches!(scale, 1 | 2 | 4 | 8) && is_narrow <= 1;
                let bytes = if kind == 2 { 4 } else { 8 };
                let order = LaneOrder::Indexed { slot, bytes, scale, is_narrow: is_narrow == 1 };
                Some(order).filter(|_| is_possible && elements == lanes)?
            }
            _ => return None,
        };
        let is_possible = (1..=64).contains(&lanes)
            && (1..=lanes).contains(&elements)
            && lanes.is_multiple_of(elements)
            && u32::from(first_bit) + u32::from(lanes) <= u64::BITS
            && (mask.is_some() || first_bit == 0);
        is_possible.then_some(Lanes { base, plus, mask, first_bit, lanes, elements, order })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The accesses of lanes, with a mask in slot 0 and indexes from slot 1 on.
    fn made(lanes: Lanes, slots: &[u64]) -> Vec<(u64, u32)> {
        let mut accesses = Vec::new();
        let value = |slot: u16| slots.get(usize::from(slot)).copied().unwrap_or(0);
        lanes.each(4, &value, |address, count| accesses.push((address, count)));
        accesses
    }

    const APART: Lanes = Lanes {
        base: None,
        plus: 0x1000,
        mask: Some(0),
        first_bit: 0,
        lanes: 16,
        elements: 16,
        order: LaneOrder::Apart,
    };

    #[test]
    fn elements_behind_each_other_are_one_access() {
        assert_eq!(made(APART, &[0]), []);
        assert_eq!(made(APART, &[0b1101]), [(0x1000, 1), (0x1008, 2)]);
        // Bits above the lanes have no meaning.
        assert_eq!(made(APART, &[u64::MAX]), [(0x1000, 16)]);
        assert_eq!(made(Lanes { mask: None, ..APART }, &[0]), [(0x1000, 16)]);
        let widest = Lanes { lanes: 64, elements: 64, ..APART };
        assert_eq!(made(widest, &[u64::MAX]), [(0x1000, 64)]);
        assert_eq!(made(widest, &[1 << 63]), [(0x1000 + 63 * 4, 1)]);
        let later = Lanes { first_bit: 5, lanes: 1, elements: 1, ..APART };
        assert_eq!(
            (made(later, &[1 << 5]), made(later, &[!(1 << 5)])),
            (vec![(0x1000, 1)], vec![])
        );
    }

    #[test]
    fn packed_elements_begin_at_the_address() {
        let packed = Lanes { order: LaneOrder::Packed, ..APART };
        assert_eq!(made(packed, &[0b101_0001]), [(0x1000, 3)]);
        assert_eq!(made(packed, &[1 << 16]), []);
    }

    #[test]
    fn an_element_of_several_lanes_is_accessed_for_one_of_them() {
        let single = Lanes { elements: 1, ..APART };
        assert_eq!((made(single, &[1 << 15]), made(single, &[0])), (vec![(0x1000, 1)], vec![]));
        let four = Lanes { elements: 4, ..APART };
        assert_eq!(made(four, &[1 << 9 | 1 << 12]), [(0x1000, 2)]);
    }

    #[test]
    fn indexes_are_extended_by_their_sign() {
        let order = LaneOrder::Indexed { slot: 1, bytes: 4, scale: 8, is_narrow: false };
        let indexed = Lanes { lanes: 4, elements: 4, order, ..APART };
        let slots = [0b1011, u64::from(u32::MAX) << 32 | 2, 7 << 32];
        assert_eq!(made(indexed, &slots), [(0x1010, 1), (0xff8, 1), (0x1038, 1)]);
        let order = LaneOrder::Indexed { slot: 1, bytes: 8, scale: 1, is_narrow: true };
        let narrow = Lanes { lanes: 2, elements: 2, order, ..APART };
        assert_eq!(made(narrow, &[3, 1, 0xffff_f000]), [(0x1001, 1), (0, 1)]);
    }
}
