//! Counts executions of blocks and the directions of conditional jumps: the part of the monitor
//! that handles each number.
//!
//! A block has two counters: transfers to its **expected successor**, and others. The expected
//! successor of a conditional block is the target of its jump, that of an indirect one the first
//! that it had. Counters are in several lanes, used in turn, so that a block that follows itself
//! does not wait for its own store. They have 32 bits, so that more blocks fit into the first-level
//! cache, and are emptied into the totals before they can overflow.
//!
//! Everything else is rare, and is put aside by its place in the batch: numbers of no block, what
//! is next to them, and other successors of indirect blocks. No branch depends on the numbers.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use hmtt_probe::address::RunAddr;

use super::code::{BlockCode, End, Numbered};

/// Numbers of a batch, a power of two.
pub const BATCH: usize = 1 << 12;
/// Counters of the same in a slot.
const LANES: usize = 4;
/// Expected successor of blocks without one; larger than all numbers of blocks.
const NONE: u32 = u32::MAX >> 1;
/// Bit beside the expected successor: others are put aside.
const SPECIAL: u32 = !NONE;
/// Numbers after which lanes are emptied.
const FLUSH: u64 = 1 << 31;

/// Counters of a block.
#[derive(Clone, Copy, Debug)]
struct Slot {
    /// In each lane that of other successors, and that of the expected one.
    lanes: [[u32; 2]; LANES],
    /// The number of the expected successor, or [`NONE`], with [`SPECIAL`].
    expected: u32,
    /// The number of the first block.
    first: u32,
}

impl Slot {
    fn new(expected: u32, first: u32) -> Self {
        Slot { lanes: [[0; 2]; LANES], expected, first }
    }
}

/// Sums over the lanes of a block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Total {
    /// Executions.
    pub executions: u64,
    /// Transfers to the expected successor, while there was one.
    pub expected: u64,
}

/// The blocks, with their counts.
#[derive(Clone, Debug)]
pub struct Table {
    /// Slots by number. The first one is that of all numbers of no block.
    slots: Vec<Slot>,
    totals: Vec<Total>,
    numbered: Vec<Numbered>,
    /// Numbers of blocks by their start: the first one, whether there are others, and the last one.
    by_start: HashMap<u64, (u32, bool, u32)>,
    /// Conditional blocks by the targets of their jumps.
    by_target: HashMap<u64, Vec<u32>>,
    /// Numbers since the lanes were emptied.
    counted: u64,
}

/// Places in a batch that were put aside.
pub struct Aside {
    places: Box<[u16; BATCH]>,
    count: usize,
}

impl Default for Aside {
    fn default() -> Self {
        Aside { places: Box::new([0; BATCH]), count: 0 }
    }
}

impl Aside {
    /// The places, in order.
    pub fn places(&self) -> &[u16] {
        &self.places[..self.count]
    }
}

/// A number of four bytes.
pub fn number(bytes: &[u8]) -> u32 {
    u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])
}

impl Default for Table {
    fn default() -> Self {
        Table {
            slots: vec![Slot::new(SPECIAL | NONE, 0)],
            totals: vec![Total::default()],
            numbered: Vec::new(),
            by_start: HashMap::new(),
            by_target: HashMap::new(),
            counted: 0,
        }
    }
}

impl Table {
    /// Number of the last block; blocks are numbered from 1 on.
    pub fn known(&self) -> u32 {
        self.slots.len() as u32 - 1
    }

    /// What a number stands for.
    pub fn numbered(&self, number: u32) -> Option<&Numbered> {
        self.numbered.get(number.checked_sub(1)? as usize)
    }

    /// A block by its number.
    pub fn block(&self, number: u32) -> Option<&BlockCode> {
        match self.numbered(number)? {
            Numbered::Block(block) => Some(block),
            Numbered::Path { .. } => None,
        }
    }

    /// Numbers of the blocks that a number stands for: itself if it is that of a block.
    pub fn blocks_of<'t>(&'t self, number: &'t u32) -> &'t [u32] {
        match self.numbered(*number) {
            Some(Numbered::Path { blocks, length }) => &blocks[..*length],
            Some(Numbered::Block(_)) => std::slice::from_ref(number),
            None => &[],
        }
    }

    /// The next block of a path that was left after the blocks of a number.
    pub fn left_before(&self, number: u32) -> Option<u32> {
        match self.numbered(number)? {
            Numbered::Path { blocks, length } => blocks.get(*length).copied(),
            Numbered::Block(_) => None,
        }
    }

    /// The block at an address that was translated last.
    pub fn at(&self, start: RunAddr) -> Option<u32> {
        self.by_start.get(&start.0).map(|(_, _, last)| *last)
    }

    /// Adds the next number. `edges`: whether successors are counted.
    pub fn add(&mut self, numbered: Numbered, edges: bool) {
        let number = self.slots.len() as u32;
        let (first, end) = match &numbered {
            Numbered::Block(block) => {
                if edges {
                    self.add_start(block.start.0, number);
                }
                (number, Some(block.end))
            }
            Numbered::Path { blocks, length } => {
                let end =
                    length.checked_sub(1).and_then(|at| self.block(blocks[at])).map(|one| one.end);
                // Where a conditional block has left the path is known.
                let is_known = *length < blocks.len() && !end.is_some_and(End::is_indirect);
                (blocks[0], end.filter(|_| !is_known))
            }
        };
        let mut expected = NONE;
        match end.filter(|_| edges) {
            Some(End::Conditional { to }) => {
                self.by_target.entry(to.0).or_default().push(number);
                match self.by_start.get(&to.0) {
                    Some((first, false, _)) => expected = *first,
                    Some((_, true, _)) => expected |= SPECIAL,
                    None => {}
                }
            }
            Some(end) if end.is_indirect() => expected |= SPECIAL,
            _ => {}
        }
        self.slots.push(Slot::new(expected, first));
        self.totals.push(Total::default());
        self.numbered.push(numbered);
    }

    /// Makes a block the expected successor of those that jump to it. If it is not the first one at
    /// its address, all transfers there are put aside from now on.
    fn add_start(&mut self, start: u64, number: u32) {
        let is_first = match self.by_start.entry(start) {
            Entry::Vacant(entry) => {
                entry.insert((number, false, number));
                true
            }
            Entry::Occupied(mut entry) => {
                let (_, has_others, last) = entry.get_mut();
                (*has_others, *last) = (true, number);
                false
            }
        };
        for from in self.by_target.get(&start).into_iter().flatten() {
            // A block may jump to itself.
            let Some(slot) = self.slots.get_mut(*from as usize) else { continue };
            slot.expected = if is_first { number } else { SPECIAL | NONE };
        }
    }

    /// Sets the expected successor of an indirect block that has none.
    pub fn expect(&mut self, from: u32, to: u32) {
        let expected = &mut self.slots[from as usize].expected;
        if *expected == SPECIAL | NONE {
            *expected = SPECIAL | to;
        }
    }

    /// The expected successor of an indirect block.
    pub fn expected(&self, number: u32) -> Option<u32> {
        Some(self.slots[number as usize].expected & !SPECIAL).filter(|one| *one != NONE)
    }

    /// Counts executions of the number before a batch and of all numbers in it but the last, with
    /// the transfers after them. Returns the last number of a block, 0 if it is none. `bytes`: at
    /// most [`BATCH`] numbers.
    ///
    /// Put aside are numbers after one of no block, and other successors of indirect blocks.
    pub fn count(&mut self, bytes: &[u8], mut previous: u32, aside: &mut Aside) -> u32 {
        self.make_room(bytes);
        let known = self.known();
        let (slots, places) = (&mut self.slots[..], &mut aside.places);
        let (mut count, mut place) = (0usize, 0usize);
        let mut one = |bytes: &[u8], lane: usize| {
            let number = number(bytes);
            let number = if number <= known { number } else { 0 };
            let first = slots[number as usize].first;
            let slot = &mut slots[previous as usize];
            let difference = slot.expected ^ first;
            slot.lanes[lane][usize::from(difference << 1 == 0)] += 1;
            places[count & (BATCH - 1)] = place as u16;
            count += usize::from(difference > SPECIAL);
            place += 1;
            previous = number;
        };
        let mut groups = bytes.chunks_exact(4 * LANES);
        for group in &mut groups {
            one(&group[..4], 0);
            one(&group[4..8], 1);
            one(&group[8..12], 2);
            one(&group[12..], 3);
        }
        groups.remainder().chunks_exact(4).for_each(|bytes| one(bytes, 0));
        aside.count = count;
        previous
    }

    /// As [`count`](Self::count), without successors: executions of all numbers in the batch are
    /// counted, and only those after one of no block are put aside. That is found out afterwards,
    /// because it is rare.
    pub fn count_blocks(&mut self, bytes: &[u8], previous: u32, aside: &mut Aside) -> u32 {
        self.make_room(bytes);
        let known = self.known();
        let slots = &mut self.slots[..];
        let valid = |bytes: &[u8]| {
            let number = number(bytes);
            if number <= known { number } else { 0 }
        };
        let none = slots[0].lanes;
        let mut one = |bytes: &[u8], lane: usize| slots[valid(bytes) as usize].lanes[lane][0] += 1;
        let mut groups = bytes.chunks_exact(4 * LANES);
        for group in &mut groups {
            one(&group[..4], 0);
            one(&group[4..8], 1);
            one(&group[8..12], 2);
            one(&group[12..], 3);
        }
        groups.remainder().chunks_exact(4).for_each(|bytes| one(bytes, 0));
        aside.count = 0;
        if previous == 0 || slots[0].lanes != none {
            let after = [previous].into_iter().chain(bytes.chunks_exact(4).map(valid));
            let after = after.zip(0..(bytes.len() / 4) as u16).filter(|(before, _)| *before == 0);
            for (_, place) in after {
                aside.places[aside.count] = place;
                aside.count += 1;
            }
        }
        bytes.rchunks_exact(4).next().map_or(previous, valid)
    }

    /// Empties the lanes before they can overflow by the numbers of a batch.
    fn make_room(&mut self, bytes: &[u8]) {
        self.counted += bytes.len() as u64 / 4;
        if self.counted >= FLUSH {
            self.flush();
        }
    }

    /// Counts one execution after which nothing follows.
    pub fn count_last(&mut self, number: u32) {
        self.totals[number as usize].executions += 1;
    }

    fn flush(&mut self) {
        self.counted = 0;
        for (slot, total) in self.slots.iter_mut().zip(&mut self.totals) {
            for [others, expected] in std::mem::take(&mut slot.lanes) {
                total.executions += u64::from(others) + u64::from(expected);
                total.expected += u64::from(expected);
            }
        }
    }

    /// Counts by number; the first one is that of no block.
    pub fn totals(&mut self) -> &[Total] {
        self.flush();
        &self.totals
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(start: u64, end: End) -> Numbered {
        let start = RunAddr(start);
        Numbered::Block(BlockCode { start, next: start + 2, last: start, instructions: 1, end })
    }

    #[test]
    fn expected_successors_follow_the_translation() {
        let mut table = Table::default();
        let to = RunAddr(10);
        table.add(block(0, End::Conditional { to }), true);
        assert_eq!(table.expected(1), None);
        table.add(block(10, End::Conditional { to }), true);
        assert_eq!((table.expected(1), table.expected(2)), (Some(2), Some(2)));
        let mut aside = Aside::default();
        let numbers = [1u32, 2, 1, 1, 2, 9, 9, 2];
        let bytes: Vec<u8> = numbers.iter().flat_map(|one| one.to_le_bytes()).collect();
        assert_eq!(table.count(&bytes, 0, &mut aside), 2);
        assert_eq!(aside.places(), [0, 6, 7]);
        // A second block at the address: what leads there is decided elsewhere.
        table.add(block(10, End::Return), true);
        assert_eq!(table.expected(1), None);
        let total = |executions, expected| Total { executions, expected };
        assert_eq!(table.totals(), [total(3, 0), total(3, 2), total(2, 0), total(0, 0)]);
        assert_eq!(table.count(&bytes[..8], 3, &mut aside), 2);
        assert_eq!(aside.places(), [0, 1]);
        let before = table.totals().to_vec();
        assert_eq!(table.count_blocks(&bytes, 3, &mut aside), 2);
        assert_eq!(aside.places(), [6, 7]);
        assert_eq!(table.count_blocks(&bytes[..4], 0, &mut aside), 1);
        assert_eq!(aside.places(), [0]);
        let executions =
            |at: usize, table: &mut Table| table.totals()[at].executions - before[at].executions;
        assert_eq!([0, 1, 2, 3].map(|at| executions(at, &mut table)), [2, 4, 3, 0]);
    }
}
