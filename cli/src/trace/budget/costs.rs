//! Counts what recording a program costs, and what each function would cost with less of its
//! accesses recorded.
//!
//! Counted are the units that threads write, and in some of their chunks the executions of each
//! block. A block is decoded from its code, and accesses are chosen by the code that does so when a
//! program is recorded.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hmtt_format::access_trace::{BlockAccesses, FS_BASE, Function, LOST, SLOT_BYTES, parse_note};
use hmtt_probe::address::RunAddr;
use hmtt_translator::block::Block;
use hmtt_translator::control::FunctionKey;
use hmtt_translator::extent::Extent;
use hmtt_translator::monitor::Losses;
use hmtt_translator::monitor::accesses::AccessSink;
use hmtt_translator::recorded::{Choice, Chosen};
use hmtt_translator::selection;

use super::levels::Level;

/// Which chunks are looked at: the first ones, and one of how many after that.
const FIRST_CHUNKS: u64 = 8;
const OTHERS: u64 = 8;
/// Share of executed units that the blocks have whose levels are known.
const KNOWN_SHARE: f64 = 0.99;

/// What was recorded in some time.
#[derive(Debug, Default)]
pub struct Costs {
    /// Units that were written.
    pub units: u64,
    /// Those in chunks that were looked at.
    pub seen_units: u64,
    /// Numbers of blocks and paths among these.
    pub seen_numbers: u64,
    /// What each function would write and record in those chunks, at each level: see
    /// [`Counter::levels`].
    pub functions: HashMap<FunctionKey, Vec<Level>>,
}

/// What is known of a block: slots and known accesses in one execution, at each level.
type Planned = Arc<[(u16, u16)]>;

/// State that is kept from one time to the next.
#[derive(Debug)]
pub struct Counter {
    /// The levels: how much is recorded of a block.
    levels: Vec<Extent>,
    choice: Choice,
    /// Blocks that were decoded, by start and code.
    planned: HashMap<(u64, Box<[u8]>), Planned>,
    /// What was counted since it was taken.
    costs: Costs,
}

fn lock(counter: &Mutex<Counter>) -> MutexGuard<'_, Counter> {
    counter.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Takes what was counted.
pub fn take(counter: &Mutex<Counter>) -> Costs {
    std::mem::take(&mut lock(counter).costs)
}

impl Counter {
    /// Nothing was counted. `levels`: how much could be recorded of a function, the least first.
    pub fn new(levels: Vec<Extent>, choice: Choice) -> Self {
        Counter { levels, choice, planned: HashMap::new(), costs: Costs::default() }
    }

    /// What the levels record of a block; `None` if its code is not that of a block.
    fn planned(&mut self, start: u64, code: &[u8]) -> Option<Planned> {
        let key = (start, code.into());
        if let Some(known) = self.planned.get(&key) {
            return Some(known.clone());
        }
        let block = Block::from_bytes(RunAddr(start), code).ok()?;
        let accesses = selection::accesses(&block, self.choice.equality);
        let at = |extent: &Extent| {
            let block = Block { extent: *extent, ..block.clone() };
            let Chosen { selection, .. } = Chosen::of(&[block], &accesses, &self.choice);
            let accuracy = selection.accuracy();
            (selection.chosen.len() as u16, (accuracy.equal) as u16)
        };
        let planned: Planned = self.levels.iter().map(at).collect();
        self.planned.insert(key, planned.clone());
        Some(planned)
    }
}

/// A number of a block, or of a path up to one of its blocks.
#[derive(Debug)]
struct Number {
    slots: u16,
    /// Where its blocks are in the list of the blocks of all numbers.
    blocks: std::ops::Range<usize>,
    executions: u64,
}

/// A block, and its function.
#[derive(Debug)]
struct Described {
    start: u64,
    code: Box<[u8]>,
    function: u32,
}

/// Counts what is passed on to a file.
pub struct CountingSink {
    counter: Arc<Mutex<Counter>>,
    file: Option<Box<dyn AccessSink>>,
    functions: Vec<FunctionKey>,
    /// Blocks by number; `None` for those of paths.
    described: Vec<Option<Described>>,
    /// Numbers of the blocks of all numbers, one number after the other.
    parts: Vec<u32>,
    numbers: Vec<Number>,
    chunks: u64,
    costs: Costs,
}

impl CountingSink {
    /// Counts for a counter.
    pub fn new(counter: Arc<Mutex<Counter>>, file: Option<Box<dyn AccessSink>>) -> Self {
        CountingSink {
            counter,
            file,
            functions: vec![FunctionKey::default()],
            described: vec![None],
            parts: Vec::new(),
            numbers: vec![Number { slots: 0, blocks: 0..0, executions: 0 }],
            chunks: 0,
            costs: Costs::default(),
        }
    }

    fn add_block(&mut self, block: &BlockAccesses) {
        let number = self.numbers.len() as u32;
        let from = self.parts.len();
        match block.parts.is_empty() {
            true => self.parts.push(number),
            false => self.parts.extend(block.parts.iter().map(|part| part.block)),
        }
        for part in 0..block.numbers() {
            let slots = block.up_to(part).1;
            let blocks = from..from + part + 1;
            self.numbers.push(Number { slots, blocks, executions: 0 });
            self.described.push(None);
        }
        if block.parts.is_empty() && !block.code.is_empty() {
            let (start, code) = (block.start, block.code.clone().into());
            let described = Described { start, code, function: block.function };
            self.described[number as usize] = Some(described);
        }
    }

    /// Counts the executions in a chunk.
    fn look_at(&mut self, words: &[u8]) {
        let (units, _) = words.as_chunks::<SLOT_BYTES>();
        self.costs.seen_units += units.len() as u64;
        let mut at = 0;
        while let Some(unit) = units.get(at) {
            let word = u32::from_le_bytes([unit[0], unit[1], unit[2], unit[3]]);
            let slots = match parse_note(word) {
                Some((FS_BASE | LOST, _)) => 1,
                Some(_) => 0,
                None => match self.numbers.get_mut(word as usize) {
                    Some(number) if word > 0 => {
                        number.executions += 1;
                        self.costs.seen_numbers += 1;
                        usize::from(number.slots)
                    }
                    // What follows is forged.
                    _ => break,
                },
            };
            at += 1 + slots;
        }
    }

    /// Executions of each block that was executed, the most units first.
    fn executions(&self) -> Vec<(u32, u64)> {
        let mut executions = vec![0_u64; self.described.len()];
        for number in self.numbers.iter().filter(|number| number.executions > 0) {
            for block in &self.parts[number.blocks.clone()] {
                if let Some(sum) = executions.get_mut(*block as usize) {
                    *sum += number.executions;
                }
            }
        }
        let mut all: Vec<(u32, u64)> =
            (0..).zip(executions).filter(|(_, times)| *times > 0).collect();
        all.sort_by_key(|(_, times)| std::cmp::Reverse(*times));
        all
    }

    /// Finds what each function would write.
    fn count_functions(&mut self) {
        let executions = self.executions();
        let all: u64 = executions.iter().map(|(_, times)| times).sum();
        let mut counter = lock(&self.counter);
        let mut seen = 0;
        for (number, times) in executions {
            if seen as f64 > KNOWN_SHARE * all as f64 {
                break;
            }
            seen += times;
            let Some(Some(block)) = self.described.get(number as usize) else { continue };
            let Some(planned) = counter.planned(block.start, &block.code) else { continue };
            let key = self.functions.get(block.function as usize).cloned().unwrap_or_default();
            let levels = self.costs.functions.entry(key).or_default();
            levels.resize(planned.len(), Level::default());
            for (level, (slots, accesses)) in levels.iter_mut().zip(planned.iter()) {
                level.units += times as f64 * f64::from(*slots);
                level.accesses += times as f64 * f64::from(*accesses);
            }
        }
    }
}

impl AccessSink for CountingSink {
    fn functions(&mut self, functions: &[Function]) {
        self.functions.extend(functions.iter().map(|one| (one.path.clone(), one.start)));
        self.file.iter_mut().for_each(|file| file.functions(functions));
    }

    fn blocks(&mut self, blocks: &[BlockAccesses]) {
        blocks.iter().for_each(|block| self.add_block(block));
        self.file.iter_mut().for_each(|file| file.blocks(blocks));
    }

    fn words(&mut self, thread: i32, words: Vec<u8>) -> Vec<u8> {
        self.costs.units += (words.len() / SLOT_BYTES) as u64;
        self.chunks += 1;
        if self.chunks <= FIRST_CHUNKS || self.chunks.is_multiple_of(OTHERS) {
            self.look_at(&words);
        }
        match &mut self.file {
            Some(file) => file.words(thread, words),
            None => words,
        }
    }

    fn finish(&mut self, losses: Losses) {
        self.count_functions();
        lock(&self.counter).costs = std::mem::take(&mut self.costs);
        self.file.iter_mut().for_each(|file| file.finish(losses));
    }
}
