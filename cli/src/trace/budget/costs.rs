//! Counts what recording a program costs, and what each function would cost if fewer of its
//! accesses were recorded.
//!
//! This module counts the units that threads write. In some of the chunks it also counts the
//! executions of each block. A block is decoded from its code. The accesses of each level are
//! chosen by the same code that chooses accesses when a program is recorded.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hmtt_files::access_trace::{BlockAccesses, FS_BASE, Function, LOST, SLOT_BYTES, parse_note};
use hmtt_probe::address::RunAddr;
use hmtt_translator::block::Block;
use hmtt_translator::control::FunctionKey;
use hmtt_translator::extent::Extent;
use hmtt_translator::monitor::Losses;
use hmtt_translator::monitor::accesses::AccessSink;
use hmtt_translator::recorded::{Choice, Chosen};
use hmtt_translator::selection;

use super::levels::Level;

/// Number of chunks at the start, which are all examined.
const FIRST_CHUNKS: u64 = 8;
/// Of the chunks after these, one in this number is examined.
const OTHERS: u64 = 8;
/// Levels are computed for the most expensive blocks that together have this fraction of all
/// executions.
const KNOWN_SHARE: f64 = 0.99;

/// Costs of recording in one window.
#[derive(Debug, Default)]
pub struct Costs {
    /// Units that were written.
    pub units: u64,
    /// Units in the chunks that were examined.
    pub seen_units: u64,
    /// Units among `seen_units` that are numbers of blocks or paths, and no addresses.
    pub seen_numbers: u64,
    /// For each function, its units and known accesses in the examined chunks at each level: see
    /// [`Counter::levels`].
    pub functions: HashMap<FunctionKey, Vec<Level>>,
}

/// For each level, the slots of a block and its known accesses in one execution.
type Planned = Arc<[(u16, u16)]>;

/// State that lasts for all windows.
#[derive(Debug)]
pub struct Counter {
    /// The levels of recording a block, in ascending order.
    levels: Vec<Extent>,
    choice: Choice,
    /// Results for blocks that were decoded, by start address and code.
    planned: HashMap<(u64, Box<[u8]>), Planned>,
    /// Costs since [`take`] was last called.
    costs: Costs,
}

fn lock(counter: &Mutex<Counter>) -> MutexGuard<'_, Counter> {
    counter.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the costs since the last call, and resets them.
pub fn take(counter: &Mutex<Counter>) -> Costs {
    std::mem::take(&mut lock(counter).costs)
}

impl Counter {
    /// Creates a counter without costs. `levels`: the levels of recording a function, in ascending
    /// order.
    pub fn new(levels: Vec<Extent>, choice: Choice) -> Self {
        Counter { levels, choice, planned: HashMap::new(), costs: Costs::default() }
    }

    /// Slots and known accesses of a block at each level. Returns `None` if the code is not the
    /// code of one block.
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

/// A number that threads write: it stands for a block, or for a path up to one of its blocks.
#[derive(Debug)]
struct Number {
    slots: u16,
    /// Range of the number's blocks in [`CountingSink::parts`].
    blocks: std::ops::Range<usize>,
    executions: u64,
}

/// The code and the function of a block.
#[derive(Debug)]
struct Described {
    start: u64,
    code: Box<[u8]>,
    function: u32,
}

/// Counts everything that is recorded, and passes it on to a file.
pub struct CountingSink {
    counter: Arc<Mutex<Counter>>,
    file: Option<Box<dyn AccessSink>>,
    functions: Vec<FunctionKey>,
    /// Blocks by number; `None` for numbers that stand for paths.
    described: Vec<Option<Described>>,
    /// The blocks of all numbers, concatenated. [`Number::blocks`] is a range of this list.
    parts: Vec<u32>,
    numbers: Vec<Number>,
    chunks: u64,
    costs: Costs,
}

impl CountingSink {
    /// Creates a sink that adds its costs to `counter`. `file`: the next sink, if there is one.
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
        if block.parts.is_empty() {
            self.parts.push(number)
        } else {
            self.parts.extend(block.parts.iter().map(|part| part.block))
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

    /// Counts the executions in a chunk of units.
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
                    // The number is not known. The rest of the chunk is forged and ignored.
                    _ => break,
                },
            };
            at += 1 + slots;
        }
    }

    /// Pairs of a block's number and its executions, in descending order of executions.
    fn executions(&self) -> Vec<(u32, u64)> {
        let mut executions = vec![0_u64; self.described.len()];
        for number in self.numbers.iter().filter(|number| number.executions > 0) {
            for block in &self.parts[number.blocks.clone()] {
                if let Some(sum) = executions.get_mut(*block as usize) {
                    *sum += number.executions;
                }
            }
        }
        let mut blocks: Vec<(u32, u64)> =
            (0..).zip(executions).filter(|(_, times)| *times > 0).collect();
        blocks.sort_by_key(|(_, times)| std::cmp::Reverse(*times));
        blocks
    }

    /// Computes what each function would cost at each level.
    fn count_functions(&mut self) {
        let executions = self.executions();
        let total: u64 = executions.iter().map(|(_, times)| times).sum();
        let mut counter = lock(&self.counter);
        let mut seen = 0;
        for (number, times) in executions {
            if seen as f64 > KNOWN_SHARE * total as f64 {
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
        self.functions
            .extend(functions.iter().map(|function| (function.path.clone(), function.start)));
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
