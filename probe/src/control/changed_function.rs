//! Describes a function whose stubs are generated.

use hmtt_files::tag_log::FunctionId;

use crate::disassembly::Rewrite;
use crate::elf::Function;
use crate::stubs::Changes;

/// A function whose stubs are generated.
pub(super) struct ChangedFunction {
    pub function: Function,
    /// Number of the function in events.
    pub id: FunctionId,
    pub rewrite: Rewrite,
    pub changes: Changes,
}

impl ChangedFunction {
    /// Count of numbers that the function takes in events: one for itself and one for each tagged
    /// block.
    pub fn numbers(&self) -> u32 {
        let seen = self.rewrite.blocks.iter().filter(|block| block.refusal.is_none());
        1 + seen.count() as u32
    }
}
