//! Follows the numbers of each thread in order: counts blocks, edges, starts and system calls.
//!
//! Numbers are handled in batches. [`Table`] counts most of them; what it puts aside is handled here one by one: notes,
//! numbers of no block, and successors of indirect blocks other than the expected ones.
//!
//! A **start** of a block is an execution that follows no other block, and a **stop** one that no other block follows. So
//! executions of a block are its starts and the edges into it, and also its stops and the edges out of it.

use super::balance;
use super::calls::Calls;
use super::code::{BlockCode, End};
use super::indirect::{Edge, Edges};
use super::table::{Aside, BATCH, Table, number};
use crate::layout::ring;

/// Most edges of indirect transfers that are counted one by one.
pub const EDGES: usize = 1 << 20;

/// What is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Recording {
    /// Whether edges are counted, besides executions of blocks.
    pub edges: bool,
    /// Most edges of indirect transfers. Others are counted by their target only.
    pub edge_limit: usize,
}

impl Default for Recording {
    fn default() -> Self {
        Recording { edges: true, edge_limit: EDGES }
    }
}

/// Counts of a block that are rarely changed.
#[derive(Clone, Copy, Debug, Default)]
struct Rare {
    starts: u64,
    stops: u64,
    taken: u64,
    others: u64,
}

/// What was counted of a block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BlockTally {
    /// Executions.
    pub executions: u64,
    /// Executions that follow no other block.
    pub starts: u64,
    /// Executions that no other block follows.
    pub stops: u64,
    /// Jumps to the target, of a conditional block.
    pub taken: u64,
    /// Edges into the block beyond the limit of edges, from indirect blocks.
    pub other_edges: u64,
}

/// The numbers of one thread.
#[derive(Clone, Copy, Debug)]
pub struct Stream {
    /// The thread's number in the system.
    pub thread: i32,
    /// The last number, and the one before it.
    last: u32,
    last_but_one: u32,
    /// The last number if it is a block's, otherwise 0.
    last_block: u32,
    /// The block before the notes that were read last.
    before: Option<u32>,
    /// Whether the next block follows no other block.
    is_broken: bool,
    /// The system call that was made last, until it has returned.
    call: Option<u32>,
}

impl Default for Stream {
    fn default() -> Self {
        let start = ring::note(ring::START, 0);
        Stream {
            thread: 0,
            last: start,
            last_but_one: start,
            last_block: 0,
            before: None,
            is_broken: true,
            call: None,
        }
    }
}

/// Describes blocks that were translated after the one with the given number.
pub type NewBlocks<'c> = &'c dyn Fn(u32) -> Vec<BlockCode>;

/// Everything that is counted.
pub struct Tally {
    recording: Recording,
    table: Table,
    rare: Vec<Rare>,
    edges: Edges,
    /// System calls.
    pub calls: Calls,
    /// Numbers that were read, with notes.
    pub numbers: u64,
    /// Numbers of no block.
    pub invalid: u64,
    aside: Aside,
}

impl Tally {
    /// Nothing is counted yet.
    pub fn new(recording: Recording) -> Self {
        Tally {
            recording,
            table: Table::default(),
            rare: vec![Rare::default()],
            edges: Edges::new(recording.edge_limit),
            calls: Calls::default(),
            numbers: 0,
            invalid: 0,
            aside: Aside::default(),
        }
    }

    /// Adds the blocks that are not known yet.
    pub fn learn(&mut self, new: NewBlocks<'_>) {
        for block in new(self.table.known()) {
            self.table.add(block, self.recording.edges);
            self.rare.push(Rare::default());
        }
    }

    /// Reads at most [`BATCH`] numbers of a thread.
    pub fn read(&mut self, stream: &mut Stream, bytes: &[u8], new: NewBlocks<'_>) {
        debug_assert!(bytes.len() <= 4 * BATCH);
        // Notes are negative.
        let highest = bytes.chunks_exact(4).map(|bytes| number(bytes).cast_signed()).max();
        if highest.is_some_and(|highest| highest > self.table.known().cast_signed()) {
            self.learn(new);
        }
        self.numbers += bytes.len() as u64 / 4;
        let mut aside = std::mem::take(&mut self.aside);
        let last = stream.last_block;
        stream.last_block = if self.recording.edges {
            self.table.count(bytes, last, &mut aside)
        } else {
            self.table.count_blocks(bytes, last, &mut aside)
        };
        let (last, last_but_one) = (stream.last, stream.last_but_one);
        let number_at = |place: isize| match place {
            -2 => last_but_one,
            -1 => last,
            _ => number(&bytes[4 * place as usize..]),
        };
        for place in aside.places() {
            let place = *place as isize;
            let [first, before, number] = [place - 2, place - 1, place].map(number_at);
            self.odd(stream, first, before, number);
        }
        self.aside = aside;
        let length = (bytes.len() / 4) as isize;
        (stream.last_but_one, stream.last) = (number_at(length - 2), number_at(length - 1));
    }

    /// The thread writes no more numbers, or the next ones do not follow these.
    pub fn end(&mut self, stream: &mut Stream) {
        match self.block_number(stream.last) {
            Some(block) => {
                if self.recording.edges {
                    self.table.count_last(block);
                }
                self.rare[block as usize].stops += 1;
            }
            None => {
                self.note(stream, stream.last_but_one, stream.last);
                if let Some(block) = stream.before {
                    self.rare[block as usize].stops += 1;
                }
            }
        }
        *stream = Stream { thread: stream.thread, ..Stream::default() };
    }

    fn block_number(&self, number: u32) -> Option<u32> {
        (1..=self.table.known()).contains(&number).then_some(number)
    }

    /// Handles a number that was put aside, with the two before it.
    fn odd(&mut self, stream: &mut Stream, first: u32, before: u32, number: u32) {
        let next = self.block_number(number);
        if let Some(from) = self.block_number(before) {
            // What follows notes is handled there.
            return next.into_iter().for_each(|to| self.edge(from, to));
        }
        self.note(stream, first, before);
        let Some(to) = next else { return };
        match (stream.before.take(), std::mem::take(&mut stream.is_broken)) {
            (Some(from), false) => self.edge(from, to),
            (from, _) => {
                self.rare[to as usize].starts += 1;
                if let Some(from) = from {
                    self.rare[from as usize].stops += 1;
                }
            }
        }
    }

    /// Handles what is no block's number. `first`: the number before it.
    fn note(&mut self, stream: &mut Stream, first: u32, number: u32) {
        if let Some(block) = self.block_number(first) {
            (stream.before, stream.is_broken) = (Some(block), false);
        }
        let payload = number & ring::PAYLOAD;
        if number == ring::note(ring::CALL, payload) {
            self.calls.add(stream.thread, payload);
            stream.call = Some(payload);
        } else if number == ring::note(ring::TIME, payload) {
            if let Some(call) = stream.call.take() {
                let ticks = u64::from(payload) << ring::TIME_SHIFT;
                self.calls.add_time(stream.thread, call, ticks);
            }
        } else {
            self.invalid += u64::from(number != ring::note(ring::START, 0));
            stream.is_broken = true;
            stream.call = None;
        }
    }

    /// Counts an edge that the table has not counted. Edges of direct blocks follow from their executions.
    fn edge(&mut self, from: u32, to: u32) {
        if !self.recording.edges {
            return;
        }
        let (Some(block), Some(next)) = (self.table.block(from), self.table.block(to)) else {
            return;
        };
        match block.end {
            End::Conditional { to } => {
                self.rare[from as usize].taken += u64::from(next.start == to)
            }
            end if end.is_indirect() => {
                self.table.expect(from, to);
                if !self.edges.add(Edge { from, to }, 1) {
                    self.rare[to as usize].others += 1;
                }
            }
            _ => {}
        }
    }

    /// All counts.
    pub fn result(mut self) -> Counted {
        let totals = self.table.totals().to_vec();
        let mut edges = self.edges;
        let mut blocks = vec![BlockTally::default()];
        for number in 1..=self.table.known() {
            let (total, rare) = (totals[number as usize], self.rare[number as usize]);
            let is_conditional =
                matches!(self.table.block(number), Some(one) if one.end.target().is_some());
            let mut taken = rare.taken;
            match self.table.expected(number) {
                Some(to) if !is_conditional => {
                    if !edges.add(Edge { from: number, to }, total.expected) {
                        self.rare[to as usize].others += total.expected;
                    }
                }
                _ => taken += total.expected,
            }
            blocks.push(BlockTally {
                executions: total.executions,
                starts: rare.starts,
                stops: rare.stops,
                taken,
                other_edges: 0,
            });
        }
        for (block, rare) in blocks.iter_mut().zip(&self.rare) {
            block.other_edges = rare.others;
        }
        let mut counted = Counted {
            blocks,
            edges: edges.sorted(),
            calls: self.calls,
            numbers: self.numbers,
            invalid: self.invalid,
            unbalanced: None,
        };
        if self.recording.edges {
            counted.unbalanced = Some(balance::unbalanced(&counted, &self.table));
        }
        counted
    }
}

/// The result.
#[derive(Clone, Debug, Default)]
pub struct Counted {
    /// Counts by number of the block; the first one is not used.
    pub blocks: Vec<BlockTally>,
    /// Edges of indirect blocks.
    pub edges: Vec<(Edge, u64)>,
    /// System calls that were noted in the rings.
    pub calls: Calls,
    /// Numbers that were read, with notes.
    pub numbers: u64,
    /// Numbers of no block.
    pub invalid: u64,
    /// Addresses of blocks whose executions differ from the edges into them and their starts; `None` without edges.
    pub unbalanced: Option<u64>,
}

#[cfg(test)]
mod tests {
    use hmtt_probe::address::RunAddr;

    use super::super::calls::CallCount;
    use super::*;

    /// A system call, a return and a loop, one behind the other.
    fn blocks(known: u32) -> Vec<BlockCode> {
        let ends = [End::SystemCall, End::Return, End::Conditional { to: RunAddr(8) }];
        let block = |(number, end): (u64, End)| {
            let start = RunAddr(4 * number);
            BlockCode { start, next: start + 4, last: start, instructions: 1, end }
        };
        (0..).zip(ends).map(block).skip(known as usize).collect()
    }

    /// The result for some numbers, read in parts of a length.
    fn counted(numbers: &[u32], length: usize, recording: Recording) -> Counted {
        let bytes: Vec<u8> = numbers.iter().flat_map(|one| one.to_le_bytes()).collect();
        let mut tally = Tally::new(recording);
        let mut stream = Stream { thread: 9, ..Stream::default() };
        for part in bytes.chunks(4 * length) {
            tally.read(&mut stream, part, &blocks);
        }
        tally.end(&mut stream);
        tally.result()
    }

    const START: u32 = ring::note(ring::START, 0);

    #[test]
    fn notes_are_between_blocks_however_numbers_are_read() {
        let (call, time) = (ring::note(ring::CALL, 3), ring::note(ring::TIME, 5));
        // The last call never returns. The second time belongs to no call.
        let numbers = [START, 1, call, time, 2, 1, time, 2, 3, 3, START, 3, 2, 1, call];
        let whole = counted(&numbers, 20, Recording::default());
        let tally = |executions, starts, stops, taken| BlockTally {
            executions,
            starts,
            stops,
            taken,
            other_edges: 0,
        };
        assert_eq!(whole.blocks[1..], [tally(3, 1, 1, 0), tally(3, 0, 0, 0), tally(3, 1, 1, 1)]);
        let edge = |from, to| Edge { from, to };
        assert_eq!(whole.edges, [(edge(2, 1), 2), (edge(2, 3), 1)]);
        // Block 3 does not lead to block 2.
        assert_eq!((whole.unbalanced, whole.invalid, whole.numbers), (Some(2), 0, 15));
        let count = CallCount { times: 2, timed: 1, ticks: 5 << 6 };
        assert_eq!(whole.calls.iter().collect::<Vec<_>>(), [(9, 3, count)]);
        for length in 1..numbers.len() {
            let parts = counted(&numbers, length, Recording::default());
            assert_eq!((parts.blocks, parts.edges), (whole.blocks.clone(), whole.edges.clone()));
            assert_eq!(parts.calls.iter().collect::<Vec<_>>(), [(9, 3, count)]);
            let recording = Recording { edges: false, ..Recording::default() };
            let alone = counted(&numbers, length, recording);
            let executions = |one: &Counted| -> Vec<u64> {
                one.blocks.iter().map(|one| one.executions).collect()
            };
            assert_eq!(executions(&alone), executions(&whole));
            assert_eq!((alone.unbalanced, alone.edges.len()), (None, 0));
            assert_eq!(alone.calls.iter().collect::<Vec<_>>(), [(9, 3, count)]);
        }
    }

    #[test]
    fn edges_beyond_the_limit_are_counted_by_their_target() {
        let recording = Recording { edge_limit: 1, ..Recording::default() };
        let whole = counted(&[2, 2, 2, 1, 2, 3, 3], 3, recording);
        assert_eq!(whole.edges, [(Edge { from: 2, to: 2 }, 2)]);
        assert_eq!([1, 3].map(|at: usize| whole.blocks[at].other_edges), [1, 1]);
        assert_eq!(whole.unbalanced, Some(0));
    }

    #[test]
    fn forged_numbers_break_the_order_and_nothing_else() {
        let forged = [0, 4, u32::MAX >> 1, u32::MAX, START | 1, ring::note(3, 0)];
        for number in forged {
            let whole = counted(&[2, number, number, 2, number], 4, Recording::default());
            assert_eq!((whole.invalid, whole.unbalanced), (3, Some(0)), "{number:#x}");
            let block = whole.blocks[2];
            assert_eq!((block.executions, block.starts, block.stops), (2, 2, 2), "{number:#x}");
        }
    }
}
