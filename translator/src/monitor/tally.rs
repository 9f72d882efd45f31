//! Follows the numbers of each thread in order, and counts blocks, edges, starts and system calls.
//!
//! Numbers are handled in batches. `table` counts most of them and puts the others aside, which are
//! handled here one by one: notes, numbers of no block, and unexpected successors of indirect
//! blocks.
//!
//! A **start** of a block is an execution that does not follow another block. A **stop** is an
//! execution that no other block follows. So the executions of a block equal its starts plus the
//! edges into it, and also its stops plus the edges out of it.
//!
//! Example: a thread enters the cache at block 1, then executes 2, 1, 2 and leaves the cache. Block
//! 1 has two executions, one start and one edge from block 2. Block 2 has two executions, two edges
//! from block 1 and one stop.

mod sums;
mod times;

use super::calls::Calls;
use super::code::{Blocks, End};
use super::hot::{Hot, Thresholds};
use super::indirect::{Edge, Edges};
use super::intervals::Intervals;
use super::models::{ModelOptions, Models, ThreadModels};
use super::table::{Aside, BATCH, Table, number};
use crate::layout::ring;
use times::Times;

/// Maximum number of edges of indirect transfers that are listed separately.
pub const EDGES: usize = 1 << 20;

/// Selects what is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Recording {
    /// Whether edges are counted in addition to executions of blocks.
    pub edges: bool,
    /// Maximum number of edges of indirect transfers. Further edges are only counted at their
    /// target.
    pub edge_limit: usize,
    /// Which parts of a processor are modelled.
    pub models: ModelOptions,
    /// When superblocks are built; `None` if no superblocks are built.
    pub superblocks: Option<Thresholds>,
    /// Length of the intervals, in instructions, for which blocks of the first thread are counted;
    /// `None` if intervals are not counted.
    pub interval: Option<u64>,
}

impl Default for Recording {
    fn default() -> Self {
        let models = ModelOptions::default();
        Recording { edges: true, edge_limit: EDGES, models, superblocks: None, interval: None }
    }
}

/// Counts of a number that change rarely.
#[derive(Clone, Copy, Debug, Default)]
struct Rare {
    starts: u64,
    stops: u64,
    taken: u64,
    others: u64,
}

/// State of following the numbers of one thread.
#[derive(Clone, Debug)]
pub struct Stream {
    /// The thread's number in the system.
    pub thread: i32,
    /// The last number, and the number before it.
    last: u32,
    last_but_one: u32,
    /// The last number if it belongs to a block or path, otherwise 0.
    last_block: u32,
    /// The block or path before the notes that were read last.
    before: Option<u32>,
    /// Whether the next block does not follow another block.
    is_broken: bool,
    /// Number of the last system call, until it has returned.
    call: Option<u32>,
    /// The models of the thread, after they have seen a block.
    models: Option<Box<ThreadModels>>,
    /// The last block that the models have seen, if it leads to the next one.
    observed: Option<u32>,
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
            models: None,
            observed: None,
        }
    }
}

/// Executions so far.
pub struct Executed {
    /// Sum of the executions of all blocks.
    pub blocks: u64,
    /// Executed instructions of each block, by its number; index 0 is not used.
    pub instructions: Vec<u64>,
}

/// State of all counts.
pub struct Tally {
    recording: Recording,
    table: Table,
    rare: Vec<Rare>,
    edges: Edges,
    /// Counts of system calls.
    pub calls: Calls,
    /// Number of words that were read, including notes.
    pub numbers: u64,
    /// Number of words that are the number of no block.
    pub invalid: u64,
    models: Models,
    /// Intervals, and the number of the thread whose intervals they are.
    intervals: Option<(i32, Intervals)>,
    aside: Aside,
    hot: Hot,
    times: Times,
}

impl Tally {
    /// Creates a state in which nothing is counted.
    pub fn new(recording: Recording) -> Self {
        Tally {
            recording,
            table: Table::default(),
            rare: vec![Rare::default()],
            edges: Edges::new(recording.edge_limit),
            calls: Calls::default(),
            numbers: 0,
            invalid: 0,
            models: Models { options: recording.models, ..Models::default() },
            intervals: None,
            aside: Aside::default(),
            hot: Hot::default(),
            times: Times::default(),
        }
    }

    /// The highest known number.
    pub fn known(&self) -> u32 {
        self.table.known()
    }

    /// Adds the blocks and paths that are not known yet.
    pub fn learn(&mut self, blocks: &dyn Blocks) {
        for numbered in blocks.after(self.table.known()) {
            self.table.add(numbered, self.recording.edges);
            self.rare.push(Rare::default());
            self.times.add_number(&self.table);
        }
    }

    /// Builds superblocks of hot paths, and stops using superblocks that have become cold.
    pub fn decide(&mut self, blocks: &dyn Blocks) {
        let Some(thresholds) = self.recording.superblocks.filter(|_| self.recording.edges) else {
            return;
        };
        let sums = self.sums();
        let totals = self.table.totals().to_vec();
        self.hot.decide(thresholds, &self.table, &totals, sums, &mut self.edges, blocks);
        self.learn(blocks);
    }

    /// Reads the next numbers of a thread, at most 4,096. `bytes`: the numbers, 4 bytes each.
    pub fn read(&mut self, stream: &mut Stream, bytes: &[u8], blocks: &dyn Blocks) {
        debug_assert!(bytes.len() <= 4 * BATCH);
        // Notes are negative numbers.
        let highest = bytes.chunks_exact(4).map(|bytes| number(bytes).cast_signed()).max();
        if highest.is_some_and(|highest| highest > self.table.known().cast_signed()) {
            self.learn(blocks);
        }
        self.numbers += bytes.len() as u64 / 4;
        if !self.recording.models.is_empty() || self.recording.interval.is_some() {
            self.observe(stream, bytes);
        }
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

    /// Passes each block to the models, and blocks of the first thread to the intervals.
    fn observe(&mut self, stream: &mut Stream, bytes: &[u8]) {
        let Recording { models: options, interval, .. } = self.recording;
        let mut own = match (interval, &mut self.intervals) {
            (Some(_), Some((thread, intervals))) => {
                Some(intervals).filter(|_| *thread == stream.thread)
            }
            (Some(length), none) => {
                Some(&mut none.insert((stream.thread, Intervals::new(length))).1)
            }
            (None, _) => None,
        };
        let thread = stream.models.get_or_insert_with(|| ThreadModels::new(options).into());
        for number in bytes.chunks_exact(4).map(number) {
            if self.table.numbered(number).is_none() {
                // Notes of system calls may be between a block and the block that it leads to.
                let kind = number >> ring::KIND_SHIFT;
                let is_call =
                    [ring::CALL, ring::TIME].map(|one| ring::note(one, 0) >> ring::KIND_SHIFT);
                stream.observed = stream.observed.filter(|_| is_call.contains(&kind));
                continue;
            }
            for number in self.table.blocks_of(&number) {
                let Some(block) = self.table.block(*number) else { continue };
                let before =
                    stream.observed.and_then(|before| Some((before, self.table.block(before)?)));
                if let Some((number, before)) = before {
                    thread.lead(&mut self.models, number, before, block.start.0);
                }
                thread.execute(&mut self.models, *number, block);
                if let Some(intervals) = &mut own {
                    intervals.execute(*number, block.instructions);
                }
                stream.observed = Some(*number);
            }
        }
    }

    /// Ends a series of numbers, because the thread writes no more numbers or the next numbers do
    /// not follow these.
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

    /// The number itself if it belongs to a block or path, otherwise `None`.
    fn block_number(&self, number: u32) -> Option<u32> {
        (1..=self.table.known()).contains(&number).then_some(number)
    }

    /// Handles a number that was put aside. `first`, `before`: the two numbers before it.
    fn odd(&mut self, stream: &mut Stream, first: u32, before: u32, number: u32) {
        let next = self.block_number(number);
        if let Some(from) = self.block_number(before) {
            // A block after notes is handled below.
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

    /// Handles a number that belongs to no block. `first`: the number before it.
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

    /// Counts an edge that the table has not counted. Edges of direct blocks are not counted,
    /// because they follow from the executions of the blocks.
    fn edge(&mut self, from: u32, to: u32) {
        if !self.recording.edges {
            return;
        }
        let (last, first) = (self.table.blocks_of(&from).last(), self.table.blocks_of(&to).first());
        let (Some(last), Some(first)) = (last.copied(), first.copied()) else { return };
        let (Some(block), Some(next)) = (self.table.block(last), self.table.block(first)) else {
            return;
        };
        match block.end {
            // A number of a part of a path states where the path was left.
            End::Conditional { .. } if self.table.left_before(from).is_some() => {}
            End::Conditional { to } => {
                self.rare[from as usize].taken += u64::from(next.start == to)
            }
            end if end.is_indirect() => {
                self.table.expect(from, first);
                if !self.edges.add(Edge { from: last, to: first }, 1) {
                    self.rare[first as usize].others += 1;
                }
            }
            _ => {}
        }
    }

    /// Executions so far.
    pub fn executed(&mut self) -> Executed {
        let blocks = self.sums().blocks;
        let lengths =
            (0..).map(|number| self.table.block(number).map_or(0, |one| one.instructions));
        Executed {
            blocks: blocks.iter().map(|block| block.executions).sum(),
            instructions: blocks
                .iter()
                .zip(lengths)
                .map(|(one, length)| one.executions * length)
                .collect(),
        }
    }
}

#[cfg(test)]
mod tests;
