//! Counts executions of blocks and the directions of conditional jumps. This is the part of the
//! monitor that handles each number.
//!
//! A block has two counters: one for transfers to its **expected successor**, and one for other
//! transfers. The expected successor of a conditional block is the target of its jump. The expected
//! successor of an indirect block is the first successor that it had. The counters are in several
//! lanes, which are used in turn, so that a block that follows itself does not wait for its own
//! store. Counters have 32 bits, so that more blocks fit into the first-level cache. They are added
//! to the totals before they can overflow.
//!
//! Everything else is rare, and is put aside by its place in the batch: numbers of no block, the
//! numbers next to them, and unexpected successors of indirect blocks. No branch depends on the
//! numbers.
//!
//! Example: block 1 ends with a conditional jump to block 2. The batch 1, 2, 1, 3 counts one
//! transfer of block 1 to its expected successor, and one other transfer.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use hmtt_probe::address::RunAddr;

use super::code::{BlockCode, End, Numbered};

/// Maximum count of numbers of a batch, a power of two.
pub const BATCH: usize = 1 << 12;
/// Number of copies of each counter in a slot.
const LANES: usize = 4;
/// Value of the expected successor if a block has none; larger than all numbers of blocks.
const NONE: u32 = u32::MAX >> 1;
/// Bit beside the expected successor: transfers to other successors are put aside.
const SPECIAL: u32 = !NONE;
/// Count of numbers after which lanes are emptied.
const FLUSH: u64 = 1 << 31;

/// Counters of a block.
#[derive(Clone, Copy, Debug)]
struct Slot {
    /// In each lane: the counter of other successors, and the counter of the expected one.
    lanes: [[u32; 2]; LANES],
    /// The number of the expected successor, or [`NONE`]; with [`SPECIAL`] if others are put aside.
    expected: u32,
    /// The number itself for a block; the number of the first block for a path.
    first: u32,
}

impl Slot {
    fn new(expected: u32, first: u32) -> Self {
        Slot { lanes: [[0; 2]; LANES], expected, first }
    }
}

/// Sums over the lanes of a number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Total {
    /// Number of executions.
    pub executions: u64,
    /// Number of transfers to the expected successor, while there was one.
    pub expected: u64,
}

/// Blocks and paths, with their counts.
#[derive(Clone, Debug)]
pub struct Table {
    /// Slots by number. Slot 0 is used for all numbers that belong to no block.
    slots: Vec<Slot>,
    totals: Vec<Total>,
    numbered: Vec<Numbered>,
    /// Numbers of blocks by their start: the first one, whether there are several, and the last
    /// one.
    by_start: HashMap<u64, (u32, bool, u32)>,
    /// Numbers of conditional blocks by the targets of their jumps.
    by_target: HashMap<u64, Vec<u32>>,
    /// Count of numbers since the lanes were emptied.
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

/// Decodes the number in the first four bytes.
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
    /// The highest number so far. Numbers begin with 1.
    pub fn known(&self) -> u32 {
        self.slots.len() as u32 - 1
    }

    /// The block or path with a number.
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

    /// Numbers of the blocks that a number stands for; only the number itself if it belongs to a
    /// block.
    pub fn blocks_of<'t>(&'t self, number: &'t u32) -> &'t [u32] {
        match self.numbered(*number) {
            Some(Numbered::Path { blocks, length }) => &blocks[..*length],
            Some(Numbered::Block(_)) => std::slice::from_ref(number),
            None => &[],
        }
    }

    /// The next block of a path, if the number states that the path was left before it.
    pub fn left_before(&self, number: u32) -> Option<u32> {
        match self.numbered(number)? {
            Numbered::Path { blocks, length } => blocks.get(*length).copied(),
            Numbered::Block(_) => None,
        }
    }

    /// The block at an address. If there are several, the one that was translated last.
    pub fn at(&self, start: RunAddr) -> Option<u32> {
        self.by_start.get(&start.0).map(|(_, _, last)| *last)
    }

    /// Adds the next number. `edges`: whether transfers to successors are counted.
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
                // If the last executed block is conditional, the number already states that the
                // path was left there.
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

    /// Makes a block the expected successor of all blocks that jump to its start. If an earlier
    /// block has the same start, all transfers there are put aside from now on.
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
            // A block that is being added may jump to itself.
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

    /// Counts the number before a batch and all numbers in the batch except the last one, each with
    /// the transfer to the next number. Returns the last number, or 0 if it belongs to no block.
    /// `bytes`: at most [`BATCH`] numbers. `previous`: the number before the batch.
    ///
    /// Numbers after a number of no block, and unexpected successors of indirect blocks, are put
    /// aside.
    pub fn count(&mut self, bytes: &[u8], mut previous: u32, aside: &mut Aside) -> u32 {
        self.make_room(bytes);
        let known = self.known();
        let (slots, places) = (&mut self.slots[..], &mut aside.places);
        let (mut count, mut place) = (0usize, 0usize);
        let mut counter = |bytes: &[u8], lane: usize| {
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
            counter(&group[..4], 0);
            counter(&group[4..8], 1);
            counter(&group[8..12], 2);
            counter(&group[12..], 3);
        }
        groups.remainder().chunks_exact(4).for_each(|bytes| counter(bytes, 0));
        aside.count = count;
        previous
    }

    /// Counts as [`count`](Self::count) does, but without successors: all numbers in the batch are
    /// counted, and only numbers after a number of no block are put aside. They are searched for in
    /// a second pass, because they are rare.
    pub fn count_blocks(&mut self, bytes: &[u8], previous: u32, aside: &mut Aside) -> u32 {
        self.make_room(bytes);
        let known = self.known();
        let slots = &mut self.slots[..];
        let valid = |bytes: &[u8]| {
            let number = number(bytes);
            if number <= known { number } else { 0 }
        };
        let none = slots[0].lanes;
        let mut counter =
            |bytes: &[u8], lane: usize| slots[valid(bytes) as usize].lanes[lane][0] += 1;
        let mut groups = bytes.chunks_exact(4 * LANES);
        for group in &mut groups {
            counter(&group[..4], 0);
            counter(&group[4..8], 1);
            counter(&group[8..12], 2);
            counter(&group[12..], 3);
        }
        groups.remainder().chunks_exact(4).for_each(|bytes| counter(bytes, 0));
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

    /// Empties the lanes if the numbers of a batch might make them overflow.
    fn make_room(&mut self, bytes: &[u8]) {
        self.counted += bytes.len() as u64 / 4;
        if self.counted >= FLUSH {
            self.flush();
        }
    }

    /// Counts one execution that no other block follows.
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

    /// Counts by number. Index 0 belongs to no block.
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
        let bytes: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
        assert_eq!(table.count(&bytes, 0, &mut aside), 2);
        assert_eq!(aside.places(), [0, 6, 7]);
        // A second block at the same address: all transfers to this address are put aside.
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
