//! Extracts a region of a thread's instructions from its units, while the thread is recorded.
//!
//! Instructions are counted as the units come. Of an interrupted block only the executed
//! instructions count. Units before the region and behind it are left out. If the region begins
//! within a block, the last instructions of that block are described as a new block
//! ([`BlockAccesses::tail`]). If the region ends within a block, a note cuts this block, as after
//! an interruption.
//!
//! ```text
//! executed block     5      6      7           8    each has 10 instructions
//! first instruction  15     25     35          45   counted from 0
//! region 25..45             6      7                begins and ends between two blocks
//! region 20..40      tail   6      7, cut at 5      the tail is instructions 5..10 of block 5, with its own number
//! ```
//!
//! A thread that is far from the region need not record accesses, but only the blocks that it
//! executes ([`RegionStage`]). The thread runs ahead of the units that were read, by at most as
//! many instructions as fit in its ring (`lead`). So the thread starts to record accesses that many
//! instructions before the region.
//!
//! Invariant: only instructions and accesses of the region are passed on, and each of them is
//! passed on or counted as missing. The program itself writes the units and may forge them: a
//! forged unit makes only itself and the units behind it missing or wrong.

mod parts;

use std::ops::Range;

use hmtt_files::access_trace::{
    BlockAccesses, CALL, CUT, FS_BASE, LOST, NATIVE, RecordedRegion, SLOT_BYTES, START, parse_note,
};

/// A unit, as bytes.
type Word = [u8; SLOT_BYTES];

/// What a thread is to record, in the order of the stages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RegionStage {
    /// The executed blocks, without accesses.
    Counting,
    /// Accesses, but in blocks only and not in paths, because a path in which the region begins
    /// cannot be divided.
    Blocks,
    /// Accesses, in blocks and in paths.
    Paths,
    /// Nothing: the region has ended.
    Over,
}

/// The part of some units that is in the region.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CutUnits {
    /// The block with which the region begins, if it is the tail of another block. It must be
    /// described next, before the units.
    pub tail: Option<BlockAccesses>,
    /// The units of the region. The first one is a number or a note.
    pub units: Vec<u8>,
}

/// Counts of the losses of the thread, up to the end of the region.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SeenInRegion {
    /// How often the thread came to code that ran natively, also before the region.
    pub native: u64,
    /// Words of 4 bytes that the thread has dropped, also before the region.
    pub lost: u64,
    /// Number of calls of [`RegionCutter::units`] with an invalid unit. That unit and the units
    /// behind it were left out.
    pub invalid_chunks: u64,
    /// Instructions of the region whose accesses were not recorded, because their block only
    /// counts, or because the region begins within a path, which cannot be divided.
    pub counted_only: u64,
}

/// The meaning of a number: a block, or a path up to one of its parts.
#[derive(Clone, Copy, Debug)]
struct Number {
    /// Index of its description.
    block: u32,
    /// Index of the part; 0 for a block.
    part: u16,
    /// Number of instructions up to the end of the part.
    instructions: u16,
    /// Number of slots up to the end of the part.
    slots: u16,
}

/// Extracts a region of a thread's instructions from its units.
#[derive(Clone, Debug)]
pub struct RegionCutter {
    /// The instructions of the region, counted from 0. The end is `u64::MAX` if the region has
    /// none.
    region: Range<u64>,
    count: Option<u64>,
    /// Maximum number of instructions by which the thread may be ahead of the units that were read.
    lead: u64,
    /// Number of instructions that were executed.
    executed: u64,
    /// Number of instructions of the region that were passed on.
    recorded: u64,
    /// Descriptions of all blocks and paths.
    blocks: Vec<BlockAccesses>,
    /// For each number from 1 on, its meaning.
    numbers: Vec<Number>,
    /// Blocks with numbers up to this one record no accesses, and blocks with higher numbers do.
    /// `None`: no block records accesses yet.
    counted: Option<u32>,
    /// Number with which the tail was passed on, if there was one.
    tail: Option<u32>,
    /// Whether units of the region were passed on.
    has_begun: bool,
    /// Address of the instruction that was executed behind the region, once it is known.
    next: Option<u64>,
    /// The base of the segment `fs` at the current unit.
    fs: u64,
    seen: SeenInRegion,
}

impl RegionCutter {
    /// Starts before the first instruction of the thread. `skip`: how many instructions are left
    /// out. `count`: how many instructions behind them are passed on; `None` for all. `lead`:
    /// maximum number of instructions by which the thread may be ahead of the units that were read.
    pub fn new(skip: u64, count: Option<u64>, lead: u64) -> Self {
        // A file states this number for a region without an end.
        let count = count.filter(|count| *count != u64::MAX);
        let region = skip..count.map_or(u64::MAX, |count| skip.saturating_add(count));
        RegionCutter {
            count,
            counted: (region.start <= lead).then_some(0),
            region,
            lead,
            executed: 0,
            recorded: 0,
            blocks: Vec::new(),
            numbers: Vec::new(),
            tail: None,
            has_begun: false,
            next: None,
            fs: 0,
            seen: SeenInRegion::default(),
        }
    }

    /// What the thread is to record from now on.
    pub fn stage(&self) -> RegionStage {
        match self.executed {
            executed if executed >= self.region.end && self.next.is_some() => RegionStage::Over,
            executed if executed >= self.region.start => RegionStage::Paths,
            executed if self.counted.is_none() && self.region.start - executed > self.lead => {
                RegionStage::Counting
            }
            _ => RegionStage::Blocks,
        }
    }

    /// States that only blocks with numbers above `last` record their accesses.
    pub fn set_counted(&mut self, last: u32) {
        self.counted = Some(last);
    }

    /// The region that was to be recorded, and how many instructions were skipped and recorded.
    /// `thread`: number of the thread in the system.
    pub fn result(&self, thread: u32) -> RecordedRegion {
        let (skip, count) = (self.region.start, self.count);
        let skipped = self.executed.min(skip);
        RecordedRegion { thread, skip, count, skipped, recorded: self.recorded, next: self.next }
    }

    /// Counts of the losses of the thread, up to the end of the region.
    pub fn seen(&self) -> SeenInRegion {
        self.seen
    }

    /// Adds the program's next blocks and paths. Returns the blocks that record accesses and so
    /// must be described in the file. Their parts have the numbers with which blocks are passed on.
    pub fn add_blocks(&mut self, blocks: &[BlockAccesses]) -> Vec<BlockAccesses> {
        let mut passed = Vec::new();
        for block in blocks {
            let index = self.blocks.len() as u32;
            let number = self.numbers.len() as u32 + 1;
            let parts = 0..block.numbers() as u16;
            self.numbers.extend(parts.map(|part| {
                let (instructions, slots) = block.up_to(part.into());
                Number { block: index, part, instructions, slots }
            }));
            self.blocks.push(block.clone());
            if self.counted.is_some_and(|counted| number > counted) {
                passed.push(self.renumbered(block));
            }
        }
        passed
    }

    /// The number with which a block is passed on: blocks that only count are not numbered, and the
    /// tail takes a number. 0 if the block only counts.
    fn passed_number(&self, number: u32) -> u32 {
        let number = number.saturating_sub(self.counted.unwrap_or(u32::MAX));
        number + u32::from(self.tail.is_some_and(|tail| number >= tail))
    }

    /// A description with the numbers with which blocks are passed on.
    fn renumbered(&self, block: &BlockAccesses) -> BlockAccesses {
        let mut block = block.clone();
        for part in &mut block.parts {
            part.block = self.passed_number(part.block);
        }
        block.repeated.first = self.passed_number(block.repeated.first);
        block
    }

    /// Extracts the part of the thread's next units that is in the region. `offset`: returns the
    /// offset of an instruction, by its index, in the code of a block, in bytes.
    pub fn units(
        &mut self,
        units: &[u8],
        offset: impl Fn(&BlockAccesses, u16) -> usize,
    ) -> CutUnits {
        let mut cut = CutUnits::default();
        if self.stage() == RegionStage::Over {
            return cut;
        }
        let (words, rest) = units.as_chunks::<SLOT_BYTES>();
        if !(self.cut(words, &offset, &mut cut) && rest.is_empty()) {
            self.seen.invalid_chunks += 1;
        }
        cut
    }

    /// Extracts the part of words that is in the region. Returns whether all words are valid. An
    /// invalid word and the words behind it are left out.
    fn cut(
        &mut self,
        words: &[Word],
        offset: &impl Fn(&BlockAccesses, u16) -> usize,
        cut: &mut CutUnits,
    ) -> bool {
        let mut at = 0;
        while at < words.len() {
            if !self.has_begun {
                at += self.skip(&words[at..]);
            }
            let Some(word) = words.get(at) else { return true };
            let word = u64::from_le_bytes(*word);
            if self.stage() == RegionStage::Over {
                return true;
            }
            let length = match parse_note(word as u32) {
                Some((kind, _)) => {
                    let Some(length) = self.note(kind, &words[at..]) else { return false };
                    // Notes before and behind the region are left out. A CUT belongs to the
                    // execution before it.
                    if self.has_begun && kind != CUT && self.executed < self.region.end {
                        cut.units.extend(words[at..at + length].as_flattened());
                    }
                    length
                }
                None => {
                    let Some(execution) = self.execution(word, &words[at + 1..]) else {
                        return false;
                    };
                    self.execute(&execution, offset, cut);
                    1 + execution.slots.len()
                }
            };
            at += length;
        }
        true
    }

    /// Skips executions before the region at the start of `words`, and counts their instructions.
    /// Stops at an execution that is cut, and at a note other than START and CALL. Returns the
    /// number of words that were skipped.
    fn skip(&mut self, words: &[Word]) -> usize {
        let (mut at, mut executed) = (0, self.executed);
        let mut before_last = (at, executed);
        'executions: loop {
            // While no slots follow, the place of a word does not depend on the word before it.
            for word in words.get(at..).unwrap_or_default() {
                let word = u64::from_le_bytes(*word);
                let Some(number) = self.numbers.get(word.wrapping_sub(1) as usize) else {
                    match parse_note(word as u32) {
                        Some((START | CALL, _)) => {
                            before_last = (at + 1, executed);
                            at += 1;
                            continue;
                        }
                        _ => break 'executions,
                    }
                };
                let end = executed.saturating_add(number.instructions.into());
                if end >= self.region.start {
                    break 'executions;
                }
                before_last = (at, executed);
                (at, executed) = (at + 1, end);
                if number.slots > 0 {
                    at += usize::from(number.slots);
                    continue 'executions;
                }
            }
            break;
        }
        // The last execution is cut or incomplete, so it is not counted here.
        let next = words.get(at).map(|word| u64::from_le_bytes(*word) as u32);
        if at > words.len() || matches!(next.and_then(parse_note), Some((CUT, _))) {
            (at, executed) = before_last;
        }
        self.executed = executed;
        at
    }

    /// Evaluates a note at the start of words. Returns how many words it has; `None` if its value
    /// is missing.
    fn note(&mut self, kind: u32, words: &[Word]) -> Option<usize> {
        let value = words.get(1).map(|word| u64::from_le_bytes(*word));
        match kind {
            FS_BASE => self.fs = value?,
            LOST => self.seen.lost = self.seen.lost.saturating_add(value?),
            NATIVE => self.seen.native += 1,
            _ => {}
        }
        Some(if matches!(kind, FS_BASE | LOST) { 2 } else { 1 })
    }
}

#[cfg(test)]
mod tests;
