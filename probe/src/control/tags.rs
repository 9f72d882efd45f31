//! Operations on all tags of a process. The process itself is passed to each of them.

use nix::unistd::Pid;

use super::removal::{self, RemainingMemory};
use super::{TagError, Tags};
use crate::address::RunAddr;
use crate::ptrace::Process;

impl Tags {
    /// Gives a stopped thread the registers that its tags need.
    pub fn add_thread(&mut self, process: &Process, thread: Pid) -> Result<(), TagError> {
        self.collector.add_thread(process, thread)
    }

    /// Removes all jumps, and moves threads out of the stubs as far as possible. All threads must be stopped. Returns
    /// the addresses at which the program has written something else.
    pub fn restore_code(&mut self, process: &mut Process) -> Result<Vec<RunAddr>, TagError> {
        self.code.restore(process, self.collector.shared())
    }

    /// Unmaps the memory of tags whose jumps are removed. Returns the memory that remains.
    pub fn unmap_memory(&self, process: &mut Process) -> Result<RemainingMemory, TagError> {
        if self.unwinding.is_in_use(process)? {
            return Ok(RemainingMemory::InUse);
        }
        removal::unmap(process, &self.code.areas, &[self.collector.memory()])
    }

    /// Records jumps that the program has overwritten.
    pub fn record_overwritten(&mut self, addresses: Vec<RunAddr>) {
        let named = addresses.into_iter().map(|address| (self.code.name_of_edit(address), address));
        self.overwritten.extend(named);
    }
}
