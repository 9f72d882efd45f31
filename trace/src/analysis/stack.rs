//! Keeps an LRU stack of lines. For each access, the stack states how many other lines were
//! accessed since the last access to the same line.
//!
//! Each access gets the next slot of time. A slot's bit is 1 if its access is the last one to its
//! line. The distance is the number of 1 bits after the line's old slot (Bennett and Kruskal,
//! 1975), which `OrderedBits` counts. For example, the lines 7, 8, 9, 8 have the slots 0 to 3, and
//! the bits of slots 0, 2 and 3 are 1. An access to line 7 then has the distance 2. An access to
//! the same line as the access before it changes nothing. When no slot is free, the slots with 1
//! bits are numbered anew, and the others are dropped.
//!
//! The latency of memory limits the speed: for each access, the slot and the bits around it are in
//! other lines of the processor's caches than for the access before. So accesses are made in
//! chunks: the slots of all lines of a chunk are loaded and exchanged for new ones, before any bits
//! are loaded and changed. The processor then waits for several loads at once.
//!
//! Memory: 32 to 64 bytes for each line in the table, and at most 2 bytes in bits and their counts.

use super::hash::Table;
use super::ordered_bits::OrderedBits;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Minimum number of slots for each line, after slots were numbered anew.
const SLOTS_PER_LINE: usize = 4;
/// Minimum number of slots of a stack.
const LEAST_SLOTS: usize = 1 << 12;
/// Number of accesses whose lines are looked up at once.
const CHUNK: usize = 64;

/// An LRU stack.
///
/// ```
/// let mut stack = hmtt::analysis::stack::Stack::default();
/// let distances: Vec<_> = [7, 8, 9, 8, 8, 7].map(|line| stack.touch(line)).to_vec();
/// assert_eq!(distances, [None, None, None, Some(1), Some(0), Some(2)]);
/// ```
#[derive(Clone, Debug)]
pub struct Stack {
    /// The slot of the last access to each line, plus 1; 0 stands for no slot.
    slots: Table<u64>,
    /// For each slot, whether its access is the last one to its line.
    bits: OrderedBits,
    /// The next free slot.
    next: usize,
}

impl Default for Stack {
    fn default() -> Self {
        Stack { slots: Table::default(), bits: OrderedBits::new(LEAST_SLOTS, 0), next: 0 }
    }
}

impl Stack {
    /// Number of lines.
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// Whether there is no line.
    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// Accesses a line. Returns the number of other lines that were accessed since the last access
    /// to this line; `None` for the first access to it.
    #[inline]
    pub fn touch(&mut self, line: u64) -> Option<u64> {
        self.reserve(1);
        let mut old = [0];
        self.exchange(&[line], &mut old);
        self.replace(old[0])
    }

    /// Accesses lines in order. `report` receives each line with the result that [`Stack::touch`]
    /// has for the line.
    pub fn touch_all(&mut self, lines: &[u64], mut report: impl FnMut(u64, Option<u64>)) {
        for chunk in lines.chunks(CHUNK) {
            self.reserve(chunk.len());
            let mut slots = [0; CHUNK];
            let old = &mut slots[..chunk.len()];
            self.slots.load(chunk);
            self.exchange(chunk, old);
            self.bits.load(old.iter().map(|slot| (*slot as usize).saturating_sub(1)));
            for (line, old) in chunk.iter().zip(old) {
                report(*line, self.replace(*old));
            }
        }
    }

    /// Gives lines new slots, from the next free slot on, and stores the old slots plus 1 in `old`.
    #[inline]
    fn exchange(&mut self, lines: &[u64], old: &mut [u64]) {
        let mut last = self.next as u64;
        for (line, old) in lines.iter().zip(old) {
            let slot = self.slots.entry(*line);
            *old = *slot;
            // The line of the previous access keeps its slot.
            if *slot != last || last == 0 {
                last += 1;
                *slot = last;
            }
        }
    }

    /// Clears the bit of an old slot and sets the bit of the next slot. `old`: the old slot plus 1;
    /// 0 if there is none. Returns the number of 1 bits between the two slots; `None` without an
    /// old slot.
    #[inline]
    fn replace(&mut self, old: u64) -> Option<u64> {
        let old = (old as usize).checked_sub(1);
        if old.is_some_and(|old| old + 1 == self.next) {
            return Some(0);
        }
        let distance = old.map(|old| self.bits.advance(old, self.next));
        if distance.is_none() {
            self.bits.set(self.next);
        }
        self.next += 1;
        distance
    }

    /// Makes sure that `count` slots are free; `count` is at most [`LEAST_SLOTS`].
    #[inline]
    fn reserve(&mut self, count: usize) {
        if self.bits.len() - self.next < count {
            self.renumber();
        }
    }

    /// Numbers the slots in use anew, from 0 on.
    #[cold]
    fn renumber(&mut self) {
        let used = self.slots.len();
        let count = (SLOTS_PER_LINE * used).next_power_of_two().max(LEAST_SLOTS);
        let old = std::mem::replace(&mut self.bits, OrderedBits::new(count, used));
        let rank = old.ranks();
        self.slots.each_value(|slot| *slot = rank(*slot as usize - 1));
        self.next = used;
    }

    /// Removes the lines for which `keep` is false.
    pub fn retain(&mut self, keep: impl Fn(u64) -> bool) {
        let kept = self.order_of(keep);
        *self = Stack::default();
        self.touch_all(&kept, |_, _| {});
    }

    /// The lines in the order of their last accesses, the latest one last.
    pub fn order(&self) -> Vec<u64> {
        self.order_of(|_| true)
    }

    /// The lines for which `is_wanted` is true, in the order of their last accesses.
    fn order_of(&self, is_wanted: impl Fn(u64) -> bool) -> Vec<u64> {
        let wanted = self.slots.iter().filter(|(line, _)| is_wanted(*line));
        let mut slots: Vec<(u64, u64)> = wanted.map(|(line, slot)| (slot, line)).collect();
        slots.sort_unstable();
        slots.into_iter().map(|(_, line)| line).collect()
    }
}

/// Serialises the list of [`Stack::order`].
impl Serialize for Stack {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.order().serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Stack {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut stack = Stack::default();
        let mut lines = Vec::<u64>::deserialize(deserializer)?;
        // No line has this number; the table has no place for it.
        lines.retain(|line| *line != u64::MAX);
        stack.touch_all(&lines, |_, _| {});
        Ok(stack)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A stack as a list, the latest line last.
    fn touch(list: &mut Vec<u64>, line: u64) -> Option<u64> {
        let position = list.iter().rposition(|other| *other == line);
        let distance = position.map(|at| (list.len() - 1 - at) as u64);
        position.map(|at| list.remove(at));
        list.push(line);
        distance
    }

    proptest! {
        #[test]
        fn distances_are_those_of_a_list(
            lines in 1u64..3000,
            steps in prop::collection::vec((0u32..4, any::<u64>()), 0..12_000),
            pieces in prop::collection::vec(1usize..200, 1..10),
        ) {
            let line = |(at, (kind, random)): (usize, &(u32, u64))| match kind {
                0 => random % lines,
                1 => at as u64 % lines,
                2 => random % (1 + lines / 50),
                _ => at as u64 / 3 % lines,
            };
            let touched_lines: Vec<u64> = steps.iter().enumerate().map(line).collect();
            let (mut stack, mut list) = (Stack::default(), Vec::new());
            let expected: Vec<_> = touched_lines.iter().map(|line| (*line, touch(&mut list, *line))).collect();
            let (mut distances, mut rest) = (Vec::new(), &touched_lines[..]);
            for length in pieces.iter().cycle() {
                if rest.is_empty() {
                    break;
                }
                let (piece, behind) = rest.split_at(*length.min(&rest.len()));
                match piece {
                    [line] => distances.push((*line, stack.touch(*line))),
                    _ => stack.touch_all(piece, |line, distance| distances.push((line, distance))),
                }
                rest = behind;
            }
            prop_assert_eq!(distances, expected);
            prop_assert_eq!(stack.order(), &list[..]);
            let text = serde_json::to_string(&stack).unwrap();
            prop_assert_eq!(serde_json::from_str::<Stack>(&text).unwrap().order(), list);
        }
    }
}
