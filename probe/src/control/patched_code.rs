//! Finds functions, stubs and jumps by address in the changed code of a process, and removes all
//! jumps.

use hmtt_files::tag_log::FunctionId;

use super::edits::Edit;
use super::patch::{self, PatchedFunction};
use super::restorers::Restorers;
use super::shared::Shared;
use super::thread_return;
use super::{PatchedCode, TagError};
use crate::address::RunAddr;
use crate::elf::Function;
use crate::ptrace::Stopped;
use crate::stubs::Sink;

impl PatchedCode {
    /// The state before any code is changed.
    pub fn new(sink: Sink) -> Self {
        let (functions, breakpoints, areas, jumps) = Default::default();
        PatchedCode { sink, functions, breakpoints, restorers: Restorers::new(), areas, jumps }
    }

    /// The tagged functions and the functions with breakpoints.
    pub fn all_functions(&self) -> impl Iterator<Item = &PatchedFunction> {
        let breakpoints = self.breakpoints.iter().map(|breakpoint| &breakpoint.patched);
        self.functions.iter().chain(breakpoints)
    }

    /// All edits of the process's code that tags have made.
    pub fn own_edits(&self) -> impl Iterator<Item = &Edit> {
        let jumps = self.all_functions().flat_map(PatchedFunction::edits);
        jumps.chain(self.restorers.edits())
    }

    /// Whether the function that unwinders call is among the tagged functions.
    pub fn looks_up(&self) -> bool {
        self.functions.iter().any(|patched| patched.looks_up)
    }

    /// The function with a number.
    pub fn function(&self, id: FunctionId) -> Option<&PatchedFunction> {
        let at = self.functions.binary_search_by_key(&id, |patched| patched.id).ok()?;
        self.functions.get(at)
    }

    /// Count of numbers that the functions and their blocks take in events.
    pub fn numbers(&self) -> u32 {
        self.functions.iter().map(PatchedFunction::numbers).sum()
    }

    /// Whether an address is in memory that was added for tags.
    pub fn is_tag_memory(&self, address: RunAddr) -> bool {
        let breakpoints = self.breakpoints.iter().map(|breakpoint| &breakpoint.stubs);
        self.areas.iter().chain(breakpoints).any(|area| area.contains(&address))
    }

    /// Whether a signal handler that is called at this address sees the program as it is without
    /// tags. Once signal frames lead to changed restorers, an address of the program may be a jump
    /// whose tag must not run again.
    pub fn is_untouched(&self, address: RunAddr) -> bool {
        !self.is_tag_memory(address) && !self.restorers.has_resumptions
    }

    /// Whether an address is in code that tags share. Threads block signals in most of this code.
    fn is_shared_code(&self, address: RunAddr) -> bool {
        self.is_tag_memory(address)
            && self.stub_at(address).is_none()
            && self.restorers.around(address).is_none()
    }

    /// The function whose stubs contain an address.
    pub fn stub_at(&self, address: RunAddr) -> Option<&PatchedFunction> {
        self.all_functions().find(|function| function.stubs.contains(&address))
    }

    /// The original address for an address in a stub; `None` if the address is no boundary.
    pub fn original(&self, address: RunAddr) -> Option<RunAddr> {
        self.stub_at(address)?.original(address)
    }

    /// Whether a tag has changed the instruction at an address at any time.
    pub fn is_jump(&self, address: RunAddr) -> bool {
        self.jumps.binary_search(&address).is_ok()
    }

    /// Records the addresses of changed instructions.
    pub fn record_jumps(&mut self, patched: &[PatchedFunction]) {
        let edits = patched.iter().flat_map(PatchedFunction::edits);
        self.jumps.extend(edits.map(|edit| edit.address));
        self.jumps.sort_unstable();
        self.jumps.dedup();
    }

    /// Name of the function that a tag has changed at an address; empty if there is none.
    pub fn name_of_edit(&self, address: RunAddr) -> String {
        let has = |function: &&PatchedFunction| {
            function.edits().iter().any(|edit| edit.address == address)
        };
        let function: Option<&Function> =
            self.all_functions().find(has).map(|patched| &patched.function);
        function.map_or_else(String::new, |function| function.name.clone())
    }

    /// Removes all jumps from the process, or from a child that has a copy of it. Returns the
    /// addresses where the program has overwritten a jump.
    pub fn remove_jumps(&self, process: &Stopped<'_>) -> Result<Vec<RunAddr>, TagError> {
        let mut others = patch::restore(process, &self.functions)?;
        for breakpoint in &self.breakpoints {
            others.extend(patch::restore(process, std::slice::from_ref(&breakpoint.patched))?);
        }
        // The restorers are changed back last: until the jumps are removed, signal frames may
        // return to instructions that jumps have overwritten.
        others.extend(self.restorers.remove_jumps(process)?);
        Ok(others)
    }

    /// Removes all jumps, and moves threads out of the stubs as far as possible. Returns the
    /// addresses where the program has overwritten a jump.
    pub fn restore(
        &mut self,
        process: &mut Stopped<'_>,
        shared: &Shared,
    ) -> Result<Vec<RunAddr>, TagError> {
        let others = self.remove_jumps(process)?;
        // A copy of a breakpoint that the program has made must not wait for this controller.
        shared.release_breakpoints();
        process.forget_restorers();
        self.move_out_of_stubs(process, |_| true)?;
        thread_return::return_threads(process, &self.functions.iter().collect::<Vec<_>>())?;
        // A thread that leaves the code shared by tags unblocks its signals and gets the pending
        // ones. It must be in original code by then. A thread with such a signal is not resumed;
        // other threads are resumed only when they are in original code.
        loop {
            let is_outside = process.run_until_outside(|rip| self.is_shared_code(rip))?;
            let has_moved = self.move_out_of_stubs(process, |_| true)?;
            if is_outside || !has_moved {
                break;
            }
        }
        if others.is_empty() {
            self.areas.extend(self.breakpoints.drain(..).map(|breakpoint| breakpoint.stubs));
        }
        Ok(others)
    }
}
