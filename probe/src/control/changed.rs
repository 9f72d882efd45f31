//! A function whose stubs are made.

use crate::disassembly::Rewrite;
use crate::elf::Function;
use crate::stubs::Changes;

/// A function whose stubs are made.
pub(super) struct Changed {
    pub function: Function,
    pub number: u32,
    pub rewrite: Rewrite,
    pub changes: Changes,
}

impl Changed {
    /// How many numbers it takes: its own and those of its blocks that are seen.
    pub fn numbers(&self) -> u32 {
        let seen = self.rewrite.blocks.iter().filter(|block| block.refusal.is_none());
        1 + seen.count() as u32
    }
}
