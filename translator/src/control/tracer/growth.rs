//! Maps areas and arenas in the process when they are needed. A thread that is stopped for another
//! reason makes the system calls.

use std::collections::VecDeque;

use hmtt_probe::ptrace::{Process, PtraceError, Status, StopState, Stopped, interrupt, mappings};
use nix::unistd::Pid;

use super::super::error::ControlError;
use super::super::growth::has_ended;
use super::Tracer;

/// Lets a stopped thread, which is not stopped at a signal, make system calls for the controller.
/// Other threads continue. `pending`: receives events that the thread reports meanwhile. If the
/// process is stopped by job control meanwhile, the thread stops again when it is resumed.
pub(super) fn with_thread<T>(
    process: &mut Process,
    pending: &mut VecDeque<Status>,
    thread: Pid,
    action: impl FnOnce(&mut Stopped<'_>) -> Result<T, ControlError>,
) -> Result<T, ControlError> {
    let others = std::mem::take(&mut process.threads);
    process.threads.insert(thread, StopState::AtInstruction);
    let result = match process.stopped() {
        Ok(mut stopped) => action(&mut stopped),
        Err(error) => Err(error.into()),
    };
    let state = process.threads.remove(&thread);
    if state == Some(StopState::GroupStop) {
        // This fails if the thread has ended.
        let _ = interrupt(thread);
    }
    let signal = state.and_then(StopState::signal);
    pending.extend(signal.map(|signal| Status::Stopped(thread, signal)));
    pending.extend(process.queued_events.drain(..));
    process.threads = others;
    match result {
        Err(error) if has_ended(&error) => Err(PtraceError::Ended(process.pid).into()),
        result => result,
    }
}

impl Tracer {
    /// Maps an arena if the cache needs one. If that is not possible, code without space in the
    /// cache runs natively.
    pub(super) fn map_arena(&mut self, thread: Pid) -> Result<(), ControlError> {
        let Some(near) = self.shared.translation().take_wanted() else { return Ok(()) };
        let mapped = mappings(self.process.pid)?;
        let Some(next) = self.shared.translation().next_arena(&mapped, near) else { return Ok(()) };
        let file = self.mapped.code_file;
        let result = with_thread(&mut self.process, &mut self.pending, thread, |process| {
            Ok(file.map_copy(process, next)?)
        });
        match result {
            Ok(()) => {
                self.mapped.code.push((next.at, next.bytes));
                self.shared.translation().add_arena(next);
                Ok(())
            }
            Err(error) if has_ended(&error) => Err(error),
            Err(_) => Ok(()),
        }
    }

    /// Whether an area is mapped. If not, tries to map the next area, by the stopped thread, if it
    /// `can_call`.
    pub(super) fn is_area_mapped(&mut self, number: usize, thread: Pid, can_call: bool) -> bool {
        let Tracer { mapped, process, pending, .. } = self;
        if number >= mapped.areas.count() && can_call {
            // If that fails, the thread runs natively, which is counted.
            let _ = with_thread(process, pending, thread, |process| mapped.areas.map_next(process));
        }
        number < mapped.areas.count()
    }
}
