//! Maps numbers of lines or pages to values, with one memory access for most lookups.
//!
//! Keys and values are in one array. A key whose first place is taken by another key is stored at
//! the next free place in the key's order of places. Neighbouring keys are neighbours in the array,
//! so that a scan takes one memory access for several lookups. The hash has a random key, so that
//! the author of a trace cannot choose addresses that collide. At most half of the places are in
//! use: 32 to 64 bytes for each key with a value of 8 bytes.

use std::hash::{BuildHasher, RandomState};
use std::hint::black_box;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::list;

/// The key of a free place. Numbers of lines and pages are smaller.
const FREE: u64 = u64::MAX;
/// log2 of the number of neighbouring keys whose places are neighbours: as many as fit into a cache
/// line.
const GROUP_LOG2: u32 = 2;
const GROUP: u64 = 1 << GROUP_LOG2;
/// Distance to the next place at which a key is looked for. It leads to the next group, at another
/// place in the group, because the same place is probably taken by a neighbouring key. It is odd,
/// so that all places are tried before any is tried again.
const STEP: usize = GROUP as usize + 1;
const LEAST_PLACES: usize = 1 << 6;
/// 2^64 divided by the golden ratio, rounded to an odd number.
const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;

/// A table from numbers below 2^64 - 1 to values.
///
/// ```
/// use hmtt::analysis::hash::Table;
///
/// let mut table = Table::<u32>::default();
/// *table.entry(7) += 2;
/// assert_eq!((table.get(7), table.get(8), table.len()), (Some(2), None, 1));
/// ```
#[derive(Clone, Debug)]
pub struct Table<V> {
    places: Vec<(u64, V)>,
    len: usize,
    seed: u64,
}

impl<V: Copy + Default> Default for Table<V> {
    fn default() -> Self {
        Table {
            places: vec![(FREE, V::default()); LEAST_PLACES],
            len: 0,
            seed: RandomState::new().hash_one(FACTOR),
        }
    }
}

impl<V: Copy + Default> Table<V> {
    /// Number of keys.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there is no key.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The first place at which a key is looked for.
    #[inline]
    fn first(&self, key: u64) -> usize {
        let product = u128::from(key >> GROUP_LOG2 ^ self.seed) * u128::from(FACTOR);
        let hash = (product >> 64) as u64 ^ product as u64;
        // The order in a group depends on the hash, too: otherwise keys that are multiples of a
        // group's size would compete for a part of all places.
        let order = (hash >> (u64::BITS - GROUP_LOG2) ^ key) & (GROUP - 1);
        (hash << GROUP_LOG2 | order) as usize & (self.places.len() - 1)
    }

    /// The place of a key, or the free place at which it would be stored.
    #[inline]
    fn place(&self, key: u64) -> usize {
        let mask = self.places.len() - 1;
        let mut at = self.first(key);
        while self.places[at].0 != key && self.places[at].0 != FREE {
            at = (at + STEP) & mask;
        }
        at
    }

    /// Loads the first places of several keys, so that the processor makes these loads at once.
    #[inline]
    pub fn load(&self, keys: &[u64]) {
        black_box(keys.iter().fold(0, |sum, key| sum ^ self.places[self.first(*key)].0));
    }

    /// The value of a key; `None` if the key is not in the table.
    #[inline]
    pub fn get(&self, key: u64) -> Option<V> {
        let (stored_key, value) = self.places[self.place(key)];
        (stored_key == key && key != FREE).then_some(value)
    }

    /// The value of a key. A new key is added with the default value.
    #[inline]
    pub fn entry(&mut self, key: u64) -> &mut V {
        let mut at = self.place(key);
        if self.places[at].0 != key {
            if (self.len + 1) * 2 > self.places.len() {
                self.grow();
                at = self.place(key);
            }
            self.places[at].0 = key;
            self.len += 1;
        }
        &mut self.places[at].1
    }

    #[cold]
    fn grow(&mut self) {
        let more = vec![(FREE, V::default()); self.places.len() * 2];
        let old = std::mem::replace(&mut self.places, more);
        for (key, value) in old.into_iter().filter(|(key, _)| *key != FREE) {
            let at = self.place(key);
            self.places[at] = (key, value);
        }
    }

    /// Calls `change` for each value.
    pub fn each_value(&mut self, mut change: impl FnMut(&mut V)) {
        let used = self.places.iter_mut().filter(|(key, _)| *key != FREE);
        used.for_each(|(_, value)| change(value));
    }

    /// All keys and values, in no particular order.
    pub fn iter(&self) -> impl Iterator<Item = (u64, V)> {
        self.places.iter().copied().filter(|(key, _)| *key != FREE)
    }
}

/// Serialises a list of pairs of key and value.
impl<V: Serialize + Copy + Default> Serialize for Table<V> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        list::serialize(serializer, || self.iter())
    }
}

impl<'de, V: Deserialize<'de> + Copy + Default> Deserialize<'de> for Table<V> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut table = Table::default();
        for (key, value) in Vec::<(u64, V)>::deserialize(deserializer)? {
            if key != FREE {
                *table.entry(key) = value;
            }
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
        fn a_table_is_a_map(keys in prop::collection::vec(0u64..5000, 0..4000)) {
            let mut table = Table::<u64>::default();
            let mut expected = BTreeMap::<u64, u64>::new();
            for key in &keys {
                *table.entry(key << 40 | 5) += 1;
                *expected.entry(key << 40 | 5).or_default() += 1;
            }
            let text = serde_json::to_string(&table).unwrap();
            let read: Table<u64> = serde_json::from_str(&text).unwrap();
            for table in [&table, &read] {
                prop_assert_eq!(table.len(), expected.len());
                prop_assert_eq!(&table.iter().collect::<BTreeMap<_, _>>(), &expected);
                prop_assert_eq!(table.get(5 | 5000 << 40), None);
            }
        }
    }
}
