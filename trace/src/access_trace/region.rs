//! Cuts a region of the instructions of a thread out of its units, while they are recorded.
//!
//! Instructions are counted as the units come: those of each executed block, of an interrupted one
//! those that were executed. Units before the region and behind it are left out. The block in which
//! the region begins is described anew with its last instructions ([`BlockAccesses::tail`]), and
//! the one in which it ends is cut by a note, as by an interruption.
//!
//! ```text
//! units      block 5 | block 6       | block 7 | block 8            instructions 20..45 of blocks with 10 each
//! number     15      | 25            | 35      | 45
//! passed on            block 6, 0..10  block 7   block 8, 0..0      skip 25: a border between blocks
//!            tail of 5: 5..10, ...                                  skip 20: the tail of block 5 has a number of its own
//! ```
//!
//! A thread that is far from the region need not record accesses, only which blocks it executes
//! ([`RegionStage`]). As it runs ahead of the units that were read, it records them before the
//! region begins, by as many instructions as fit in its ring at most.
//!
//! Invariant: what is passed on are the region's instructions and accesses, all of them or counted
//! as missing. Units come from the program: what is forged is at most missing or wrong itself.

mod parts;

use std::ops::Range;

use hmtt_format::access_trace::{
    BlockAccesses, CALL, CUT, FS_BASE, LOST, NATIVE, RecordedRegion, SLOT_BYTES, START, parse_note,
};

/// A word of units.
type Word = [u8; SLOT_BYTES];

/// What a thread is to record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RegionStage {
    /// The blocks that it executes.
    Counting,
    /// Accesses, in blocks only: the region may begin in any of them.
    Blocks,
    /// Accesses, also in paths.
    Paths,
    /// Nothing more.
    Over,
}

/// What was cut out of units.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CutUnits {
    /// The block with which the region begins, if it has no number yet. It is the next block that
    /// is described.
    pub tail: Option<BlockAccesses>,
    /// The units, which begin with a number or a note.
    pub units: Vec<u8>,
}

/// What was seen of the thread up to the end of the region.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SeenInRegion {
    /// How often it came to code that ran natively, also before the region.
    pub native: u64,
    /// Words that it has dropped.
    pub lost: u64,
    /// Chunks of units that name no block, from some place on.
    pub invalid_chunks: u64,
    /// Instructions of the region that were counted only.
    pub counted_only: u64,
}

/// A number: a block, or a path up to one of its parts.
#[derive(Clone, Copy, Debug)]
struct Number {
    /// Index of its description.
    block: u32,
    part: u16,
    /// How many it has up to there.
    instructions: u16,
    slots: u16,
}

/// Cuts a region out.
#[derive(Clone, Debug)]
pub struct RegionCutter {
    region: Range<u64>,
    count: Option<u64>,
    /// By how many instructions a thread may be ahead of the units that were read.
    lead: u64,
    /// Instructions that were executed, and recorded.
    executed: u64,
    recorded: u64,
    /// All descriptions, and numbers from 1 on.
    blocks: Vec<BlockAccesses>,
    numbers: Vec<Number>,
    /// The last number of a block that records no accesses; `None` as long as all blocks do not.
    counted: Option<u32>,
    /// Number with which the tail was passed on.
    tail: Option<u32>,
    has_begun: bool,
    /// Address of the instruction behind the region.
    next: Option<u64>,
    /// The base of the segment `fs`.
    fs: u64,
    seen: SeenInRegion,
}

impl RegionCutter {
    /// Nothing was executed. `skip`: how many instructions are left out. `count`: how many are
    /// passed on behind them; `None` for all. `lead`: by how many instructions a thread may be
    /// ahead of the units that were read.
    pub fn new(skip: u64, count: Option<u64>, lead: u64) -> Self {
        // A file has no such number.
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

    /// What is to be recorded from now on.
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

    /// Blocks behind this number record their accesses, and others do not.
    pub fn set_counted(&mut self, last: u32) {
        self.counted = Some(last);
    }

    /// How many instructions were skipped and recorded of those of a thread, and what was to be.
    pub fn result(&self, thread: u32) -> RecordedRegion {
        let (skip, count) = (self.region.start, self.count);
        let skipped = self.executed.min(skip);
        RecordedRegion { thread, skip, count, skipped, recorded: self.recorded, next: self.next }
    }

    /// What was seen of the thread up to the end of the region.
    pub fn seen(&self) -> SeenInRegion {
        self.seen
    }

    /// Adds the next blocks and paths. Returns those that are to be described, with numbers that
    /// count these only.
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

    /// The number with which a block is passed on; 0 for none.
    fn passed_number(&self, number: u32) -> u32 {
        let number = number.saturating_sub(self.counted.unwrap_or(u32::MAX));
        number + u32::from(self.tail.is_some_and(|tail| number >= tail))
    }

    fn renumbered(&self, block: &BlockAccesses) -> BlockAccesses {
        let mut block = block.clone();
        for part in &mut block.parts {
            part.block = self.passed_number(part.block);
        }
        block.repeated.first = self.passed_number(block.repeated.first);
        block
    }

    /// Cuts what is in the region out of the next units of the thread. `offset`: of an instruction
    /// in the code of a block.
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

    /// Cuts words. Returns whether all of them are valid; what follows an invalid one is left out.
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
                    // What was noted before the region is not in it.
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

    /// Counts the executions at the start of words that are before the region, up to one that is
    /// cut, or a note with a meaning for what follows. Returns how many words they have.
    fn skip(&mut self, words: &[Word]) -> usize {
        let (mut at, mut executed) = (0, self.executed);
        let mut before_last = (at, executed);
        'executions: loop {
            // Without slots, the place of a word does not depend on the one before.
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
        // The last execution is not whole.
        let next = words.get(at).map(|word| u64::from_le_bytes(*word) as u32);
        if at > words.len() || matches!(next.and_then(parse_note), Some((CUT, _))) {
            (at, executed) = before_last;
        }
        self.executed = executed;
        at
    }

    /// Counts a note at the start of words. Returns how many words it has.
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
