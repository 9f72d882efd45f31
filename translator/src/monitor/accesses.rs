//! Passes on the records that threads write about their accesses, and counts blocks in some of the
//! records to decide which superblocks are built.
//!
//! Counting needs only to find hot paths, so a part of the chunks is enough. All chunks are counted
//! at first, and after each decision that led to new code. After that, one of `OTHERS` chunks is
//! counted.

use std::sync::mpsc::Receiver;

use hmtt_files::access_trace::{
    BlockAccesses, FS_BASE, Function, LOST, NATIVE, SLOT_BYTES, note, parse_note,
};

use super::code::{Blocks, Numbered};
use super::table::BATCH;
use super::tally::{Recording, Stream, Tally};
use super::{Chunk, Consumer, FIRST_DECISION, Finished, Losses, Lost, Reader};
use crate::block::MAX_INSTRUCTIONS;
use crate::layout::ring;
use crate::shared::{CHUNKS, Rings, THREADS};

/// Number of successive chunks that are counted at first; after them, one of `OTHERS` chunks is
/// counted.
const FIRST_CHUNKS: u64 = 16;
const OTHERS: u64 = 16;
/// Maximum count of numbers between decisions.
const NEXT_DECISION: u64 = 1 << 20;

/// Maximum count of numbers in a full ring, including the number of the block that the thread is
/// in.
const MOST_NUMBERS: u64 = CHUNKS * (ring::CHUNK_BYTES + ring::SLACK_BYTES) / SLOT_BYTES as u64 + 1;

/// What threads are to record. The order of the variants is the order in which they follow each
/// other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Demand {
    /// Only the executed blocks. A superblock has at most as many instructions as a block may have.
    Blocks,
    /// Accesses, but without superblocks.
    Accesses,
    /// Accesses, with superblocks if they were requested.
    All,
    /// Nothing more: the process is to be left.
    Nothing,
}

impl Demand {
    /// Maximum number of instructions by which a thread that records [blocks](Demand::Blocks), or
    /// [accesses](Demand::Accesses) without superblocks, may be ahead of the words that were read:
    /// the instructions in a full ring. A repeated string instruction counts as one.
    pub const LEAD: u64 = MOST_NUMBERS * MAX_INSTRUCTIONS as u64;

    /// Whether superblocks of hot paths are built.
    const fn has_paths(self) -> bool {
        matches!(self, Demand::Blocks | Demand::All)
    }
}

/// Limits the superblocks of another [`Blocks`] to as many instructions as a block may have.
struct ShortPaths<'b> {
    code: &'b dyn Blocks,
    /// Number of instructions of the block or path of each number.
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

/// Receives the records of accesses.
pub trait AccessSink: Send {
    /// What is to be recorded from now on. Each value must be equal to the previous one, or later
    /// in the order of [`Demand`].
    fn demand(&self) -> Demand {
        Demand::All
    }
    /// States that blocks with numbers above `last` record their accesses, and earlier blocks do
    /// not.
    fn set_counted(&mut self, _last: u32) {}
    /// Receives the next functions. They are numbered from 1 on.
    fn functions(&mut self, functions: &[Function]);
    /// Receives the next blocks and paths. They are numbered from 1 on. Their functions were passed
    /// before.
    fn blocks(&mut self, blocks: &[BlockAccesses]);
    /// Receives the next words of a thread. All their blocks were passed before. Returns memory
    /// that can be used again.
    fn words(&mut self, thread: i32, words: Vec<u8>) -> Vec<u8>;
    /// Called once at the end.
    fn finish(&mut self, losses: Losses);
}

/// Describes blocks and their accesses.
pub trait AccessBlocks {
    /// Descriptions of all blocks and paths that are new since the last call, and of functions that
    /// are new in them.
    fn describe_new(&mut self) -> (Vec<Function>, Vec<BlockAccesses>);
    /// Records accesses from the next block of each thread on. Returns the highest number of a
    /// block that does not record its accesses.
    fn record_accesses(&mut self) -> u32 {
        0
    }
    /// Makes the tracer leave the process.
    fn leave(&mut self) {}
    /// Describes the blocks as code, for counting.
    fn code(&self) -> &dyn Blocks;
}

/// Passes the words of chunks on to a sink, and counts blocks in some chunks.
struct Passing<'r> {
    blocks: &'r mut dyn AccessBlocks,
    sink: &'r mut dyn AccessSink,
    bytes: Vec<u8>,
    /// Number of slots of the block or path of each number; index 0 is not used.
    slots: Vec<u16>,
    /// Number of instructions of the block or path of each number; index 0 is not used.
    instructions: Vec<u16>,
    tally: Tally,
    /// For each area: the state of counting, and whether its last chunk was counted.
    streams: [(Stream, bool); THREADS],
    /// The numbers of the chunk that is being counted.
    numbers: Vec<u8>,
    /// Number of chunks since the last decision that led to new code.
    chunks: u64,
    next_decision: u64,
    /// What threads record now.
    demand: Demand,
    /// Whether superblocks are requested.
    builds: bool,
}

impl Passing<'_> {
    /// Makes threads record what the sink demands now. No chunk was freed since the sink has
    /// received the last words, so a thread can be ahead of these words by at most a ring.
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
            // From here on, hot paths are searched for.
            self.chunks = 0;
        }
        self.demand = demand;
    }

    /// Passes the blocks that are not known yet on to the sink.
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

    /// Counts the numbers in `bytes`, which come from an area.
    fn look_at(&mut self, area: usize, thread: i32) {
        self.numbers.clear();
        let (units, _) = self.bytes.as_chunks::<SLOT_BYTES>();
        let mut at = 0;
        while let Some(unit) = units.get(at) {
            let number = u32::from_le_bytes([unit[0], unit[1], unit[2], unit[3]]);
            // A note about native code does not change what follows a start, so it is not counted.
            if !matches!(parse_note(number), Some((NATIVE, _))) {
                self.numbers.extend(number.to_le_bytes());
            }
            let slots = match parse_note(number) {
                Some((FS_BASE | LOST, _)) => 1,
                Some(_) => 0,
                // The number is forged, and so may be the rest.
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
        // The whole buffer is overwritten below.
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

/// Reads the rings and passes their words to a sink, until the sender of messages is dropped. Each
/// block is described before the block's number can be in a full chunk.
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
