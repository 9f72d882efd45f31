//! Maps numbers of pages to values, and stores the values of neighbouring pages next to each other.
//!
//! Pages in use rarely stand alone, so the values of a group of [`GROUP`] pages are stored
//! together. The place of a group's values is in an array for low groups, as in a page table, and
//! in a [`Table`] for other groups. So physical pages are found without a hash, and without a
//! branch that cannot be predicted. The array reaches to groups below `SPREAD` times the number of
//! groups in use.
//!
//! Memory for values of 8 bytes: 8 to 12 bytes for each page if all pages of the memory are in use,
//! at most 26 if most neighbours are in use, and 400 for a page without neighbours. A page whose
//! value is the default one is not in the table.

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::hash::Table;
use super::list;

const GROUP_LOG2: u32 = 4;
/// Number of pages whose values are stored together.
pub const GROUP: usize = 1 << GROUP_LOG2;
/// A new group lengthens the array if the group's number is below this number times the groups in
/// use. The length is rounded up to a power of two, so the array has at most twice this number of
/// elements for each group in use.
const SPREAD: usize = 32;
/// Number of elements that the array may have even if few groups are in use: enough for 64 MiB of
/// memory.
const LEAST_REACH: usize = 1 << 10;

/// A table from numbers of pages to values.
///
/// ```
/// use hmtt::analysis::page_table::PageTable;
///
/// let mut table = PageTable::<u32>::default();
/// *table.entry(7) += 2;
/// assert_eq!(*table.entry(8), 0);
/// assert_eq!(table.iter().collect::<Vec<_>>(), [(7, 2)]);
/// ```
#[derive(Clone, Debug, Default)]
pub struct PageTable<V: Copy + Default> {
    /// The place of each low group in `values`, plus 1; 0 if it is not in use.
    low: Vec<u32>,
    /// The places of the other groups, plus 1.
    high: Table<u32>,
    values: Vec<[V; GROUP]>,
}

impl<V: Copy + Default + PartialEq> PageTable<V> {
    /// The value of a page; the default one if the page is not in the table.
    #[inline]
    pub fn entry(&mut self, page: u64) -> &mut V {
        let group = page >> GROUP_LOG2;
        let place = match self.low.get(group as usize) {
            Some(place) if *place != 0 => *place,
            _ => self.place(group),
        };
        &mut self.values[place as usize - 1][page as usize % GROUP]
    }

    /// The value of a page; the default one if the page is not in the table.
    pub fn get(&self, page: u64) -> V {
        let group = page >> GROUP_LOG2;
        let place = match self.low.get(group as usize) {
            Some(place) => Some(*place).filter(|place| *place != 0),
            None => self.high.get(group),
        };
        let values = place.and_then(|place| self.values.get(place as usize - 1));
        values.map_or_else(V::default, |values| values[page as usize % GROUP])
    }

    /// The place of a group that is not in the array, plus 1. A new group is added.
    fn place(&mut self, group: u64) -> u32 {
        if let Some(place) = self.high.get(group) {
            return place;
        }
        self.values.push([V::default(); GROUP]);
        let place = self.values.len() as u32;
        let reach = LEAST_REACH.max(SPREAD * self.values.len()) as u64;
        if group < reach && group >= self.low.len() as u64 {
            self.lengthen((group as usize + 1).next_power_of_two());
        }
        *match self.low.get_mut(group as usize) {
            Some(low) => low,
            None => self.high.entry(group),
        } = place;
        place
    }

    /// Lengthens the array to `groups` elements. Moves the groups with lower numbers from the table
    /// to the array.
    #[cold]
    fn lengthen(&mut self, groups: usize) {
        self.low.resize(groups, 0);
        for (group, place) in std::mem::take(&mut self.high).iter() {
            *match self.low.get_mut(group as usize) {
                Some(low) => low,
                None => self.high.entry(group),
            } = place;
        }
    }

    /// All pages with a value that is not the default one, in no particular order.
    pub fn iter(&self) -> impl Iterator<Item = (u64, V)> {
        let low = (0..).zip(self.low.iter().copied()).filter(|(_, place)| *place != 0);
        low.chain(self.high.iter()).flat_map(|(group, place)| {
            let pages = group << GROUP_LOG2..=group << GROUP_LOG2 | (GROUP as u64 - 1);
            let values = self.values[place as usize - 1];
            pages.zip(values).filter(|(_, value)| *value != V::default())
        })
    }
}

/// Serialises a list of pairs of page and value.
impl<V: Serialize + Copy + Default + PartialEq> Serialize for PageTable<V> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        list::serialize(serializer, || self.iter())
    }
}

impl<'de, V: Deserialize<'de> + Copy + Default + PartialEq> Deserialize<'de> for PageTable<V> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut table = PageTable::default();
        for (page, value) in Vec::<(u64, V)>::deserialize(deserializer)? {
            *table.entry(page) = value;
        }
        Ok(table)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_table_is_a_map(keys in prop::collection::vec((0u64..5000, 0u32..60), 0..4000)) {
            let keys: Vec<u64> = keys.into_iter().map(|(key, shift)| !(key << shift)).collect();
            let mut table = PageTable::<u64>::default();
            let mut expected = BTreeMap::<u64, u64>::new();
            for key in &keys {
                *table.entry(*key) += 1;
                *expected.entry(*key).or_default() += 1;
            }
            let text = serde_json::to_string(&table).unwrap();
            let read: PageTable<u64> = serde_json::from_str(&text).unwrap();
            for table in [&table, &read] {
                prop_assert_eq!(&table.iter().collect::<BTreeMap<_, _>>(), &expected);
                prop_assert_eq!(table.iter().count(), expected.len());
                for key in expected.keys().flat_map(|key| [*key, key ^ 1]) {
                    prop_assert_eq!(table.get(key), expected.get(&key).copied().unwrap_or(0));
                }
            }
        }
    }
}
