//! Decodes what threads have written, and makes the accesses in caches.

use std::collections::HashMap;
use std::ops::ControlFlow;

use hmtt::access_trace::{Decoder, EachElement, ElementBudget};
use hmtt::cache::places::MOST_LEVELS;
use hmtt::cache::{AccessKind, CacheConfiguration, CacheError, Counters, Hierarchy, Transfer};
use hmtt_format::Direction;
use hmtt_format::access_trace::{BlockAccesses, Made};

/// Misses of each level.
pub type Misses = [u64; MOST_LEVELS as usize];

/// Caches, and what they have counted.
pub struct Model {
    decoder: Decoder,
    budget: ElementBudget,
    levels: Vec<CacheConfiguration>,
    caches: Hierarchy,
    /// Accesses that were made.
    pub reads: u64,
    pub writes: u64,
    /// Accesses whose addresses are not known.
    pub unknown: u64,
    /// Lines read from memory and written to it.
    pub line_reads: u64,
    pub line_writes: u64,
    /// Misses by the address of the instruction. An access of several lines misses a level once.
    misses: HashMap<u64, Misses>,
}

impl Model {
    /// Empty caches.
    ///
    /// # Errors
    /// [`CacheError`] if there can be no such caches.
    pub fn new(levels: &[CacheConfiguration]) -> Result<Self, CacheError> {
        Ok(Model {
            decoder: Decoder::default(),
            budget: ElementBudget::of_running_program(),
            levels: levels.to_vec(),
            caches: Hierarchy::new(levels, None)?,
            reads: 0,
            writes: 0,
            unknown: 0,
            line_reads: 0,
            line_writes: 0,
            misses: HashMap::new(),
        })
    }

    /// Adds the next blocks.
    pub fn add_blocks(&mut self, blocks: &[BlockAccesses]) {
        self.decoder.add_blocks(blocks.iter().cloned());
    }

    /// Makes the accesses of the next units of a thread.
    pub fn units(&mut self, thread: u32, units: &[u8]) {
        let mut decoder = std::mem::take(&mut self.decoder);
        let mut budget = self.budget.clone();
        let mut each = EachElement::new(&mut budget, |made| {
            self.make(&made);
            ControlFlow::Continue(())
        });
        decoder.units(thread, units, &mut each);
        drop(each);
        self.decoder = decoder;
        self.budget = budget;
    }

    fn make(&mut self, made: &Made) {
        let Some(address) = made.address else {
            self.unknown = self.unknown.saturating_add(made.elements);
            return;
        };
        let (kind, count) = match made.direction {
            Direction::Read => (AccessKind::Read, &mut self.reads),
            Direction::Write => (AccessKind::Write, &mut self.writes),
        };
        *count += 1;
        let (reads, writes) = (&mut self.line_reads, &mut self.line_writes);
        let missed =
            self.caches.access(kind, address, made.size, &mut |transfer: Transfer| match transfer
                .direction
            {
                Direction::Read => *reads += 1,
                Direction::Write => *writes += 1,
            });
        if missed > 0 {
            let misses = self.misses.entry(made.pc).or_default();
            misses[..missed].iter_mut().for_each(|one| *one += 1);
        }
    }

    /// Elements of string instructions among the unknown accesses, because they are too many.
    pub fn refused(&self) -> u64 {
        self.budget.refused().map_or(0, |refused| refused.elements)
    }

    /// Chunks of units that could not be read to their end.
    pub fn invalid_chunks(&self) -> u64 {
        self.decoder.ending().invalid_chunks
    }

    /// The caches, from the processor to memory, with their counts.
    pub fn levels(&self) -> impl Iterator<Item = (CacheConfiguration, Counters)> {
        self.levels.iter().copied().zip(self.caches.counters())
    }

    /// Changed lines that are still in the caches.
    pub fn dirty_lines(&self) -> u64 {
        self.caches.dirty_lines()
    }

    /// Addresses of instructions, with their misses.
    pub fn instructions(&self) -> impl Iterator<Item = (u64, Misses)> {
        self.misses.iter().map(|(pc, misses)| (*pc, *misses))
    }
}
