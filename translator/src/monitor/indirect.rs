//! Counts pairs of blocks: the edges of indirect transfers.
//!
//! An open hash table that grows up to a limit of edges. Edges beyond that are refused. The program can choose edges, but
//! not the slots that they get: these depend on a random number.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};

/// Slots of a new table, a power of two.
const FIRST_SLOTS: usize = 1 << 10;

/// A transfer from a block to another, by their numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Edge {
    /// Number of the block that ends with the transfer.
    pub from: u32,
    /// Number of the block at its target.
    pub to: u32,
}

/// Edges with their counts.
#[derive(Clone, Debug)]
pub struct Edges {
    /// Both numbers, and the count; an unused slot has a count of 0.
    slots: Vec<(u64, u64)>,
    used: usize,
    limit: usize,
    /// Random and odd.
    multiplier: u64,
}

impl Edges {
    /// An empty table for at most `limit` edges.
    pub fn new(limit: usize) -> Self {
        let multiplier = RandomState::new().build_hasher().finish() | 1;
        Edges { slots: vec![(0, 0); FIRST_SLOTS], used: 0, limit, multiplier }
    }

    /// Adds to the count of an edge. Returns whether there is room for the edge.
    #[inline]
    pub fn add(&mut self, edge: Edge, times: u64) -> bool {
        let key = u64::from(edge.from) << 32 | u64::from(edge.to);
        let mask = self.slots.len() - 1;
        let mut at = place(key, self.multiplier, mask);
        loop {
            let slot = &mut self.slots[at];
            if slot.1 == 0 {
                return self.insert(key, times);
            }
            if slot.0 == key {
                slot.1 += times;
                return true;
            }
            at = (at + 1) & mask;
        }
    }

    #[cold]
    fn insert(&mut self, key: u64, times: u64) -> bool {
        if self.used == self.limit || times == 0 {
            return times == 0;
        }
        if self.used >= self.slots.len() / 2 {
            let larger = vec![(0, 0); self.slots.len() * 2];
            let old = std::mem::replace(&mut self.slots, larger);
            old.into_iter().filter(|one| one.1 > 0).for_each(|(key, times)| self.put(key, times));
        }
        self.used += 1;
        self.put(key, times);
        true
    }

    /// Puts an edge that the table does not contain into a free slot. At least half of the slots are free.
    fn put(&mut self, key: u64, times: u64) {
        let mask = self.slots.len() - 1;
        let mut at = place(key, self.multiplier, mask);
        while self.slots[at].1 > 0 {
            at = (at + 1) & mask;
        }
        self.slots[at] = (key, times);
    }

    /// All edges with their counts.
    pub fn iter(&self) -> impl Iterator<Item = (Edge, u64)> {
        let used = self.slots.iter().filter(|one| one.1 > 0);
        let edge = |key: u64| Edge { from: (key >> 32) as u32, to: key as u32 };
        used.map(move |(key, times)| (edge(*key), *times))
    }

    /// All edges with their counts, in order.
    pub fn sorted(&self) -> Vec<(Edge, u64)> {
        let mut all: Vec<_> = self.iter().collect();
        all.sort_unstable();
        all
    }
}

/// The first slot for a key.
fn place(key: u64, multiplier: u64, mask: usize) -> usize {
    (key.wrapping_mul(multiplier) >> 32) as usize & mask
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn counts_are_those_of_a_map_up_to_the_limit() {
        let (mut edges, mut expected) = (Edges::new(5000), BTreeMap::new());
        let mut refused = 0;
        for number in 0u32..40_000 {
            // All 61 * 67 of these come before the limit is reached.
            let edge = Edge { from: number % 61, to: number % 67 };
            assert!(edges.add(edge, 1));
            *expected.entry(edge).or_insert(0) += 1;
            let rare = Edge { from: number, to: 1 << 20 };
            if number % 20 != 0 {
            } else if edges.add(rare, 2) {
                expected.insert(rare, 2);
            } else {
                refused += 1;
            }
        }
        assert_eq!((expected.len(), refused), (5000, 2000 - (5000 - 61 * 67)));
        assert_eq!(edges.sorted(), expected.into_iter().collect::<Vec<_>>());
        assert!(edges.add(Edge { from: 1, to: 1 << 30 }, 0));
    }
}
