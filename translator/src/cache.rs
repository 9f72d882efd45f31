//! Holds the code cache of a process: translates blocks, links them and answers threads that ask
//! for more.
//!
//! A request is answered by [`Cache::answer`]. It finds the block at the wanted address, or decodes
//! it and its successors (`translate`, `order`), generates their code (`bodies`, `emit`), writes it
//! to an arena (`arena`) and makes jumps lead to it (`links`). All tables are in private memory.
//! Whatever is written to the process goes through [`CacheMemory`].
//!
//! What threads write, such as the number of an exit, is never trusted.

mod arena;
mod bodies;
mod changes;
mod links;
mod order;
mod record;
mod superblocks;
mod translate;

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::sync::Arc;

use hmtt_probe::address::RunAddr;
use thiserror::Error;

use crate::block::{MAX_BYTES, Untranslatable};
use crate::code::CodeBytes;
use crate::emit::{Emitted, ExitKind, Form, Path, Points, Section, emit};
use crate::extent::Extent;
use crate::layout::{area, lookup};
use crate::recorded::Choice;
use crate::state::Point;
use crate::stubs::Stubs;
pub use arena::Contents;
use arena::{Space, Start};
use record::{Body, ExitRecord, Record};

/// A range of memory with generated code, mapped at one address of the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arena {
    /// Address in the process.
    pub base: RunAddr,
    /// Size in bytes.
    pub bytes: u32,
}

/// Number of an arena, in the order in which they were made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ArenaNumber(pub u32);

/// Memory of a process that the cache writes. It is mapped into the program without write
/// permission, and the controller writes it through a mapping of its own.
pub trait CacheMemory {
    /// Maps a new arena within 1.5 GiB of an address. Arenas are numbered from 0.
    ///
    /// # Errors
    /// The arena cannot be mapped; the text says why.
    fn new_arena(&mut self, near: RunAddr) -> Result<Arena, String>;
    /// Writes code that cannot be reached yet.
    fn write(&mut self, arena: ArenaNumber, offset: u32, bytes: &[u8]);
    /// Replaces bytes of code by one store of 8 bytes at a multiple of 8. All replaced bytes must
    /// be in these 8. Threads execute the old or the new instruction (AMD64 Architecture
    /// Programmer's Manual, volume 2, 7.6.1).
    fn replace(&mut self, arena: ArenaNumber, offset: u32, bytes: &[u8]);
    /// Replaces an entry of the lookup table by one store. `entry`: the low 16 bits of original
    /// addresses.
    fn set_table(&mut self, entry: u16, address: RunAddr);
}

/// What generated code records besides executing the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Instrument {
    /// Threads have no rings, and `r15` is the program's own.
    None,
    /// Each block writes its number to the thread's ring. `r15` points to the next free place of
    /// the ring.
    Ring,
    /// In addition, each block writes values from which its accesses to memory follow.
    Accesses(Choice),
}

impl Instrument {
    /// Whether threads have rings, to which blocks write.
    pub fn has_ring(self) -> bool {
        self != Instrument::None
    }

    /// Which accesses are recorded, if any are.
    pub fn choice(self) -> Option<Choice> {
        match self {
            Instrument::Accesses(choice) => Some(choice),
            Instrument::None | Instrument::Ring => None,
        }
    }
}

/// Properties of a cache.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Address of the lookup table in the process: a multiple of a page, below 2 GiB.
    pub table: u32,
    /// What generated code records.
    pub instrument: Instrument,
    /// Maximum number of blocks that are translated for one request, unless blocks are expected.
    pub batch: usize,
}

/// Why an address has no generated code.
#[derive(Debug, Error)]
pub enum CacheError {
    /// The instruction at the address is not translated.
    #[error(transparent)]
    Untranslatable(#[from] Untranslatable),
    /// An arena cannot be mapped, or has no space left for the code.
    #[error("no arena near {near:#x}: {why}")]
    Arena {
        /// Original address that was to be translated.
        near: RunAddr,
        /// What failed.
        why: String,
    },
}

/// What is known about a translated block outside of the cache.
#[derive(Clone, Debug)]
pub struct BlockInfo {
    /// Original address of its first instruction.
    pub start: RunAddr,
    /// Original bytes of its instructions.
    pub bytes: Box<[u8]>,
    /// Number of its instructions.
    pub instructions: u16,
    /// Whether its original bytes may change without a system call of the process.
    pub may_change: bool,
    /// How much of its accesses is recorded, if any are.
    pub extent: Extent,
}

/// What a number in a ring stands for.
#[derive(Clone, Copy, Debug)]
pub enum Numbered<'c> {
    /// A block.
    Block(&'c BlockInfo),
    /// The first blocks of a path, executed one after the other.
    Path {
        /// Numbers of all blocks of the path.
        blocks: &'c Arc<[u32]>,
        /// How many of them were executed.
        length: usize,
    },
}

/// Where a thread enters the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Number of the block, from 1 on, also if a superblock is entered instead.
    pub block: u32,
    /// Address of its generated code. A thread must enter it with the program's values in all
    /// registers except `r15` if there is a ring.
    pub address: RunAddr,
}

/// Answer to the request of a thread: where it continues.
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
#[derive(Debug)]
pub struct Cache<M> {
    memory: M,
    settings: Settings,
    stubs: Stubs,
    spaces: Vec<Space>,
    /// Blocks and paths, by number from 1 on.
    blocks: Vec<Record>,
    /// Exits, by number from 1 on.
    exits: Vec<ExitRecord>,
    /// Numbers of the blocks in use, by original address. A block whose code was invalidated is not
    /// in it.
    by_address: BTreeMap<u64, u32>,
    /// Exits whose target has no block yet, by the original address of the target.
    waiting: HashMap<u64, Vec<u32>>,
    /// Exits that are to be linked next: new ones, and ones whose target has changed.
    unlinked: Vec<u32>,
    /// By entry of the lookup table: the block whose landing the entry leads to, or 0.
    heads: Vec<u32>,
    /// Original states of threads at islands, by the addresses of the islands.
    islands: HashMap<u64, Point>,
    /// Number of changes of a block's bytes, by its original address.
    changes: HashMap<u64, u32>,
}

/// Which section of the code of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Code that is usually executed.
    Hot,
    /// Code that is seldom executed: requests to the controller, and waiting.
    Cold,
}

impl<M: CacheMemory> Cache<M> {
    /// Makes an empty cache with one arena near an address. All entries of the lookup table lead to
    /// the stub for misses.
    ///
    /// # Errors
    /// The arena cannot be mapped.
    pub fn new(memory: M, settings: Settings, near: RunAddr) -> Result<Self, CacheError> {
        let mut cache = Cache {
            memory,
            settings,
            stubs: Stubs::new(settings.instrument.has_ring()),
            spaces: Vec::new(),
            blocks: Vec::new(),
            exits: Vec::new(),
            by_address: BTreeMap::new(),
            waiting: HashMap::new(),
            unlinked: Vec::new(),
            heads: vec![0; lookup::ENTRIES as usize],
            islands: HashMap::new(),
            changes: HashMap::new(),
        };
        cache.new_space(near)?;
        let miss = RunAddr(cache.spaces[0].around.indirect);
        for entry in 0..=u16::MAX {
            cache.memory.set_table(entry, miss);
        }
        Ok(cache)
    }

    /// The memory of the process.
    pub fn memory(&mut self) -> &mut M {
        &mut self.memory
    }

    /// The properties of the cache.
    pub fn settings(&self) -> Settings {
        self.settings
    }

    /// Returns where a thread enters the block at an address. The block is translated if it is not
    /// in the cache, together with blocks that direct transfers reach from it.
    ///
    /// # Errors
    /// The instruction there cannot be translated, or there is no memory.
    pub fn entry(&mut self, code: &dyn CodeBytes, at: RunAddr) -> Result<Entry, CacheError> {
        let block = self.block_at(code, at, false)?;
        let body = self.main_of(block)?;
        self.link_all();
        Ok(Entry { block, address: RunAddr(body.entries.checked) })
    }

    /// Returns the landing at an address, which is translated if needed. The lookup table leads to
    /// it from now on.
    fn landing(&mut self, code: &dyn CodeBytes, at: RunAddr) -> Result<RunAddr, CacheError> {
        let block = self.block_at(code, at, true)?;
        let body = self.publish(block)?;
        self.link_all();
        Ok(RunAddr(body.entries.checked))
    }

    /// Number of the block at an address, which is translated if needed. `is_landing`: an indirect
    /// transfer leads to the address.
    fn block_at(
        &mut self,
        code: &dyn CodeBytes,
        at: RunAddr,
        is_landing: bool,
    ) -> Result<u32, CacheError> {
        match self.by_address.get(&at.0) {
            Some(block) => Ok(*block),
            None => self.translate_batch(code, at, is_landing),
        }
    }

    /// Answers a request of a thread. `exit` and `target`: the fields of the thread's area, as the
    /// thread has written them. Neither is trusted.
    pub fn answer(&mut self, code: &dyn CodeBytes, exit: u32, target: u64) -> Answer {
        let known_exit = self.exit(exit).map(|record| record.exit);
        let to = known_exit.map_or(RunAddr(target), |exit| exit.to);
        match known_exit.map(|exit| exit.kind) {
            Some(ExitKind::Syscall { cached }) => {
                return Answer::Call { native: to, cached: RunAddr(cached) };
            }
            Some(ExitKind::Native) => return Answer::Native(to),
            None if exit != area::INDIRECT => return Answer::Native(to),
            Some(ExitKind::Changed) => self.remove_changed(code, to),
            Some(ExitKind::Direct { .. } | ExitKind::Again { .. } | ExitKind::Left) | None => {}
        }
        // The stub has saved all registers that are in the thread area when a landing is entered.
        let address = match exit {
            area::INDIRECT => self.landing(code, to),
            _ => self.entry(code, to).map(|entry| entry.address),
        };
        address.map_or(Answer::Native(to), Answer::Cached)
    }

    /// Address at which a thread that waits in the stubs continues if it loses its controller: the
    /// part of the stubs that goes on in original code. `at`: address of the thread; `None` if `at`
    /// is not in the stubs.
    pub fn alone(&self, at: RunAddr) -> Option<RunAddr> {
        let space = self.spaces.iter().find(|space| space.contains(at.0))?;
        let is_in_stubs = space.offset(at.0) < self.stubs.section.len();
        is_in_stubs.then(|| space.arena.base + u64::from(self.stubs.alone))
    }

    /// The original state of a thread that is about to execute the instruction at an address of the
    /// cache. `None`: the state is not known there, so the thread must be stepped to the next
    /// instruction first; or the address is not in the cache ([`contains`](Self::contains)).
    pub fn state_at(&self, address: RunAddr) -> Option<Point> {
        let space = self.spaces.iter().find(|space| space.contains(address.0))?;
        if space.offset(address.0) < self.stubs.section.len() {
            return self.stubs.section.state_at(space.offset(address.0));
        }
        if let Some(state) = self.islands.get(&address.0) {
            return Some(*state);
        }
        let (section, offset, _) = self.section_at(address)?;
        section.state_at(offset)
    }

    /// The number that a thread at an address of the cache has still to write to its ring, also
    /// where its state is not known.
    pub fn unwritten_at(&self, address: RunAddr) -> Option<u32> {
        if let Some(state) = self.state_at(address) {
            return state.unwritten;
        }
        let (section, offset, side) = self.section_at(address)?;
        // Where the state is not known, a target is being compared. Such code is hot code after an
        // instruction with a known state, or cold code before one.
        let after = section.points.partition_point(|(at, _)| *at < offset);
        let point = match side {
            Side::Hot => section.points[..after].last(),
            Side::Cold => section.points.get(after),
        };
        point?.1.unwritten
    }

    /// The section of generated code that contains an address, the offset in it, and its side.
    fn section_at(&self, address: RunAddr) -> Option<(Section, u32, Side)> {
        let space = self.spaces.iter().find(|space| space.contains(address.0))?;
        let (Start { address: start, block, form }, side) = space.section_at(address.0)?;
        let record = &self.blocks[block as usize - 1];
        let body = if form == Form::Landing { record.landing? } else { record.main? };
        let emitted = self.emitted_again(block, &body)?;
        let section = if matches!(side, Side::Hot) { emitted.hot } else { emitted.cold };
        Some((section, (address.0 - start) as u32, side))
    }

    /// Generates the code of a block or path once more, with its points. The result equals the code
    /// in the cache.
    fn emitted_again(&self, number: u32, body: &Body) -> Option<Emitted> {
        let (blocks, numbers) = self.decoded(number).ok()?;
        let path = Path { blocks: &blocks, numbers: &numbers };
        emit(path, &self.spaces[body.space].around, body.place, Points::Noted).ok()
    }

    /// Whether an address is in an arena.
    pub fn contains(&self, address: RunAddr) -> bool {
        self.spaces.iter().any(|space| space.contains(address.0))
    }

    /// The ranges of addresses of the arenas, with what each contains.
    pub fn contents(&self) -> impl Iterator<Item = (Range<u64>, Contents)> {
        self.spaces.iter().flat_map(|space| {
            let parts = space.contents();
            let limit = space.arena.base.0 + u64::from(space.arena.bytes);
            let ends: Vec<u64> =
                parts.iter().skip(1).map(|(start, _)| *start).chain([limit]).collect();
            let ranges = parts.into_iter().zip(ends);
            ranges.map(|((start, contents), end)| (start..end, contents))
        })
    }

    /// Takes all blocks that contain bytes of a range out of the cache: no exit or table leads to
    /// them any more. Threads in such a block finish it.
    pub fn invalidate(&mut self, range: Range<RunAddr>) {
        let first = range.start.saturating_sub(MAX_BYTES as u64).0;
        let inside = self.by_address.range(first..range.end.0.max(first));
        let mut blocks: Vec<u32> = inside.map(|(_, block)| *block).collect();
        blocks.retain(|block| self.record_mut(*block).limit() > range.start);
        for block in &blocks {
            self.leave_superblocks_with(*block);
        }
        for block in blocks {
            self.detach(block);
        }
    }

    /// What a number in a ring stands for. The number is not trusted.
    pub fn number(&self, number: u32) -> Option<Numbered<'_>> {
        let record = self.blocks.get(number.checked_sub(1)? as usize)?;
        Some(match &record.path {
            Some(path) => Numbered::Path { blocks: &path.blocks, length: path.length },
            None => Numbered::Block(&record.info),
        })
    }

    /// The highest number of a block or path so far; 0 if there is none.
    pub fn last_number(&self) -> u32 {
        self.blocks.len() as u32
    }

    /// A translated block, by its number; `None` for a path. The number is not trusted.
    pub fn block(&self, number: u32) -> Option<&BlockInfo> {
        match self.number(number)? {
            Numbered::Block(info) => Some(info),
            Numbered::Path { .. } => None,
        }
    }

    /// Whether a number has code for direct transfers to it, and code for indirect ones. The number
    /// is not trusted.
    pub fn forms(&self, number: u32) -> [bool; 2] {
        let record = number.checked_sub(1).and_then(|index| self.blocks.get(index as usize));
        record.map_or([false; 2], |record| [record.main.is_some(), record.landing.is_some()])
    }

    fn record_mut(&mut self, number: u32) -> &mut Record {
        &mut self.blocks[number as usize - 1]
    }

    fn exit(&self, number: u32) -> Option<&ExitRecord> {
        self.exits.get(number.checked_sub(1)? as usize)
    }
}
