//! An LRU stack of lines, which states at each access how many other lines were accessed since the last one to its line.
//!
//! Each access gets the next slot of time; a bit says that the access of a slot is the last one to its line. The distance is
//! the number of bits behind the line's old slot (Bennett and Kruskal, 1975). Bits are in words; a Fenwick tree has the
//! numbers of bits of all words before the one in use. So an access takes one lookup and a sum over O(log n) numbers that
//! fit into a second-level cache. When no slot is free, slots are numbered anew, without those whose bits are 0.
//!
//! Memory: 32 to 64 bytes for each line in the table, and at most 2 bytes in bits and tree.

use super::hash::Table;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

const WORD_LOG2: u32 = u64::BITS.trailing_zeros();
/// Slots for each line, at least, after they were numbered anew.
const SLOTS_PER_LINE: usize = 4;
const LEAST_SLOTS: usize = 1 << 12;

/// An LRU stack.
///
/// ```
/// let mut stack = hmtt::analysis::stack::Stack::default();
/// let distances: Vec<_> = [7, 8, 9, 8, 8, 7].map(|line| stack.touch(line)).to_vec();
/// assert_eq!(distances, [None, None, None, Some(1), Some(0), Some(2)]);
/// ```
#[derive(Clone, Debug)]
pub struct Stack {
    /// The slot of the last access to each line.
    slots: Table<u64>,
    bits: Vec<u64>,
    /// Fenwick tree, from 1 on, of the number of bits in each word before `word(next)`.
    tree: Vec<u32>,
    /// The next free slot.
    next: usize,
}

impl Default for Stack {
    fn default() -> Self {
        Stack::with_slots(Table::default(), LEAST_SLOTS)
    }
}

const fn word(slot: usize) -> usize {
    slot >> WORD_LOG2
}

/// The bit of a slot in its word, and those of all slots before it.
const fn up_to(slot: usize) -> u64 {
    u64::MAX >> (u64::BITS - 1 - (slot as u32 & (u64::BITS - 1)))
}

impl Stack {
    fn with_slots(slots: Table<u64>, count: usize) -> Self {
        let words = word(count);
        Stack { slots, bits: vec![0; words], tree: vec![0; words + 1], next: 0 }
    }

    /// Number of lines.
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// Whether there is no line.
    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// Accesses a line. Returns the number of other lines that were accessed since the last access to it; `None` if this is
    /// the first one.
    #[inline]
    pub fn touch(&mut self, line: u64) -> Option<u64> {
        if word(self.next) == self.bits.len() {
            self.renumber();
        }
        let (slot, open) = (self.next, word(self.next));
        let lines = self.slots.len();
        let place = self.slots.entry(line);
        // 0 stands for no slot.
        let before = std::mem::replace(place, slot as u64 + 1);
        self.bits[open] |= 1 << (slot as u32 & (u64::BITS - 1));
        self.next += 1;
        let distance = before.checked_sub(1).map(|old| self.leave(old as usize, open, lines));
        if word(self.next) != open {
            self.close(open);
        }
        distance
    }

    /// Clears the bit of an old slot. Returns how many bits are behind it, without that of the access itself. `lines`: the
    /// number of all bits, without it.
    #[inline]
    fn leave(&mut self, old: usize, open: usize, lines: usize) -> u64 {
        let at = word(old);
        let up_to_old = up_to(old);
        let own = self.bits[at];
        self.bits[at] = own & !(up_to_old ^ up_to_old >> 1);
        if at == open {
            return u64::from((own & !up_to_old).count_ones()) - 1;
        }
        let mut behind = lines as u64 - u64::from((own & up_to_old).count_ones());
        let mut node = at;
        while node != 0 {
            behind -= u64::from(self.tree[node]);
            node &= node - 1;
        }
        let mut node = at + 1;
        while let Some(count) = self.tree.get_mut(node) {
            *count = count.wrapping_sub(1);
            node += node & node.wrapping_neg();
        }
        behind
    }

    /// Adds the bits of the word that was in use to the tree.
    fn close(&mut self, open: usize) {
        let bits = self.bits[open].count_ones();
        let mut node = open + 1;
        while let Some(count) = self.tree.get_mut(node) {
            *count = count.wrapping_add(bits);
            node += node & node.wrapping_neg();
        }
    }

    /// Numbers the slots in use anew, from 0 on.
    #[cold]
    fn renumber(&mut self) {
        let mut before = Vec::with_capacity(self.bits.len());
        let mut sum = 0u64;
        for bits in &self.bits {
            before.push(sum);
            sum += u64::from(bits.count_ones());
        }
        let count = (SLOTS_PER_LINE * self.slots.len()).next_power_of_two().max(LEAST_SLOTS);
        let mut slots = std::mem::take(&mut self.slots);
        let bits = std::mem::take(&mut self.bits);
        slots.each_value(|slot| {
            let old = *slot as usize - 1;
            let own = (bits[word(old)] & up_to(old)).count_ones();
            // The number of the line's own bit, from 1 on.
            *slot = before[word(old)] + u64::from(own);
        });
        let used = slots.len();
        *self = Stack::with_slots(slots, count);
        while self.next < used {
            let open = word(self.next);
            self.bits[open] |= 1 << (self.next as u32 & (u64::BITS - 1));
            self.next += 1;
            if word(self.next) != open {
                self.close(open);
            }
        }
    }

    /// Leaves out the lines that are not to be kept.
    pub fn retain(&mut self, keep: impl Fn(u64) -> bool) {
        let kept = self.order_of(keep);
        *self = Stack::default();
        kept.into_iter().for_each(|line| {
            self.touch(line);
        });
    }

    /// The lines in the order of their last accesses, the latest one last.
    pub fn order(&self) -> Vec<u64> {
        self.order_of(|_| true)
    }

    /// The order of some of the lines.
    fn order_of(&self, is_wanted: impl Fn(u64) -> bool) -> Vec<u64> {
        let wanted = self.slots.iter().filter(|(line, _)| is_wanted(*line));
        let mut all: Vec<(u64, u64)> = wanted.map(|(line, slot)| (slot, line)).collect();
        all.sort_unstable();
        all.into_iter().map(|(_, line)| line).collect()
    }
}

/// The list of [`Stack::order`].
impl Serialize for Stack {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.order().serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Stack {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut stack = Stack::default();
        for line in Vec::<u64>::deserialize(deserializer)? {
            // No line has this number; the table has no place for it.
            if line != u64::MAX {
                stack.touch(line);
            }
        }
        Ok(stack)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A stack as a list, the latest line last.
    fn touch(list: &mut Vec<u64>, line: u64) -> Option<u64> {
        let found = list.iter().rposition(|one| *one == line);
        let distance = found.map(|at| (list.len() - 1 - at) as u64);
        found.map(|at| list.remove(at));
        list.push(line);
        distance
    }

    proptest! {
        #[test]
        fn distances_are_those_of_a_list(
            lines in 1u64..3000,
            steps in prop::collection::vec((0u32..4, any::<u64>()), 0..12_000),
        ) {
            let (mut stack, mut list) = (Stack::default(), Vec::new());
            for (at, (kind, random)) in steps.into_iter().enumerate() {
                let line = match kind {
                    0 => random % lines,
                    1 => at as u64 % lines,
                    2 => random % (1 + lines / 50),
                    _ => at as u64 / 3 % lines,
                };
                prop_assert_eq!(stack.touch(line), touch(&mut list, line), "access {}", at);
            }
            prop_assert_eq!(stack.order(), &list[..]);
            let text = serde_json::to_string(&stack).unwrap();
            prop_assert_eq!(serde_json::from_str::<Stack>(&text).unwrap().order(), list);
        }
    }
}
