//! Counts the edges of indirect transfers: pairs of blocks.
//!
//! The edges are in an open hash table, which grows up to a limit of edges. Further edges are
//! refused. The program can choose edges, but not the slots in which they are stored, because the
//! slots depend on a random number.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};

/// Slots of a new table, a power of two.
const FIRST_SLOTS: usize = 1 << 10;

/// A transfer from one block to another, by their numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Edge {
    /// Number of the block that ends with the transfer.
    pub from: u32,
    /// Number of the block at its target.
    pub to: u32,
}

/// An edge with its counts; an unused slot has a count of 0.
#[derive(Clone, Copy, Debug, Default)]
struct Slot {
    /// Numbers of both blocks: `from` in the high half, `to` in the low half.
    key: u64,
    times: u64,
    /// The count at the last call of [`Edges::take_recent`].
    seen: u64,
}

impl Slot {
    fn edge(&self) -> Edge {
        Edge { from: (self.key >> 32) as u32, to: self.key as u32 }
    }
}

/// Edges with their counts.
#[derive(Clone, Debug)]
pub struct Edges {
    slots: Vec<Slot>,
    used: usize,
    limit: usize,
    /// Random odd number by which keys are multiplied.
    multiplier: u64,
}

impl Edges {
    /// An empty table for at most `limit` edges.
    pub fn new(limit: usize) -> Self {
        let multiplier = RandomState::new().build_hasher().finish() | 1;
        Edges { slots: vec![Slot::default(); FIRST_SLOTS], used: 0, limit, multiplier }
    }

    /// Adds to the count of an edge. Returns `false` if the table is full and does not contain the
    /// edge.
    #[inline]
    pub fn add(&mut self, edge: Edge, times: u64) -> bool {
        let key = u64::from(edge.from) << 32 | u64::from(edge.to);
        let mask = self.slots.len() - 1;
        let mut at = place(key, self.multiplier, mask);
        loop {
            let slot = &mut self.slots[at];
            if slot.times == 0 {
                return self.insert(key, times);
            }
            if slot.key == key {
                slot.times += times;
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
            let larger = vec![Slot::default(); self.slots.len() * 2];
            let old = std::mem::replace(&mut self.slots, larger);
            old.into_iter().filter(|one| one.times > 0).for_each(|one| self.put(one));
        }
        self.used += 1;
        self.put(Slot { key, times, seen: 0 });
        true
    }

    /// Stores an edge in a free slot. The table must not contain the edge yet. At least half of the
    /// slots must be free.
    fn put(&mut self, slot: Slot) {
        let mask = self.slots.len() - 1;
        let mut at = place(slot.key, self.multiplier, mask);
        while self.slots[at].times > 0 {
            at = (at + 1) & mask;
        }
        self.slots[at] = slot;
    }

    /// All edges with their counts.
    pub fn iter(&self) -> impl Iterator<Item = (Edge, u64)> {
        self.slots.iter().filter(|slot| slot.times > 0).map(|slot| (slot.edge(), slot.times))
    }

    /// The edges that were counted since the last call, and their counts since then.
    pub fn take_recent(&mut self) -> impl Iterator<Item = (Edge, u64)> {
        self.slots.iter_mut().filter(|slot| slot.times > slot.seen).map(|slot| {
            let recent = slot.times - std::mem::replace(&mut slot.seen, slot.times);
            (slot.edge(), recent)
        })
    }

    /// All edges with their counts, sorted by their numbers.
    pub fn sorted(&self) -> Vec<(Edge, u64)> {
        let mut edges: Vec<_> = self.iter().collect();
        edges.sort_unstable();
        edges
    }
}

/// The slot at which the search for a key begins.
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
        assert_eq!(
            edges.take_recent().map(|(_, times)| times).sum::<u64>(),
            40_000 + 2 * (2000 - refused)
        );
        let edge = Edge { from: 60, to: 66 };
        edges.add(edge, 7);
        assert_eq!(edges.take_recent().collect::<Vec<_>>(), [(edge, 7)]);
        assert_eq!(edges.take_recent().count(), 0);
    }
}
