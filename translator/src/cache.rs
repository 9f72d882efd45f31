//! The code cache of a process: translates blocks, links them and answers requests.
//!
//! All tables are in private memory. What is written to the process goes through [`CacheMemory`].

use hmtt_probe::address::RunAddr;
use thiserror::Error;

use crate::block::Untranslatable;
use crate::code::CodeBytes;
use crate::state::Point;

/// An arena of the cache: one range of its memory, mapped at one address of the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arena {
    /// Its address in the process.
    pub base: RunAddr,
    /// Its size in bytes.
    pub bytes: u32,
}

/// Number of an arena, in the order in which they were made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ArenaNumber(pub u32);

/// Memory of a process that the cache writes. The program has mapped it without write permission.
pub trait CacheMemory {
    /// Maps a new arena within 1.5 GiB of an address. Arenas are numbered from 0.
    ///
    /// # Errors
    /// The arena cannot be mapped; the text says why.
    fn new_arena(&mut self, near: RunAddr) -> Result<Arena, String>;
    /// Writes code to which nothing leads yet.
    fn write(&mut self, arena: ArenaNumber, offset: u32, bytes: &[u8]);
    /// Replaces the displacement of a jump by one aligned store of four bytes.
    fn link(&mut self, arena: ArenaNumber, offset: u32, displacement: i32);
    /// Replaces an entry of the lookup table by one store.
    fn set_table(&mut self, entry: u16, address: RunAddr);
}

/// What generated code does besides what the program does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Instrument {
    /// Nothing.
    None,
    /// Each block writes its number to the thread's ring. `r15` is the pointer to its next place.
    Ring,
}

/// Properties of a cache.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Address of the lookup table in the process: a multiple of a page, below 2 GiB.
    pub table: u32,
    /// What generated code does besides.
    pub instrument: Instrument,
    /// Most blocks that are translated for one request.
    pub batch: usize,
}

/// Why there is no generated code for an address.
#[derive(Debug, Error)]
pub enum CacheError {
    /// The instruction there runs natively.
    #[error(transparent)]
    Untranslatable(#[from] Untranslatable),
    /// There is no memory for it.
    #[error("no arena near {near:#x}: {why}")]
    Arena {
        /// Address that is to be translated.
        near: RunAddr,
        /// What failed.
        why: String,
    },
}

/// A translated block.
#[derive(Clone, Debug)]
pub struct BlockInfo {
    /// Original address of its first instruction.
    pub start: RunAddr,
    /// Original bytes.
    pub bytes: Box<[u8]>,
    /// Number of its instructions.
    pub instructions: u16,
}

/// Where a thread enters the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Number of the block, from 1 on.
    pub block: u32,
    /// Address of its generated code. All registers but `r15` of a ring have the program's values.
    pub address: RunAddr,
}

/// Answer to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The thread continues in the cache, at this address.
    Cached(RunAddr),
    /// The thread continues in its original code, at this address.
    Native(RunAddr),
    /// The thread is about to make a system call. It continues at one of the two addresses.
    Call {
        /// The system call's instruction in the original code.
        native: RunAddr,
        /// The system call's instruction in the cache.
        cached: RunAddr,
    },
}

/// The code cache of a process.
pub struct Cache<M> {
    memory: M,
    settings: Settings,
}

impl<M: CacheMemory> Cache<M> {
    /// An empty cache, with an arena near an address. All entries of the lookup table are set.
    ///
    /// # Errors
    /// The arena cannot be mapped.
    pub fn new(memory: M, settings: Settings, near: RunAddr) -> Result<Self, CacheError> {
        let _ = near;
        Ok(Cache { memory, settings })
    }

    /// The memory of the process.
    pub fn memory(&mut self) -> &mut M {
        &mut self.memory
    }

    /// The properties of the cache.
    pub fn settings(&self) -> Settings {
        self.settings
    }

    /// Finds or translates the block at an address, and the blocks that direct jumps reach from it.
    ///
    /// # Errors
    /// The instruction there cannot be translated, or there is no memory.
    pub fn entry(&mut self, code: &dyn CodeBytes, at: RunAddr) -> Result<Entry, CacheError> {
        let _ = code;
        Err(Untranslatable { at, why: crate::block::Why::NotReadable }.into())
    }

    /// Answers a request of a thread: `exit` and `target` are the fields of its area, as read.
    /// Neither is trusted.
    pub fn answer(&mut self, code: &dyn CodeBytes, exit: u32, target: u64) -> Answer {
        let _ = (code, exit);
        Answer::Native(RunAddr(target))
    }

    /// The original state of a thread that is about to execute the instruction at an address of the
    /// cache. `None` if it must be stepped to the next instruction first, or if the address is not
    /// in the cache ([`contains`](Self::contains)).
    pub fn state_at(&self, address: RunAddr) -> Option<Point> {
        let _ = address;
        None
    }

    /// Whether an address is in an arena.
    pub fn contains(&self, address: RunAddr) -> bool {
        let _ = address;
        false
    }

    /// Takes all blocks that contain bytes of a range out of the cache: nothing leads to them any more.
    /// Threads that are in them finish them.
    pub fn invalidate(&mut self, range: std::ops::Range<RunAddr>) {
        let _ = range;
    }

    /// A translated block, by its number. The number is not trusted.
    pub fn block(&self, number: u32) -> Option<&BlockInfo> {
        let _ = number;
        None
    }
}
