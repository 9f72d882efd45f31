//! Converts physical addresses to DRAM coordinates and back, by a matrix over GF(2) and its
//! inverse.
//!
//! Each coordinate bit is the XOR of some address bits (`bank[1] = p15 ^ p18`). Invariant: every
//! address bit that a map names can be computed from the coordinates, so that rank, bank, row and
//! column on the bus determine the address. Other maps are rejected.

use core::fmt;

/// Number of address bits that a map may name, for memories of up to 1 TiB.
pub const ADDRESS_BITS: usize = 40;
/// Maximum number of row bits of any generation (A0-A17).
pub const MAX_ROW_BITS: u8 = 18;
/// Maximum number of bank bits (DDR4: two of the bank group and two of the bank; one more is
/// reserved).
pub const MAX_BANK_BITS: u8 = 5;
/// Maximum number of column bits (DDR3: A0-A9, A11, A13, A14).
pub const MAX_COLUMN_BITS: u8 = 13;
/// Maximum number of rank bits (four chip selects).
pub const MAX_RANK_BITS: u8 = 2;

/// The place of a bus word in the memory, as numbers on the bus.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Coordinates {
    /// Number of the rank, equal to the number of its chip select.
    pub rank: u32,
    /// Number of the bank; on DDR4 with the bank group in its high bits.
    pub bank: u32,
    /// Number of the row.
    pub row: u32,
    /// Number of the column, in bus words.
    pub column: u32,
}

const COLUMN_AT: u32 = 0;
const ROW_AT: u32 = 16;
const BANK_AT: u32 = 40;
const RANK_AT: u32 = 48;

impl Coordinates {
    /// Packs the four coordinates into one word, each at a fixed place, so that one mask can select
    /// bits of all of them.
    pub const fn packed(self) -> u64 {
        (self.column as u64) << COLUMN_AT
            | (self.row as u64) << ROW_AT
            | (self.bank as u64) << BANK_AT
            | (self.rank as u64) << RANK_AT
    }
}

/// One of the four coordinates.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum Axis {
    Column,
    Row,
    Bank,
    Rank,
}

impl Axis {
    /// All axes, in the order of reports.
    pub const ALL: [Axis; 4] = [Axis::Column, Axis::Row, Axis::Bank, Axis::Rank];

    /// Name of the axis in vector headers and TOML.
    pub const fn name(self) -> &'static str {
        match self {
            Axis::Column => "col",
            Axis::Row => "row",
            Axis::Bank => "bank",
            Axis::Rank => "rank",
        }
    }

    /// Maximum number of bits that this axis can have.
    pub const fn max_bits(self) -> u8 {
        match self {
            Axis::Column => MAX_COLUMN_BITS,
            Axis::Row => MAX_ROW_BITS,
            Axis::Bank => MAX_BANK_BITS,
            Axis::Rank => MAX_RANK_BITS,
        }
    }

    const fn base(self) -> u32 {
        match self {
            Axis::Column => COLUMN_AT,
            Axis::Row => ROW_AT,
            Axis::Bank => BANK_AT,
            Axis::Rank => RANK_AT,
        }
    }

    const fn slot(self) -> usize {
        match self {
            Axis::Column => 0,
            Axis::Row => 16,
            Axis::Bank => 40,
            Axis::Rank => 48,
        }
    }
}

/// The reason why a map is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MapError {
    /// A coordinate bit is above the highest bit that any generation has.
    BitOutOfRange(Axis, u8),
    /// An address bit is not below [`ADDRESS_BITS`].
    AddressBitOutOfRange(u8),
    /// A coordinate bit was given twice.
    GivenTwice(Axis, u8),
    /// A coordinate bit is missing below the highest bit of its axis.
    Missing(Axis, u8),
    /// This address bit cannot be computed from the coordinates.
    NotInvertible(u8),
    /// Two different sets of coordinates would have the same address.
    Ambiguous,
}

impl core::error::Error for MapError {}

impl fmt::Display for MapError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MapError::BitOutOfRange(axis, bit) => {
                let (name, most) = (axis.name(), axis.max_bits());
                write!(f, "{name}[{bit}] is out of range: at most {most} {name} bits")
            }
            MapError::AddressBitOutOfRange(bit) => {
                write!(f, "address bit p{bit} is out of range: p0 to p{}", ADDRESS_BITS - 1)
            }
            MapError::GivenTwice(axis, bit) => write!(f, "{}[{bit}] is given twice", axis.name()),
            MapError::Missing(axis, bit) => write!(f, "{}[{bit}] is missing", axis.name()),
            MapError::NotInvertible(bit) => {
                write!(f, "address bit p{bit} cannot be recovered from row, bank and column")
            }
            MapError::Ambiguous => {
                f.write_str("more coordinate bits than address bits: the map is ambiguous")
            }
        }
    }
}

/// A builder of a map, to which the coordinate bits are added one by one.
#[derive(Clone, Debug)]
pub struct MapBuilder {
    masks: [u64; 64],
}

impl Default for MapBuilder {
    fn default() -> Self {
        Self { masks: [0; 64] }
    }
}

impl MapBuilder {
    /// States that bit `bit` of `axis` is the XOR of the address bits set in `mask`.
    ///
    /// # Errors
    /// [`MapError::BitOutOfRange`] or [`MapError::AddressBitOutOfRange`] for a bit that does not
    /// exist, [`MapError::GivenTwice`] if the bit was stated before.
    pub fn bit(&mut self, axis: Axis, bit: u8, mask: u64) -> Result<(), MapError> {
        if bit >= axis.max_bits() {
            return Err(MapError::BitOutOfRange(axis, bit));
        }
        if mask >> ADDRESS_BITS != 0 {
            return Err(MapError::AddressBitOutOfRange(63 - mask.leading_zeros() as u8));
        }
        let slot = &mut self.masks[axis.slot() + usize::from(bit)];
        if *slot != 0 {
            return Err(MapError::GivenTwice(axis, bit));
        }
        *slot = mask;
        Ok(())
    }

    /// Whether no coordinate bit was stated.
    pub fn is_empty(&self) -> bool {
        self.masks.iter().all(|mask| *mask == 0)
    }

    /// Number of bits of `axis` up to the highest stated bit, including missing bits below it.
    pub fn bits(&self, axis: Axis) -> u8 {
        (0..axis.max_bits())
            .rev()
            .find(|bit| self.masks[axis.slot() + usize::from(*bit)] != 0)
            .map_or(0, |bit| bit + 1)
    }

    /// Builds the map and its inverse.
    ///
    /// # Errors
    /// [`MapError::Missing`] if a bit below another one of its axis was not stated, and
    /// [`MapError::NotInvertible`] or [`MapError::Ambiguous`] if addresses and coordinates do not
    /// correspond one to one.
    pub fn build(self) -> Result<AddressMap, MapError> {
        for axis in Axis::ALL {
            let bits = self.bits(axis);
            if let Some(missing) =
                (0..bits).find(|bit| self.masks[axis.slot() + usize::from(*bit)] == 0)
            {
                return Err(MapError::Missing(axis, missing));
            }
        }
        let inverse = invert(&self.masks)?;
        Ok(AddressMap { forward: self.masks, inverse })
    }
}

/// Inverts a map by Gauss-Jordan elimination over GF(2). `forward` has the address bits of each
/// coordinate bit. The result has the coordinate bits of each address bit.
fn invert(forward: &[u64; 64]) -> Result<[u64; ADDRESS_BITS], MapError> {
    let mut rows = *forward;
    let mut from: [u64; 64] = core::array::from_fn(|slot| 1 << slot);
    let mut inverse = [0; ADDRESS_BITS];
    let named = forward.iter().fold(0, |all, mask| all | mask);
    let mut used = 0u64;
    for bit in (0..ADDRESS_BITS).filter(|bit| named >> bit & 1 != 0) {
        let pivot = (0..64)
            .find(|slot| used >> slot & 1 == 0 && rows[*slot] >> bit & 1 != 0)
            .ok_or(MapError::NotInvertible(bit as u8))?;
        used |= 1 << pivot;
        for slot in (0..64).filter(|slot| *slot != pivot) {
            if rows[slot] >> bit & 1 != 0 {
                rows[slot] ^= rows[pivot];
                from[slot] ^= from[pivot];
            }
        }
    }
    if (0..64).any(|slot| forward[slot] != 0 && used >> slot & 1 == 0) {
        return Err(MapError::Ambiguous);
    }
    for slot in (0..64).filter(|slot| used >> slot & 1 != 0) {
        inverse[rows[slot].trailing_zeros() as usize] = from[slot];
    }
    Ok(inverse)
}

/// An address map with its inverse.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AddressMap {
    /// For each coordinate bit, at its position in [`Coordinates::packed`]: the address bits whose
    /// XOR is the coordinate bit.
    forward: [u64; 64],
    /// For each address bit: the packed coordinate bits whose XOR is the address bit.
    inverse: [u64; ADDRESS_BITS],
}

impl AddressMap {
    /// The address bits whose XOR is bit `bit` of `axis`; 0 if the axis has fewer bits.
    pub fn mask(&self, axis: Axis, bit: u8) -> u64 {
        if bit < axis.max_bits() { self.forward[axis.slot() + usize::from(bit)] } else { 0 }
    }

    /// The packed coordinate bits whose XOR is address bit `bit`; 0 for bits that the map does not
    /// name.
    pub fn inverse_mask(&self, bit: usize) -> u64 {
        self.inverse.get(bit).copied().unwrap_or(0)
    }

    /// Number of bits of an axis.
    pub fn bits(&self, axis: Axis) -> u8 {
        (0..axis.max_bits()).take_while(|bit| self.mask(axis, *bit) != 0).count() as u8
    }

    /// All address bits that the map names.
    pub fn named_bits(&self) -> u64 {
        self.forward.iter().fold(0, |all, mask| all | mask)
    }

    /// Converts an address to coordinates.
    pub fn to_coordinates(&self, address: u64) -> Coordinates {
        let gather = |axis: Axis| {
            (0..self.bits(axis)).fold(0, |value, bit| {
                value | ((self.mask(axis, bit) & address).count_ones() & 1) << bit
            })
        };
        Coordinates {
            rank: gather(Axis::Rank),
            bank: gather(Axis::Bank),
            row: gather(Axis::Row),
            column: gather(Axis::Column),
        }
    }

    /// Converts coordinates to the address of the first byte of the bus word.
    pub fn to_address(&self, coordinates: Coordinates) -> u64 {
        let packed = coordinates.packed();
        self.inverse.iter().enumerate().fold(0, |address, (bit, mask)| {
            address | u64::from((mask & packed).count_ones() & 1) << bit
        })
    }

    /// Position of a coordinate bit in [`Coordinates::packed`], for gateware that computes the XOR
    /// of packed coordinates.
    pub const fn packed_position(axis: Axis, bit: u8) -> u32 {
        axis.base() + bit as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn xor_map() -> AddressMap {
        let mut map = MapBuilder::default();
        (0..10).for_each(|bit| map.bit(Axis::Column, bit, 1 << (3 + bit)).unwrap());
        (0..3).for_each(|bit| map.bit(Axis::Bank, bit, 0b1001 << (13 + bit)).unwrap());
        (0..15).for_each(|bit| map.bit(Axis::Row, bit, 1 << (16 + bit)).unwrap());
        map.build().unwrap()
    }

    #[test]
    fn a_map_that_folds_two_banks_together_is_refused() {
        let mut map = MapBuilder::default();
        map.bit(Axis::Column, 0, 1 << 3).unwrap();
        map.bit(Axis::Bank, 0, 1 << 4 | 1 << 5).unwrap();
        assert_eq!(map.build(), Err(MapError::NotInvertible(5)));
    }

    #[test]
    fn one_address_bit_for_two_coordinates_is_refused() {
        let mut map = MapBuilder::default();
        map.bit(Axis::Column, 0, 1 << 3).unwrap();
        map.bit(Axis::Row, 0, 1 << 3).unwrap();
        assert_eq!(map.build(), Err(MapError::Ambiguous));
    }

    #[test]
    fn a_missing_bit_of_an_axis_is_named() {
        let mut map = MapBuilder::default();
        map.bit(Axis::Row, 1, 1 << 3).unwrap();
        assert_eq!(map.build(), Err(MapError::Missing(Axis::Row, 0)));
    }

    proptest! {
        #[test]
        fn xor_maps_invert(address in 0u64..1 << 31) {
            let map = xor_map();
            let address = address & !7;
            prop_assert_eq!(map.to_address(map.to_coordinates(address)), address);
        }
    }
}
