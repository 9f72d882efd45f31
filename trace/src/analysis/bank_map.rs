//! Finds the bank and the row of an address, with the map in a card's description of its memory.
//!
//! Each bit of a coordinate is the XOR of address bits. For example, bit 1 of the bank can be the
//! XOR of the address bits 15 and 18. So the coordinates of an address are the XOR of its bytes'
//! coordinates, which are looked up in tables.

use hmtt_format::address_map::{
    ADDRESS_BITS, AddressMap, Axis, MAX_BANK_BITS, MAX_RANK_BITS, MAX_ROW_BITS,
};
use serde::{Deserialize, Serialize};

/// Maximum number of banks of all ranks together.
pub const MOST_BANKS: usize = 1 << (MAX_RANK_BITS + MAX_BANK_BITS);
/// Number of low bytes of an address whose bits a map can name.
const BYTES: usize = ADDRESS_BITS / 8;

/// For each bit of the rank, bank and row: a mask of the address bits whose XOR the bit is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BankMap {
    rank: [u64; MAX_RANK_BITS as usize],
    bank: [u64; MAX_BANK_BITS as usize],
    row: [u64; MAX_ROW_BITS as usize],
}

impl From<&AddressMap> for BankMap {
    fn from(map: &AddressMap) -> Self {
        fn masks<const BITS: usize>(map: &AddressMap, axis: Axis) -> [u64; BITS] {
            let mut masks = [0; BITS];
            masks.iter_mut().zip(0..).for_each(|(mask, bit)| *mask = map.mask(axis, bit));
            masks
        }
        BankMap {
            rank: masks(map, Axis::Rank),
            bank: masks(map, Axis::Bank),
            row: masks(map, Axis::Row),
        }
    }
}

/// A bank and a row in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Number of the bank among the banks of all ranks: below [`MOST_BANKS`].
    pub index: usize,
    /// Number of the row in its bank.
    pub row: u32,
}

/// The number of a bank's rank, and the number of the bank in this rank. `index`: as
/// [`Place::index`].
pub fn rank_and_bank(index: usize) -> (u16, u16) {
    ((index >> MAX_BANK_BITS) as u16, (index & ((1 << MAX_BANK_BITS) - 1)) as u16)
}

/// Tables that give the bank and the row of an address: for each byte of an address, the
/// coordinates of each value of the byte.
#[derive(Clone, Debug)]
pub struct BankLookup([[u64; 256]; BYTES]);

impl BankLookup {
    /// Computes the tables of a map.
    pub fn new(map: &BankMap) -> Box<BankLookup> {
        let mut lookup = Box::new(BankLookup([[0; 256]; BYTES]));
        // The row is in the low half, the bank above it, and the rank above the bank.
        let masks = (map.row.iter().zip(0..))
            .chain(map.bank.iter().zip(32..))
            .chain(map.rank.iter().zip(32 + u32::from(MAX_BANK_BITS)..));
        for (mask, at) in masks {
            for (byte, table) in lookup.0.iter_mut().enumerate() {
                let mask = mask >> (8 * byte) & 0xff;
                for (value, entry) in (0u64..).zip(table.iter_mut()) {
                    *entry |= u64::from((mask & value).count_ones() & 1) << at;
                }
            }
        }
        lookup
    }

    /// The bank and the row of an address.
    #[inline]
    pub fn place(&self, address: u64) -> Place {
        let bytes = address.to_le_bytes();
        let bits =
            self.0.iter().zip(bytes).fold(0, |bits, (table, byte)| bits ^ table[usize::from(byte)]);
        Place { index: (bits >> 32) as usize % MOST_BANKS, row: bits as u32 }
    }
}

#[cfg(test)]
mod tests {
    use hmtt_format::address_map::MapBuilder;
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn places_are_those_of_the_address_map(address in any::<u64>()) {
            let mut map = MapBuilder::default();
            (0..10).for_each(|bit| map.bit(Axis::Column, bit, 1 << (3 + bit)).unwrap());
            (0..4).for_each(|bit| map.bit(Axis::Bank, bit, 0b1_0001 << (13 + bit)).unwrap());
            (0..2).for_each(|bit| map.bit(Axis::Rank, bit, 1 << (35 + bit)).unwrap());
            (0..18).for_each(|bit| map.bit(Axis::Row, bit, 1 << (17 + bit)).unwrap());
            let map = map.build().unwrap();
            let expected = map.to_coordinates(address);
            let place = BankLookup::new(&BankMap::from(&map)).place(address);
            let (rank, bank) = rank_and_bank(place.index);
            let coordinates = (u32::from(rank), u32::from(bank), place.row);
            prop_assert_eq!(coordinates, (expected.rank, expected.bank, expected.row));
        }
    }
}
