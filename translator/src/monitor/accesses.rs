//! Passes on what threads record of their accesses, and looks at some of it to decide which
//! superblocks are built.
//!
//! Only hot paths are looked for, so a part of the chunks is enough: all of them at first and after
//! a decision at which there was new code, and then one of `OTHERS`.

use std::sync::mpsc::Receiver;

use hmtt_format::access_trace::{
    BlockAccesses, FS_BASE, Function, LOST, NATIVE, SLOT_BYTES, note, parse_note,
};

use super::code::{Blocks, Numbered};
use super::table::BATCH;
use super::tally::{Recording, Stream, Tally};
use super::{Chunk, Consumer, FIRST_DECISION, Finished, Losses, Lost, Reader};
use crate::block::MAX_INSTRUCTIONS;
use crate::layout::ring;
use crate::shared::{CHUNKS, Rings, THREADS};

/// How many chunks are looked at one after the other, and then one of how many.
const FIRST_CHUNKS: u64 = 16;
const OTHERS: u64 = 16;
/// Most numbers between decisions.
const NEXT_DECISION: u64 = 1 << 20;

/// Most numbers in a ring that is full, with the one of the block that the thread is in.
const MOST_NUMBERS: u64 = CHUNKS * (ring::CHUNK_BYTES + ring::SLACK_BYTES) / SLOT_BYTES as u64 + 1;

/// What threads are to record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Demand {
    /// Only the blocks that they execute. A superblock has at most as many instructions as a block
    /// may have.
    Blocks,
    /// Accesses, without superblocks.
    Accesses,
    /// Accesses, with the superblocks that were asked for.
    All,
    /// Nothing more: the process is to be left.
    Nothing,
}

impl Demand {
    /// By how many instructions a thread that records [blocks](Demand::Blocks), or
    /// [accesses](Demand::Accesses) without superblocks, may be ahead of the words that were read:
    /// those of a ring that is full. A repeated string instruction is one.
    pub const LEAD: u64 = MOST_NUMBERS * MAX_INSTRUCTIONS as u64;

    /// Whether hot paths become superblocks.
    const fn has_paths(self) -> bool {
        matches!(self, Demand::Blocks | Demand::All)
    }
}

/// Builds superblocks with at most as many instructions as a block may have.
struct ShortPaths<'b> {
    code: &'b dyn Blocks,
    /// Number of instructions of each number.
    instructions: &'b [u16],
}

impl Blocks for ShortPaths<'_> {
    fn after(&self, known: u32) -> Vec<Numbered> {
        self.code.after(known)
    }

    fn build(&self, path: &[u32]) -> bool {
        let mut left = MAX_INSTRUCTIONS as u64;
        let fitting = path.iter().take_while(|number| {
            let instructions = self.instructions.get(**number as usize).copied();
            let rest = instructions.and_then(|count| left.checked_sub(count.into()));
            rest.inspect(|rest| left = *rest).is_some()
        });
        let length = fitting.count();
        length > 1 && self.code.build(&path[..length])
    }

    fn undo(&self, number: u32) {
        self.code.undo(number);
    }

    fn is_in_use(&self, number: u32) -> bool {
        self.code.is_in_use(number)
    }
}

/// Where records of accesses go.
pub trait AccessSink: Send {
    /// What is to be recorded from now on: what was before, or something behind it.
    fn demand(&self) -> Demand {
        Demand::All
    }
    /// Accesses are recorded in the blocks behind this number, and were not before.
    fn set_counted(&mut self, _last: u32) {}
    /// The next functions, by number from 1 on.
    fn functions(&mut self, functions: &[Function]);
    /// The next blocks and paths, by number from 1 on. Their functions are known.
    fn blocks(&mut self, blocks: &[BlockAccesses]);
    /// The next words of a thread. All blocks in them are known. Returns memory for others.
    fn words(&mut self, thread: i32, words: Vec<u8>) -> Vec<u8>;
    /// Nothing follows.
    fn finish(&mut self, losses: Losses);
}

/// Describes blocks.
pub trait AccessBlocks {
    /// Descriptions of all blocks and paths that are new since the last time, and of functions that
    /// are new in them.
    fn describe_new(&mut self) -> (Vec<Function>, Vec<BlockAccesses>);
    /// Records accesses from the next block of each thread on. Returns the last number of a block
    /// without them.
    fn record_accesses(&mut self) -> u32 {
        0
    }
    /// Makes the tracer leave the process.
    fn leave(&mut self) {}
    /// What the numbers stand for otherwise.
    fn code(&self) -> &dyn Blocks;
}

/// Passes chunks on.
struct Passing<'r> {
    blocks: &'r mut dyn AccessBlocks,
    sink: &'r mut dyn AccessSink,
    bytes: Vec<u8>,
    /// Number of slots of each number; the first one is not used.
    slots: Vec<u16>,
    /// Number of instructions of each.
    instructions: Vec<u16>,
    tally: Tally,
    /// The numbers of each area, and whether its last chunk was looked at.
    streams: [(Stream, bool); THREADS],
    /// Numbers in the chunk that is looked at.
    numbers: Vec<u8>,
    /// Chunks since the last decision at which there was new code.
    chunks: u64,
    next_decision: u64,
    /// What is recorded.
    demand: Demand,
    /// Whether superblocks are asked for.
    builds: bool,
}

impl Passing<'_> {
    /// Has recorded what the sink wants now. No chunk was freed since the sink has seen the last
    /// words: a thread can be ahead of these by a ring at most.
    fn follow_demand(&mut self) {
        let demand = self.sink.demand();
        if demand <= self.demand {
            return;
        }
        if self.demand < Demand::Accesses {
            let last = self.blocks.record_accesses();
            self.sink.set_counted(last);
        }
        if demand == Demand::Nothing {
            self.blocks.leave();
        }
        if demand == Demand::All {
            // Hot paths are looked for from here on.
            self.chunks = 0;
        }
        self.demand = demand;
    }

    /// Passes on the blocks that are not known yet.
    fn learn(&mut self) {
        let (functions, blocks) = self.blocks.describe_new();
        if !functions.is_empty() {
            self.sink.functions(&functions);
        }
        for block in &blocks {
            for part in 0..block.numbers() {
                let (instructions, slots) = block.up_to(part);
                self.instructions.push(instructions);
                self.slots.push(slots);
            }
        }
        if !blocks.is_empty() {
            self.sink.blocks(&blocks);
        }
    }

    /// Counts the numbers in the bytes, which are those of an area.
    fn look_at(&mut self, area: usize, thread: i32) {
        self.numbers.clear();
        let (units, _) = self.bytes.as_chunks::<SLOT_BYTES>();
        let mut at = 0;
        while let Some(unit) = units.get(at) {
            let number = u32::from_le_bytes([unit[0], unit[1], unit[2], unit[3]]);
            // That native code was executed makes no difference to what follows a start.
            if !matches!(parse_note(number), Some((NATIVE, _))) {
                self.numbers.extend(number.to_le_bytes());
            }
            let slots = match parse_note(number) {
                Some((FS_BASE | LOST, _)) => 1,
                Some(_) => 0,
                // What follows is forged.
                None => match self.slots.get(number as usize) {
                    Some(slots) if number > 0 => usize::from(*slots),
                    _ => break,
                },
            };
            at += 1 + slots;
        }
        let stream = &mut self.streams[area].0;
        stream.thread = thread;
        for numbers in self.numbers.chunks(4 * BATCH) {
            self.tally.read(stream, numbers, self.blocks.code());
        }
    }
}

impl Consumer for Passing<'_> {
    fn read(&mut self, Chunk { number, thread, area, chunk, length, lost, .. }: Chunk<'_>) {
        self.learn();
        let notes = lost.map(|Lost { words, base }| {
            let [gap, fs] = [LOST, FS_BASE].map(|kind| note(kind, 0).into());
            [gap, words, fs, base].map(u64::to_le_bytes)
        });
        let notes = notes.as_ref().map_or(&[][..], |notes| notes.as_flattened());
        // What is there from another chunk is overwritten.
        self.bytes.resize(notes.len() + length as usize, 0);
        let (first, rest) = self.bytes.split_at_mut(notes.len());
        first.copy_from_slice(notes);
        area.copy_chunk(chunk, 0, rest);
        self.chunks += 1;
        let is_looked_at = self.builds
            && self.demand.has_paths()
            && (self.chunks <= FIRST_CHUNKS || self.chunks.is_multiple_of(OTHERS));
        if is_looked_at {
            self.look_at(number, thread);
        } else if self.streams[number].1 {
            self.tally.end(&mut self.streams[number].0);
        }
        self.streams[number].1 = is_looked_at;
        if !self.bytes.is_empty() {
            self.bytes = self.sink.words(thread, std::mem::take(&mut self.bytes));
            self.follow_demand();
        }
    }

    fn end(&mut self, area: usize) {
        self.tally.end(&mut self.streams[area].0);
    }

    fn pause(&mut self) {
        let numbers = self.tally.numbers;
        if numbers >= self.next_decision && self.demand.has_paths() {
            let known = self.tally.known();
            let (code, instructions) = (self.blocks.code(), &self.instructions);
            match self.demand {
                Demand::Blocks => self.tally.decide(&ShortPaths { code, instructions }),
                _ => self.tally.decide(code),
            }
            self.next_decision = numbers + numbers.min(NEXT_DECISION);
            if self.tally.known() > known {
                self.chunks = 0;
            }
        }
    }
}

/// Reads the rings until the sender of messages is dropped. All blocks are described before their
/// numbers can be in a full chunk.
pub fn record(
    rings: &Rings,
    finished: &Receiver<Finished>,
    recording: Recording,
    blocks: &mut dyn AccessBlocks,
    sink: &mut dyn AccessSink,
) -> Losses {
    let demand = sink.demand();
    let consumer = Passing {
        blocks,
        sink,
        bytes: Vec::new(),
        slots: vec![0],
        instructions: vec![0],
        tally: Tally::new(recording),
        streams: std::array::from_fn(|_| Default::default()),
        numbers: Vec::new(),
        chunks: 0,
        next_decision: FIRST_DECISION,
        demand,
        builds: recording.superblocks.is_some(),
    };
    let Reader { consumer, losses, .. } = Reader::new(rings, consumer).follow(finished);
    consumer.sink.finish(losses);
    losses
}
