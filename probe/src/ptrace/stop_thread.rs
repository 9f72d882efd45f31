//! Stops one thread.
//!
//! A thread also stops at its exit (`PTRACE_O_TRACEEXIT`); its registers are recorded, and it is resumed.
//! Other threads may wait in the kernel for that exit, where they cannot be stopped: a thread that
//! executes another program waits for the exit of all others. Therefore, while one thread is waited
//! for, threads at their exit are resumed.

use std::collections::BTreeSet;

use nix::errno::Errno;
use nix::sys::ptrace;
use nix::sys::signal::Signal;
use nix::sys::wait::WaitPidFlag;
use nix::unistd::Pid;

use super::proc::threads;
use super::wait::{OPTIONS, is_at_exit, resume, wait_unless_dead_and};
use super::{Child, Process, PtraceError, Status, StopState, wait};

/// Result of stopping a thread.
pub(super) enum StopOutcome {
    /// The thread is stopped.
    Stopped(StopState),
    /// The thread has ended, or its process has executed another program.
    Event(Status),
    /// The thread has ended; its status is reported elsewhere.
    Ended,
}

impl Process {
    /// Stops a thread, and traces it if it is not traced yet. Children that it forks meanwhile are
    /// added to [`Process::forked`]. `others`: threads of other processes that share the memory.
    ///
    /// # Errors
    /// [`PtraceError`] if the thread cannot be traced or stopped.
    pub(super) fn stop_thread(
        &mut self,
        thread: Pid,
        others: &BTreeSet<Pid>,
    ) -> Result<StopOutcome, PtraceError> {
        match ptrace::seize(thread, OPTIONS) {
            // Traced already, by this process: no other process can have attached to one of its
            // threads.
            Ok(()) | Err(Errno::EPERM) => {}
            Err(Errno::ESRCH) => return Ok(StopOutcome::Ended),
            Err(error) => return Err(PtraceError::new(thread, "trace it")(error)),
        }
        match ptrace::interrupt(thread) {
            Err(Errno::ESRCH) => return Ok(StopOutcome::Ended),
            other => other.map_err(PtraceError::new(thread, "stop it"))?,
        }
        loop {
            match wait_unless_dead_and(thread, || self.let_exit(thread, others)) {
                Ok(None) => return Ok(StopOutcome::Ended),
                Ok(Some(status @ Status::Event(_, _, libc::PTRACE_EVENT_EXEC))) => {
                    return Ok(StopOutcome::Event(status));
                }
                Ok(Some(Status::Event(_, signal, libc::PTRACE_EVENT_STOP))) => {
                    let is_interrupt = signal == Signal::SIGTRAP;
                    let state =
                        if is_interrupt { StopState::AtInstruction } else { StopState::GroupStop };
                    return Ok(StopOutcome::Stopped(state));
                }
                Ok(Some(Status::Event(_, _, libc::PTRACE_EVENT_EXIT))) => {
                    self.note_last_registers(thread);
                    resume(thread, None)?;
                }
                Ok(Some(Status::Event(_, _, event))) => {
                    self.forked.extend(Child::from_event(thread, event)?);
                    match event {
                        // The thread is blocked by its child, which is at its first stop.
                        libc::PTRACE_EVENT_VFORK => {
                            return Ok(StopOutcome::Stopped(StopState::InSyscall));
                        }
                        _ => continue_to_stop(thread)?,
                    }
                }
                Ok(Some(Status::Stopped(_, signal))) => {
                    return Ok(StopOutcome::Stopped(StopState::PendingSignal(signal)));
                }
                Ok(Some(status @ (Status::Exited(..) | Status::Signaled(..)))) => {
                    return Ok(StopOutcome::Event(status));
                }
                Err(Errno::ECHILD | Errno::ESRCH) => return Ok(StopOutcome::Ended),
                Err(Errno::EINTR) => {}
                Err(error) => return Err(PtraceError::new(thread, "wait")(error)),
                Ok(Some(_)) => continue_to_stop(thread)?,
            }
        }
    }

    /// Resumes other threads that are at their exit.
    fn let_exit(&mut self, beside: Pid, others: &BTreeSet<Pid>) {
        let all = threads(self.pid).unwrap_or_default();
        for thread in all.union(others).filter(|thread| **thread != beside && is_at_exit(**thread))
        {
            // The thread stays at that stop until it is resumed or killed.
            let _ = wait(Some(*thread), WaitPidFlag::__WALL | WaitPidFlag::WNOHANG);
            self.note_last_registers(*thread);
            let _ = resume(*thread, None);
        }
    }

    fn note_last_registers(&mut self, thread: Pid) {
        if let Ok(registers) = self.thread_at_event(thread).registers() {
            self.last_registers.push((thread, registers));
        }
    }
}

/// Resumes a thread that has stopped for another reason than the requested one. That stop has
/// cancelled the request (Linux, `ptrace_stop`), which is made again.
fn continue_to_stop(thread: Pid) -> Result<(), PtraceError> {
    match ptrace::interrupt(thread) {
        Ok(()) | Err(Errno::ESRCH) => resume(thread, None),
        Err(error) => Err(PtraceError::new(thread, "stop it")(error)),
    }
}
