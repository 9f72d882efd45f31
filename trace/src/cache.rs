//! Simulates a hierarchy of write-back caches: accesses of one processor in, transfers of lines to
//! and from memory out.
//!
//! ```text
//! configuration  sizes, ways, lines and replacement of a level, also as text
//! places         names of levels, and the order of the levels that a user gives
//! level          the lines of one cache
//! ```
//!
//! The first level has a cache for data and may have one for instructions; further levels hold
//! both. Every level is write-back and allocates a line on a read miss and on a write miss. By
//! default a level is neither inclusive nor exclusive: a line is filled into every level on its way
//! from memory, and each level evicts it on its own. An inclusive level also removes the lines that
//! it evicts from the levels before it.
//!
//! A dirty line that is evicted is written to the next level that has it, or to memory. Such a
//! write-back neither allocates a line nor counts as a use of it. So hits and misses do not depend
//! on which lines are dirty.
//!
//! Invariant: a transfer from memory precedes the write-backs that it causes, because a victim
//! waits in a buffer until its successor has been requested.

use hmtt_format::Direction;

pub mod configuration;
mod level;
pub mod places;

pub use configuration::{CacheConfiguration, CacheError, Replacement};
use level::{Level, Victim};

/// The kind of an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AccessKind {
    /// An instruction is fetched.
    Fetch,
    /// Data are read.
    Read,
    /// Data are written.
    Write,
}

/// A line that is read from memory or written to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transfer {
    /// Whether memory is read or written.
    pub direction: Direction,
    /// Address of the first byte of the line.
    pub address: u64,
    /// Size of the line in bytes.
    pub bytes: u32,
}

/// Counts of one cache. A part of an access that lies in one line counts once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Requested lines that were present.
    pub hits: u64,
    /// Requested lines that were absent.
    pub misses: u64,
    /// Dirty lines that were evicted, or that were removed because a later level evicted them.
    pub write_backs: u64,
}

/// The caches of one processor.
///
/// All addresses are of one address space. The caches do not distinguish physical and virtual
/// addresses.
///
/// ```
/// use hmtt::cache::{AccessKind, CacheConfiguration, Hierarchy};
///
/// let level: CacheConfiguration = "32K,8,64,lru".parse().unwrap();
/// let mut caches = Hierarchy::new(&[level], None).unwrap();
/// let mut transfers = Vec::new();
/// let deepest = caches.access(AccessKind::Read, 0x1040, 8, &mut |transfer| transfers.push(transfer));
/// assert_eq!((deepest, transfers.len()), (1, 1));
/// assert_eq!(caches.access(AccessKind::Write, 0x1048, 8, &mut |_| {}), 0);
/// ```
#[derive(Clone, Debug)]
pub struct Hierarchy {
    /// The levels of the data path, from the processor to memory.
    levels: Vec<Level>,
    /// The instruction cache of the first level.
    instructions: Option<Level>,
}

impl Hierarchy {
    /// Creates empty caches. `levels`: the data path, from the processor to memory. `instructions`:
    /// the instruction cache before the second level; without it instructions are fetched through
    /// the data path.
    ///
    /// # Errors
    /// [`CacheError`] if a level is impossible, if a level has shorter lines than a level before
    /// it, or if there is no level.
    pub fn new(
        levels: &[CacheConfiguration],
        instructions: Option<&CacheConfiguration>,
    ) -> Result<Self, CacheError> {
        if levels.is_empty() {
            return Err(CacheError::NoLevel);
        }
        let second = levels.get(1);
        let pairs = levels.iter().zip(&levels[1..]);
        for (cache, next) in pairs.chain(instructions.zip(second)) {
            if next.line_bytes < cache.line_bytes {
                let (before, line) = (cache.line_bytes, next.line_bytes);
                return Err(CacheError::ShorterLine { line, before });
            }
        }
        let levels = levels.iter().map(Level::new).collect::<Result<_, _>>()?;
        Ok(Hierarchy { levels, instructions: instructions.map(Level::new).transpose()? })
    }

    /// Makes an access of `size` bytes; a size of 0 counts as 1. Calls `memory` for each line that
    /// is read from memory or written to it, in order. An access that crosses lines is made line by
    /// line; an access that would pass the end of the address space ends there.
    ///
    /// Returns the number of levels that missed; for several lines, the largest number of any line.
    /// 0 means that the first level had all lines.
    pub fn access(
        &mut self,
        kind: AccessKind,
        address: u64,
        size: u32,
        memory: &mut impl FnMut(Transfer),
    ) -> usize {
        let write = kind == AccessKind::Write;
        let fetch = kind == AccessKind::Fetch && self.instructions.is_some();
        let line_log2 = match &self.instructions {
            Some(instructions) if fetch => instructions.line_log2,
            _ => self.levels[0].line_log2,
        };
        let last = address.saturating_add(u64::from(size.max(1) - 1)) >> line_log2;
        let mut deepest = 0;
        for line in (address >> line_log2)..=last {
            let first = match &mut self.instructions {
                Some(instructions) if fetch => instructions,
                _ => &mut self.levels[0],
            };
            if first.touch(line, write) {
                first.counters.hits += 1;
            } else {
                first.counters.misses += 1;
                deepest = deepest.max(self.fill_first(fetch, line << line_log2, write, memory));
            }
        }
        deepest
    }

    /// Counts of each level of the data path, from the processor to memory.
    pub fn counters(&self) -> impl Iterator<Item = Counters> {
        self.levels.iter().map(|level| level.counters)
    }

    /// Counts of the instruction cache.
    pub fn instruction_counters(&self) -> Option<Counters> {
        self.instructions.as_ref().map(|level| level.counters)
    }

    /// Number of dirty lines, which memory does not have yet. A line counts once for each level in
    /// which it is dirty.
    pub fn dirty_lines(&self) -> u64 {
        self.levels.iter().map(Level::dirty_lines).sum()
    }

    /// Fills a line into a cache of the first level, after it missed. Returns the number of levels
    /// that missed.
    #[cold]
    fn fill_first(
        &mut self,
        fetch: bool,
        address: u64,
        write: bool,
        memory: &mut impl FnMut(Transfer),
    ) -> usize {
        let missed = 1 + self.fetch(1, address, memory);
        let first = match &mut self.instructions {
            Some(instructions) if fetch => instructions,
            _ => &mut self.levels[0],
        };
        let bytes = first.line_bytes();
        if let Some(victim) = first.insert(address, write).filter(|victim| victim.dirty) {
            first.counters.write_backs += 1;
            self.write_back(1, victim.address, bytes, memory);
        }
        missed
    }

    /// Reads a line from level `at` for the level before it. Returns the number of levels that
    /// missed.
    fn fetch(&mut self, at: usize, address: u64, memory: &mut impl FnMut(Transfer)) -> usize {
        let Some(level) = self.levels.get_mut(at) else {
            let bytes = self.levels[self.levels.len() - 1].line_bytes();
            let address = address & !u64::from(bytes - 1);
            memory(Transfer { direction: Direction::Read, address, bytes });
            return 0;
        };
        if level.touch(address >> level.line_log2, false) {
            level.counters.hits += 1;
            return 0;
        }
        level.counters.misses += 1;
        let missed = 1 + self.fetch(at + 1, address, memory);
        let level = &mut self.levels[at];
        let Some(Victim { address, mut dirty }) = level.insert(address, false) else {
            return missed;
        };
        let bytes = level.line_bytes();
        if level.inclusive {
            dirty |= self.remove_before(at, address);
        }
        if dirty {
            self.levels[at].counters.write_backs += 1;
            self.write_back(at + 1, address, bytes, memory);
        }
        missed
    }

    /// Removes a line of level `at` from the levels before it. Returns whether the line was dirty
    /// in one of them.
    fn remove_before(&mut self, at: usize, address: u64) -> bool {
        let bytes = self.levels[at].line_bytes();
        let before = self.levels[..at].iter_mut().chain(&mut self.instructions);
        before.fold(false, |dirty, level| level.remove(address, bytes) | dirty)
    }

    /// Writes a dirty line to the first level from `at` on that has the line, or to memory.
    fn write_back(
        &mut self,
        at: usize,
        address: u64,
        bytes: u32,
        memory: &mut impl FnMut(Transfer),
    ) {
        let written = self.levels[at..].iter_mut().any(|level| level.update(address));
        if !written {
            memory(Transfer { direction: Direction::Write, address, bytes });
        }
    }
}
