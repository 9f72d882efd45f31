//! Stops threads at chosen functions until the controller has handled their arrival.
//!
//! A breakpoint is a stub in which a thread waits for a word in the shared memory
//! ([`crate::stubs::breakpoint`]). The controller checks that word in each iteration of its event
//! loop, handles the breakpoint while all threads are stopped, and lets the thread continue.
//!
//! Invariant: the program makes no system call and receives no signal for a breakpoint, and
//! continues after a time limit even if the controller is killed. A thread that continued without
//! being handled is reported in a notice.

use std::ops::Range;

use hmtt_files::tag_log::FunctionId;

use super::loaded::LoadedFile;
use super::patch::{self, PatchedFunction, Plan};
use super::refused::Refused;
use super::shared::Shared;
use super::stub_rows::StubRows;
use super::{Notice, PatchedCode, RefusalReason, TagError, Tagged, Tags, areas, linker};
use crate::address::RunAddr;
use crate::disassembly::{Granularity, Refusal};
use crate::elf::Function;
use crate::ptrace::Stopped;
use crate::stubs::Sink;

/// Purpose of a breakpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    /// The program has reached `main`, or its entry point if nothing can be changed at `main`.
    Main,
    /// The dynamic linker has loaded or unloaded a file.
    Linker,
    /// An unwinder looks a stub up ([`super::unwind`]). No thread waits there.
    Unwinder,
}

/// A function that is watched.
#[derive(Clone, Debug)]
pub(super) struct Breakpoint {
    pub purpose: Purpose,
    pub patched: PatchedFunction,
    pub stubs: Range<RunAddr>,
    described: StubRows,
    /// Unused memory behind the stubs.
    free: Range<RunAddr>,
}

impl Breakpoint {
    /// Generates the stub of a breakpoint at a function of a process whose threads are all stopped.
    ///
    /// # Errors
    /// [`TagError::NoBreakpoint`] if there is no space for a jump at its entry.
    pub fn new(
        process: &mut Stopped<'_>,
        shared: &Shared,
        loaded: &LoadedFile,
        function: &Function,
        purpose: Purpose,
    ) -> Result<Breakpoint, TagError> {
        let chosen =
            |one: &Function| (one.start == function.start).then_some(Granularity::Function);
        let plan = patch::plan(loaded, chosen, Sink::Breakpoint { shared: shared.start });
        Breakpoint::with(process, shared, loaded, function, plan, purpose)
    }

    /// Generates the stub of a breakpoint from a plan that changes one function.
    pub fn with(
        process: &mut Stopped<'_>,
        shared: &Shared,
        loaded: &LoadedFile,
        function: &Function,
        plan: Plan,
        purpose: Purpose,
    ) -> Result<Breakpoint, TagError> {
        let no_breakpoint = |refused: Option<&Refused>| {
            let reason = refused.map(|refused| refused.reason.clone());
            let reason = reason.unwrap_or(RefusalReason::Code(Refusal::NoInstructions));
            TagError::NoBreakpoint { name: function.name.clone(), reason }
        };
        // No memory is mapped for a function that cannot be changed.
        if plan.is_empty() {
            return Err(no_breakpoint(plan.refused().first()));
        }
        let stubs = areas::reserve(process, shared, loaded, plan.stub_bytes())?;
        let patch::GeneratedStubs { patched, refused, code, described } =
            plan.stubs(stubs.start, FunctionId(0), loaded)?;
        let Some(patched) = patched.into_iter().next() else {
            return Err(no_breakpoint(refused.first()));
        };
        process.write(stubs.start, &code)?;
        let free = stubs.start + code.len() as u64..stubs.end - areas::COOKIE_BYTES;
        Ok(Breakpoint { purpose, patched, stubs, described, free })
    }
}

impl Tags {
    /// Inserts the jump of a breakpoint.
    pub(super) fn set_breakpoint(
        &mut self,
        process: &mut Stopped<'_>,
        breakpoint: Breakpoint,
        loaded: &LoadedFile,
    ) -> Result<(), TagError> {
        self.add_unwind_table(process, &breakpoint.described, loaded)?;
        let patched = std::slice::from_ref(&breakpoint.patched);
        self.collector.shared().record(&patch::overwritten(patched))?;
        let patched = breakpoint.patched.clone();
        let code = &mut self.code;
        code.add_list(process, breakpoint.free.clone(), patched.entries().collect())?;
        code.restart_handler_returns(process)?;
        code.record_jumps(std::slice::from_ref(&patched));
        code.breakpoints.push(breakpoint);
        patch::tag(process, std::slice::from_ref(&patched))
    }

    /// Handles the breakpoints at which threads wait; all threads are stopped.
    pub(super) fn serve_breakpoints(&mut self, process: &mut Stopped<'_>) -> Result<(), TagError> {
        let Some(number) = self.collector.shared().unanswered_wait() else { return Ok(()) };
        let breakpoints = &self.code.breakpoints;
        let main = breakpoints.iter().position(|breakpoint| breakpoint.purpose == Purpose::Main);
        if let Some(main) = main {
            // A signal handler that has interrupted the thread in the breakpoint must return first.
            if !is_any_thread_in(process, &breakpoints[main].stubs)?
                && !self.collector.shared().has_given_up()
            {
                return Ok(());
            }
            self.code.remove_main_breakpoint(process, main)?;
            self.insert(process)?;
        } else if !linker::is_changing(process)? {
            self.tag_libraries(process)?;
        }
        if self.collector.shared().answer(number) {
            self.notices.push(Notice::WaitGivenUp(process.pid));
        }
        Ok(())
    }
}

impl Tagged {
    /// Whether threads may wait at a breakpoint. Raises the liveness counter that they watch.
    pub(super) fn watches_breakpoints(&self) -> bool {
        let stops = |breakpoint: &Breakpoint| breakpoint.purpose != Purpose::Unwinder;
        let watches = !self.is_untagged() && self.tags.code.breakpoints.iter().any(stops);
        if watches {
            self.tags.collector.shared().raise_liveness();
        }
        watches
    }

    /// Whether a thread waits at a breakpoint, or has stopped waiting.
    pub(super) fn has_waiting_thread(&self) -> bool {
        !self.is_untagged() && self.tags.collector.shared().unanswered_wait().is_some()
    }
}

impl PatchedCode {
    /// Removes the breakpoint at `main`. Its thread is before the first instruction of `main`
    /// again.
    fn remove_main_breakpoint(
        &mut self,
        process: &Stopped<'_>,
        main: usize,
    ) -> Result<(), TagError> {
        let Breakpoint { patched, stubs, .. } = self.breakpoints[main].clone();
        patch::restore(process, std::slice::from_ref(&patched))?;
        self.move_out_of_stubs(process, |rip| stubs.contains(&rip))?;
        self.breakpoints.remove(main);
        self.areas.push(stubs);
        Ok(())
    }
}

fn is_any_thread_in(process: &Stopped<'_>, stubs: &Range<RunAddr>) -> Result<bool, TagError> {
    for thread in process.threads.keys() {
        if stubs.contains(&RunAddr(process.registers(*thread)?.rip)) {
            return Ok(true);
        }
    }
    Ok(false)
}
