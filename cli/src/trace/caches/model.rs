//! Decodes the units that threads have written, and makes their accesses in the caches.

use std::collections::HashMap;
use std::ops::ControlFlow;

use hmtt::access_trace::{Decoder, EachElement, ElementBudget};
use hmtt::cache::places::MOST_LEVELS;
use hmtt::cache::{AccessKind, CacheConfiguration, CacheError, Counters, Hierarchy, Transfer};
use hmtt_files::access_trace::{BlockAccesses, Made};
use hmtt_format::Direction;

/// Number of misses in each level of caches.
pub type Misses = [u64; MOST_LEVELS as usize];

/// Simulated caches with their counts.
pub struct Model {
    decoder: Decoder,
    budget: ElementBudget,
    levels: Vec<CacheConfiguration>,
    caches: Hierarchy,
    /// Number of reads that were made in the caches.
    pub reads: u64,
    /// Number of writes that were made in the caches.
    pub writes: u64,
    /// Accesses whose addresses are not known.
    pub unknown: u64,
    /// Number of lines read from memory.
    pub line_reads: u64,
    /// Number of lines written to memory.
    pub line_writes: u64,
    /// Misses of each instruction, by its address. An access that touches several lines misses a
    /// level at most once.
    misses: HashMap<u64, Misses>,
}

impl Model {
    /// Creates empty caches.
    ///
    /// # Errors
    /// [`CacheError`] if caches cannot have this configuration.
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

    /// Adds further blocks, which units refer to by number.
    pub fn add_blocks(&mut self, blocks: &[BlockAccesses]) {
        self.decoder.add_blocks(blocks.iter().cloned());
    }

    /// Makes the accesses of a thread's next units in the caches.
    pub fn units(&mut self, thread: u32, units: &[u8]) {
        let mut decoder = std::mem::take(&mut self.decoder);
        let mut budget = self.budget.clone();
        let mut each = EachElement::new(&mut budget, |access| {
            self.make(&access);
            ControlFlow::Continue(())
        });
        decoder.units(thread, units, &mut each);
        drop(each);
        self.decoder = decoder;
        self.budget = budget;
    }

    fn make(&mut self, access: &Made) {
        let Some(address) = access.address else {
            self.unknown = self.unknown.saturating_add(access.elements);
            return;
        };
        let (kind, count) = match access.direction {
            Direction::Read => (AccessKind::Read, &mut self.reads),
            Direction::Write => (AccessKind::Write, &mut self.writes),
        };
        *count += 1;
        let (reads, writes) = (&mut self.line_reads, &mut self.line_writes);
        let missed =
            self.caches.access(
                kind,
                address,
                access.size,
                &mut |transfer: Transfer| match transfer.direction {
                    Direction::Read => *reads += 1,
                    Direction::Write => *writes += 1,
                },
            );
        if missed > 0 {
            let misses = self.misses.entry(access.pc).or_default();
            misses[..missed].iter_mut().for_each(|one| *one += 1);
        }
    }

    /// Number of unknown accesses that are elements of string instructions. They were not made
    /// because there are too many.
    pub fn refused(&self) -> u64 {
        self.budget.refused().map_or(0, |refused| refused.elements)
    }

    /// Number of chunks that were not read to their end, because a unit in them is invalid.
    pub fn invalid_chunks(&self) -> u64 {
        self.decoder.ending().invalid_chunks
    }

    /// Configuration and counts of each level, from the processor to memory.
    pub fn levels(&self) -> impl Iterator<Item = (CacheConfiguration, Counters)> {
        self.levels.iter().copied().zip(self.caches.counters())
    }

    /// Number of changed lines that are still in the caches, and were not written to memory.
    pub fn dirty_lines(&self) -> u64 {
        self.caches.dirty_lines()
    }

    /// Address and misses of each instruction that has missed.
    pub fn instructions(&self) -> impl Iterator<Item = (u64, Misses)> {
        self.misses.iter().map(|(pc, misses)| (*pc, *misses))
    }
}
