//! Memory of the code cache: the lookup table and the arenas, in one file that the process maps without write permission.

use std::sync::atomic::Ordering;

use hmtt_probe::address::RunAddr;
use hmtt_probe::control::Memory;

use crate::cache::{Arena, ArenaNumber, CacheMemory};
use crate::layout::lookup;

/// Bytes of an arena.
pub const ARENA_BYTES: u64 = 256 << 20;
/// Offset of the first arena in the file.
pub const ARENAS_AT: u64 = 1 << 20;
/// Greatest distance between an arena's bytes and the code that it translates.
const REACH: u64 = 3 << 29;

/// The lookup table and the arenas.
pub struct CodeMemory {
    memory: Memory,
    /// Addresses of all arenas in the process. Their order is that of the file.
    places: Vec<RunAddr>,
    /// Arenas that are in use, by number: indices of `places`.
    used: Vec<usize>,
}

impl CodeMemory {
    /// Memory whose arenas the process has mapped at these addresses.
    pub fn new(memory: Memory, places: Vec<RunAddr>) -> Self {
        CodeMemory { memory, places, used: Vec::new() }
    }

    /// Sets for each value of the low 8 bits of a system call's number whether the controller is asked first.
    pub fn set_calls(&mut self, asked: [bool; 256]) {
        let bytes = asked.map(|is_asked| if is_asked { lookup::ASKED } else { lookup::AT_ONCE });
        self.memory.copy_from(lookup::CALLS, &bytes);
    }

    fn offset(&self, arena: ArenaNumber, offset: u32) -> u64 {
        let place = self.used[arena.0 as usize] as u64;
        ARENAS_AT + place * ARENA_BYTES + u64::from(offset)
    }
}

impl CacheMemory for CodeMemory {
    fn new_arena(&mut self, near: RunAddr) -> Result<Arena, String> {
        let is_near = |base: RunAddr| {
            base.0.abs_diff(near.0) < REACH && (base.0 + ARENA_BYTES).abs_diff(near.0) < REACH
        };
        let mut places = self.places.iter().enumerate();
        let found = places.find(|(place, base)| !self.used.contains(place) && is_near(**base));
        let (place, base) =
            found.ok_or("all arenas that were mapped at the start are in use or too far")?;
        self.used.push(place);
        Ok(Arena { base: *base, bytes: ARENA_BYTES as u32 })
    }

    fn write(&mut self, arena: ArenaNumber, offset: u32, bytes: &[u8]) {
        self.memory.copy_from(self.offset(arena, offset), bytes);
    }

    fn replace(&mut self, arena: ArenaNumber, offset: u32, bytes: &[u8]) {
        let (at, place) = (self.offset(arena, offset & !7), offset as usize & 7);
        let word = self.memory.long(at);
        let mut all = word.load(Ordering::Relaxed).to_le_bytes();
        all[place..place + bytes.len()].copy_from_slice(bytes);
        word.store(u64::from_le_bytes(all), Ordering::SeqCst);
    }

    fn set_table(&mut self, entry: u16, address: RunAddr) {
        self.memory.long(u64::from(entry) * 8).store(address.0, Ordering::SeqCst);
    }
}
