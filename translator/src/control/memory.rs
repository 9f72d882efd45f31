//! Manages the memory of the code cache: the lookup table and the arenas. They are in one file,
//! which the process maps without write permission.
//!
//! Arenas are mapped when they are needed ([`growth`](super::growth)), each near the code that it
//! translates. The file contains them one after the other. Adjacent arenas share a page of the
//! file: the last page of an arena is the first page of the next one. The next arena is mapped by
//! copying the mapping of that page. Only the next arena uses the page.
//!
//! ```text
//! file    lookup table | ... | arena 0 ... p | arena 1 ... q | ...        p and q are in two arenas each
//!         0                  ARENAS_AT
//! ```

use std::sync::atomic::Ordering;

use hmtt_probe::address::RunAddr;
use hmtt_probe::control::{MappedCopy, Memory, Reservation};
use hmtt_probe::ptrace::Mapping;

use super::gaps;
use crate::cache::{Arena, ArenaNumber, CacheMemory};
use crate::layout::{PAGE_BYTES, lookup};

/// Bytes of the first, second and third arena near the same code. Further arenas there have the
/// last size.
const ARENA_BYTES: [u64; 3] = [16 << 20, 64 << 20, 256 << 20];
/// Offset of the first arena in the file.
pub const ARENAS_AT: u64 = 1 << 20;
/// Bytes of the file. Most of them are never accessed, so they use no memory.
pub const BYTES: u64 = ARENAS_AT + (3 << 29);
/// Distance of arenas below the code, so that libraries fit in between.
const LIBRARIES: u64 = 512 << 20;
/// Distance of arenas above the code, which leaves place for the heap of a program.
const HEAP: u64 = 384 << 20;
/// Greatest distance of an arena's start from the code.
const FAR: u64 = 1280 << 20;
/// Greatest distance between an arena's bytes and the code that it translates.
const REACH: u64 = 3 << 29;

/// Chooses the address of one more arena near code: below it if possible, otherwise above.
fn arena_place(mapped: &[Mapping], near: RunAddr, bytes: u64) -> Option<RunAddr> {
    let (low, high) = (near.0.saturating_sub(FAR), near.0 + FAR);
    let below = near.0.checked_sub(LIBRARIES);
    let below = below.and_then(|top| gaps::below(mapped, top, low, bytes));
    below.or_else(|| gaps::above(mapped, near.0 + HEAP, high, bytes))
}

/// An arena that the process has mapped.
#[derive(Clone, Copy, Debug)]
struct MappedArena {
    base: RunAddr,
    /// Bytes that the arena may use. The last page is not included.
    bytes: u64,
    /// Offset of the arena in the file.
    offset: u64,
}

impl MappedArena {
    fn is_near(&self, near: RunAddr) -> bool {
        self.base.0.abs_diff(near.0) < REACH && (self.base.0 + self.bytes).abs_diff(near.0) < REACH
    }
}

/// The lookup table and the arenas.
pub struct CodeMemory {
    memory: Memory,
    /// Arenas in the order of the file. The first `used` of them are in use, and an arena's number
    /// is its index.
    arenas: Vec<MappedArena>,
    used: usize,
    /// Address at which the process has mapped the first page of the next arena.
    next_page: RunAddr,
    /// Whether perf(1) is to take arenas for code without a file, so that it looks for their
    /// symbols in a perf map.
    has_perf_map: bool,
    /// An address near which another arena is needed.
    wanted: Option<RunAddr>,
}

impl CodeMemory {
    /// Memory without arenas. `next_page`: address at which the process has mapped the first page
    /// of the first arena.
    pub fn new(memory: Memory, next_page: RunAddr, has_perf_map: bool) -> Self {
        CodeMemory { memory, arenas: Vec::new(), used: 0, next_page, has_perf_map, wanted: None }
    }

    /// Sets for each value of the low 8 bits of a system call's number whether a thread asks the
    /// controller before the call.
    pub fn set_calls(&mut self, asked: [bool; 256]) {
        let bytes = asked.map(|is_asked| if is_asked { lookup::ASKED } else { lookup::AT_ONCE });
        self.memory.copy_from(lookup::CALLS, &bytes);
    }

    fn offset(&self, arena: ArenaNumber, offset: u32) -> u64 {
        self.arenas[arena.0 as usize].offset + u64::from(offset)
    }

    /// Whether the cache needs another arena.
    pub fn is_wanting(&self) -> bool {
        self.wanted.is_some()
    }

    /// Removes and returns the address near which the cache needs another arena.
    pub fn take_wanted(&mut self) -> Option<RunAddr> {
        self.wanted.take()
    }

    /// How the next arena is to be mapped near an address; `None` if there are no free addresses,
    /// or the file is full. `mapped`: all mappings of the process.
    pub fn next(&self, mapped: &[Mapping], near: RunAddr) -> Option<MappedCopy> {
        let others = self.arenas.iter().filter(|arena| arena.is_near(near)).count();
        let bytes = ARENA_BYTES[others.min(ARENA_BYTES.len() - 1)];
        let offset = self.arenas.last().map_or(ARENAS_AT, |arena| arena.offset + arena.bytes);
        let is_in_file = offset + bytes <= BYTES;
        let at = arena_place(mapped, near, bytes).filter(|_| is_in_file)?;
        let reservation = if self.has_perf_map { Reservation::Code } else { Reservation::Hidden };
        Some(MappedCopy { from: self.next_page, offset, at, bytes, reservation })
    }

    /// Adds the next arena, which the process has mapped.
    pub fn add(&mut self, copy: MappedCopy) {
        let bytes = copy.bytes - PAGE_BYTES;
        self.arenas.push(MappedArena { base: copy.at, bytes, offset: copy.offset });
        self.next_page = copy.at + bytes;
    }
}

impl CacheMemory for CodeMemory {
    fn new_arena(&mut self, near: RunAddr) -> Result<Arena, String> {
        // Arenas are used in the order in which they were mapped.
        match self.arenas.get(self.used).filter(|arena| arena.is_near(near)) {
            Some(MappedArena { base, bytes, .. }) => {
                self.used += 1;
                Ok(Arena { base: *base, bytes: *bytes as u32 })
            }
            None => {
                self.wanted = Some(near);
                Err("no more memory is mapped near it".to_owned())
            }
        }
    }

    fn write(&mut self, arena: ArenaNumber, offset: u32, bytes: &[u8]) {
        self.memory.copy_from(self.offset(arena, offset), bytes);
    }

    fn replace(&mut self, arena: ArenaNumber, offset: u32, bytes: &[u8]) {
        let (at, place) = (self.offset(arena, offset & !7), offset as usize & 7);
        let word = self.memory.long(at);
        let mut word_bytes = word.load(Ordering::Relaxed).to_le_bytes();
        word_bytes[place..place + bytes.len()].copy_from_slice(bytes);
        word.store(u64::from_le_bytes(word_bytes), Ordering::SeqCst);
    }

    fn set_table(&mut self, entry: u16, address: RunAddr) {
        self.memory.long(u64::from(entry) * 8).store(address.0, Ordering::SeqCst);
    }
}
