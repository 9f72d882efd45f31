//! Detaches from a process, so that it continues natively.

use std::collections::BTreeSet;

use hmtt_probe::ptrace::{
    MayStay, PtraceError, SignalNumber, Status, StopState, interrupt, resume,
};
use nix::unistd::Pid;

use super::super::error::ControlError;
use super::thread::Thread;
use super::{Tracer, unless_ended};

/// Result of leaving a process.
pub enum Left {
    /// The process continues natively. These threads did not stop; they are traced until they stop
    /// or the controller ends.
    Detached(BTreeSet<Pid>),
    /// The process has ended or has executed another program, which the kernel reports later.
    /// Contains the events that were received meanwhile.
    Ending(Vec<Status>),
}

impl Tracer {
    /// Stops all threads, moves them out of the cache, unmaps the shared memory and detaches.
    /// Children that were started meanwhile are in [`Process::forked`], at their first stop.
    ///
    /// A thread that executes original code and is blocked in a system call need not stop. An
    /// example is vfork(2), which waits for a child that shares the memory. If signals to the
    /// controller end its wait for other threads, these threads are left in the state in which a
    /// killed controller leaves them.
    ///
    /// # Errors
    /// [`ControlError`] if threads cannot be stopped. Threads in the cache stay there.
    pub fn leave(&mut self) -> Result<Left, ControlError> {
        self.process.queued_events.extend(self.pending.drain(..));
        let mut stopped = std::mem::take(&mut self.process.threads);
        stopped.extend(self.take_waiting());
        let is_in_call = |one: &Thread| one.is_native && one.call.is_some();
        let blockable = self.threads.iter().filter(|(_, one)| is_in_call(one));
        self.process.may_stay = MayStay::Any(blockable.map(|(thread, _)| *thread).collect());
        let stopped = self.process.stop_beside(stopped).map(drop);
        self.end_deferrals()?;
        let is_over = match stopped.and_then(|()| self.finish_call()) {
            Ok(()) | Err(PtraceError::Unstopped(_)) => false,
            Err(PtraceError::Ended(_)) => true,
            Err(error) => return Err(error.into()),
        };
        for (thread, registers) in std::mem::take(&mut self.process.last_registers) {
            self.finish_last(thread, &registers);
        }
        let queued = std::mem::take(&mut self.process.queued_events);
        if is_over {
            return Ok(Left::Ending(queued));
        }
        let states: Vec<(Pid, StopState)> =
            self.process.threads.iter().map(|(thread, state)| (*thread, *state)).collect();
        for (thread, state) in states {
            unless_ended(self.leave_thread(thread, state))?;
        }
        let unstopped = std::mem::take(&mut self.process.unstopped);
        if !self.leave_unstopped(&unstopped) {
            self.unmap();
        }
        self.process.detach_threads()?;
        let rest: Vec<Pid> = self.threads.keys().copied().collect();
        rest.into_iter().for_each(|thread| self.finish_ring(thread, None));
        Ok(Left::Detached(unstopped))
    }

    /// Stops following the threads that did not stop. Returns whether one of them may be in the
    /// cache.
    fn leave_unstopped(&mut self, unstopped: &BTreeSet<Pid>) -> bool {
        let mut uses_cache = false;
        for thread in unstopped {
            let state = self.threads.get(thread);
            let pointer = state.filter(|one| one.is_native).map(|one| one.pointer);
            uses_cache |= state.is_some_and(|one| !one.is_native);
            self.add_processor_time(*thread);
            self.finish_ring(*thread, pointer);
        }
        uses_cache
    }

    /// Makes sure that some thread can make system calls to unmap the shared memory. If all threads
    /// are at the start or end of a system call, or within one, one of them continues until its
    /// call returns or is interrupted.
    fn finish_call(&mut self) -> Result<(), PtraceError> {
        let is_at_call = |state: &StopState| state.signal() == Some(SignalNumber::SYSTEM_CALL);
        let threads = &self.process.threads;
        let can_call =
            threads.values().any(|state| *state != StopState::InSyscall && !is_at_call(state));
        let at_call = threads.iter().find(|(_, state)| is_at_call(state));
        let Some(thread) = at_call.map(|(thread, _)| *thread).filter(|_| !can_call) else {
            return Ok(());
        };
        self.process.threads.remove(&thread);
        interrupt(thread)?;
        resume(thread, None)?;
        self.process.stop_others().map(drop)
    }

    /// Moves a stopped thread out of the cache.
    fn leave_thread(&mut self, thread: Pid, state: StopState) -> Result<(), ControlError> {
        // [`SignalNumber::SYSTEM_CALL`] is no signal: the thread is stopped at a system call.
        if state.signal() == Some(SignalNumber::SYSTEM_CALL) {
            self.process.threads.insert(thread, StopState::InSyscall);
        }
        let pointer = match self.original_registers(thread)? {
            Some((now, original)) => {
                self.become_native(thread, &now, original)?;
                self.threads.get(&thread).map(|one| one.pointer)
            }
            None => {
                let native = self.threads.get(&thread).filter(|one| one.is_native);
                native.map(|one| one.pointer)
            }
        };
        self.add_processor_time(thread);
        self.finish_ring(thread, pointer);
        let at_event = self.process.thread_at_event(thread);
        let mut registers = at_event.registers()?;
        registers.gs_base = 0;
        Ok(at_event.set_registers(registers)?)
    }

    /// Unmaps the shared memory, if a thread can make system calls. Memory that cannot be unmapped
    /// stays, unused.
    fn unmap(&mut self) {
        if let Ok(mut stopped) = self.process.stopped()
            && stopped.enter_handlers(|_| false).is_ok()
        {
            self.mapped.unmap(&mut stopped);
        }
    }
}
