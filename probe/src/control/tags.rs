//! Applies operations to all tags of a process. The process itself is passed to each operation.

use super::removal::{self, RemainingMemory};
use super::{TagError, Tags};
use crate::address::RunAddr;
use crate::ptrace::{Stopped, StoppedThread};

impl Tags {
    /// Gives a stopped thread the register values that its tags need.
    pub fn add_thread(&mut self, thread: StoppedThread<'_>) -> Result<(), TagError> {
        self.collector.add_thread(thread)
    }

    /// Removes all jumps, and moves threads out of the stubs as far as possible. Returns the
    /// addresses where the program has overwritten a jump.
    pub fn restore_code(&mut self, process: &mut Stopped<'_>) -> Result<Vec<RunAddr>, TagError> {
        self.code.restore(process, self.collector.shared())
    }

    /// Unmaps the memory of tags whose jumps are removed. Returns the memory that remains.
    pub fn unmap_memory(&self, process: &mut Stopped<'_>) -> Result<RemainingMemory, TagError> {
        if self.unwinding.is_in_use(process)? {
            return Ok(RemainingMemory::InUse);
        }
        removal::unmap(process, &self.code.areas, &[self.collector.memory()])
    }

    /// Records jumps that the program has overwritten, with the names of their functions.
    pub fn record_overwritten(&mut self, addresses: Vec<RunAddr>) {
        let named = addresses.into_iter().map(|address| (self.code.name_of_edit(address), address));
        self.overwritten.extend(named);
    }
}
