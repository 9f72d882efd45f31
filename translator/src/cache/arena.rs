//! Keeps track of the free space in arenas of a cache, and of the sections of code in them.
//!
//! ```text
//! base   stubs | code, upwards | free | cold code and islands, downwards   limit
//! ```

use std::collections::HashMap;

use hmtt_probe::address::RunAddr;

use super::{Arena, ArenaNumber, CacheMemory, Settings, Side};
use crate::emit::{Emitted, Form, Surroundings};
use crate::stubs::Stubs;

/// Maximum number of bytes between any byte of an arena and original code that is translated into
/// it. The rest of the 2 GiB that displacements reach is for operands relative to `rip`.
const REACH: u64 = 0x7800_0000;
/// Bytes of an island: `jmp [rip]` and an address, aligned.
const ISLAND_BYTES: u64 = 16;

/// An arena with its free space.
#[derive(Debug)]
pub struct Space {
    /// Number of the arena.
    pub number: ArenaNumber,
    /// Its address and size in the process.
    pub arena: Arena,
    /// Addresses of its stubs and of the lookup table.
    pub around: Surroundings,
    /// First free address, after the hot code.
    pub hot: u64,
    /// Address after the last free one, where cold code and islands begin.
    pub cold: u64,
    /// Addresses of islands, by the address to which each leads.
    islands: HashMap<u64, u64>,
    /// Where hot sections start in ascending order, and cold sections in descending order.
    hot_starts: Vec<Start>,
    cold_starts: Vec<Start>,
}

/// What a part of an arena contains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Contents {
    /// The stubs.
    Stubs,
    /// Free space.
    Free,
    /// A jump to code that is too far away for a direct jump.
    Island,
    /// Code of a block or path, by its number.
    Code {
        /// The number.
        number: u32,
        /// Which of its sections.
        side: Side,
    },
}

/// The start of a section of generated code.
#[derive(Clone, Copy, Debug)]
pub struct Start {
    /// First address of the section.
    pub address: u64,
    /// Number of the block or path.
    pub block: u32,
    /// Form of the code.
    pub form: Form,
}

impl Space {
    /// Writes the stubs to the start of a new arena. `None` if the arena is too small.
    pub fn new(
        number: ArenaNumber,
        arena: Arena,
        stubs: &Stubs,
        settings: &Settings,
        memory: &mut impl CacheMemory,
    ) -> Option<Self> {
        let base = arena.base.0;
        let limit = base.checked_add(u64::from(arena.bytes))? & !15;
        let hot = base + u64::from(stubs.section.len());
        if hot >= limit {
            return None;
        }
        memory.write(number, 0, &stubs.section.bytes);
        let around = Surroundings {
            ring: settings.instrument.has_ring(),
            accesses: settings.instrument.choice(),
            table: settings.table,
            miss: base + u64::from(stubs.miss),
            indirect: base + u64::from(stubs.indirect),
            full: base + u64::from(stubs.full),
            returned: base + u64::from(stubs.returned),
        };
        let (islands, hot_starts, cold_starts) = Default::default();
        Some(Space { number, arena, around, hot, cold: limit, islands, hot_starts, cold_starts })
    }

    /// Whether more than one `part`-th of its bytes is in use: more than half for 2.
    pub fn is_full_by(&self, part: u64) -> bool {
        let bytes = u64::from(self.arena.bytes);
        self.cold.saturating_sub(self.hot) < bytes - bytes / part
    }

    /// Whether it contains an address.
    pub fn contains(&self, address: u64) -> bool {
        address.wrapping_sub(self.arena.base.0) < u64::from(self.arena.bytes)
    }

    /// Whether all generated code in it reaches original code at an address, and its operands.
    pub fn reaches(&self, address: RunAddr) -> bool {
        let base = self.arena.base.0;
        let end = base.saturating_add(u64::from(self.arena.bytes));
        base.abs_diff(address.0) < REACH && end.abs_diff(address.0) < REACH
    }

    /// Offset of an address of the arena.
    pub fn offset(&self, address: u64) -> u32 {
        (address - self.arena.base.0) as u32
    }

    /// Writes generated code to the free space for which it was generated. Returns `false`, and
    /// writes nothing, if there is too little space.
    pub fn write(&mut self, emitted: &Emitted, memory: &mut impl CacheMemory) -> bool {
        let hot_end = emitted.hot.here();
        // One island stays possible for each exit, so that every link can be made.
        let reserve = ISLAND_BYTES * (emitted.exits.len() as u64 + 1);
        if hot_end.saturating_add(reserve) > emitted.cold.base {
            return false;
        }
        memory.write(self.number, self.offset(emitted.cold.base), &emitted.cold.bytes);
        memory.write(self.number, self.offset(emitted.hot.base), &emitted.hot.bytes);
        (self.hot, self.cold) = (hot_end, emitted.cold.base);
        true
    }

    /// Notes the sections of the code that was written last. `block`: number of the block or path.
    pub fn note_sections(&mut self, block: u32, form: Form, emitted: &Emitted) {
        let start = |address| Start { address, block, form };
        self.hot_starts.push(start(emitted.hot.base));
        // An empty section would have the address of the section before it.
        if emitted.cold.len() > 0 {
            self.cold_starts.push(start(emitted.cold.base));
        }
    }

    /// All parts of the arena in ascending order: where each starts, and what it contains.
    pub fn contents(&self) -> Vec<(u64, Contents)> {
        let code = |side| {
            move |start: &Start| (start.address, Contents::Code { number: start.block, side })
        };
        let ends = [(self.arena.base.0, Contents::Stubs), (self.hot, Contents::Free)];
        let mut contents = ends.to_vec();
        contents.extend(self.hot_starts.iter().map(code(Side::Hot)));
        contents.extend(self.cold_starts.iter().map(code(Side::Cold)));
        contents.extend(self.islands.values().map(|island| (*island, Contents::Island)));
        contents.sort_unstable_by_key(|(start, _)| *start);
        contents
    }

    /// The section that contains an address: the last one that starts at or before it.
    pub fn section_at(&self, address: u64) -> Option<(Start, Side)> {
        if address < self.hot {
            let after = self.hot_starts.partition_point(|start| start.address <= address);
            return Some((*self.hot_starts[..after].last()?, Side::Hot));
        }
        let index = self.cold_starts.partition_point(|start| start.address > address);
        Some((*self.cold_starts.get(index)?, Side::Cold))
    }

    /// Returns the displacement with which a jump leads to an address, directly or through an
    /// island. If an island is added for that, its address is returned, too. `from`: address of the
    /// displacement. `None` if there is no space for an island.
    ///
    /// A jump reaches 2 GiB. For a target 3 GiB away, an island in the arena has `jmp [rip]` and
    /// the address.
    pub fn displacement(
        &mut self,
        from: u64,
        target: u64,
        memory: &mut impl CacheMemory,
    ) -> Option<(i32, Option<u64>)> {
        let distance = |to: u64| i32::try_from(to.wrapping_sub(from + 4) as i64).ok();
        if let Some(displacement) = distance(target) {
            return Some((displacement, None));
        }
        if let Some(island) = self.islands.get(&target) {
            return Some((distance(*island)?, None));
        }
        let island = self.cold.checked_sub(ISLAND_BYTES)? & !15;
        if island < self.hot {
            return None;
        }
        let mut code = [0xff, 0x25, 0, 0, 0, 0].to_vec();
        code.extend(target.to_le_bytes());
        memory.write(self.number, self.offset(island), &code);
        self.cold = island;
        self.islands.insert(target, island);
        Some((distance(island)?, Some(island)))
    }
}
