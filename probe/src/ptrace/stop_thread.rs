//! Stops one thread.
//!
//! A thread also stops at its exit (`PTRACE_O_TRACEEXIT`); its registers are recorded, and it is
//! resumed. Other threads may wait in the kernel for that exit, where they cannot be stopped: a
//! thread that executes another program waits for the exit of all others. Therefore, while one
//! thread is waited for, threads at their exit are resumed.

use std::collections::BTreeSet;
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::ptrace;
use nix::sys::wait::WaitPidFlag;
use nix::unistd::Pid;

use super::interrupted_call::{continue_call, is_to_stop_again};
use super::proc::threads;
use super::wait::{OPTIONS, Waited, is_at_exit, resume, state, wait_for_stop_and};
use super::{Child, Process, PtraceError, Status, StopState, wait};

/// How long a thread is waited for that a child may block.
const BLOCKED: Duration = Duration::from_millis(300);
/// State of a thread that no signal interrupts (proc(5), `stat`).
const UNINTERRUPTIBLE: u8 = b'D';

/// Which threads may be left unstopped.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum MayStay {
    /// None: a thread that does not stop is an error.
    #[default]
    None,
    /// Any, if signals end the wait for it. These threads are waited for only a moment if they are
    /// blocked: they are in system calls, and execute code that stays.
    Any(BTreeSet<Pid>),
}

/// Result of stopping a thread.
pub(super) enum StopOutcome {
    /// The thread is stopped.
    Stopped(StopState),
    /// The thread has ended, or its process has executed another program.
    Event(Status),
    /// The thread has ended; its status is reported elsewhere.
    Ended,
    /// The thread does not stop, and is not waited for any longer.
    Unstopped,
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
            let waited = wait_for_stop_and(thread, |waited| {
                self.let_exit(thread, others);
                self.is_blocked(thread, waited)
            });
            let status = match waited {
                Ok(Waited::Status(status)) => status,
                Ok(Waited::Dead) | Err(Errno::ECHILD | Errno::ESRCH) => {
                    return Ok(StopOutcome::Ended);
                }
                Ok(Waited::Unstopped) => return Ok(StopOutcome::Unstopped),
                Err(Errno::EINTR) => continue,
                Err(error) => return Err(PtraceError::new(thread, "wait")(error)),
            };
            continue_call(status)?;
            match status {
                Status::Event(_, _, libc::PTRACE_EVENT_EXEC) => {
                    return Ok(StopOutcome::Event(status));
                }
                Status::Event(_, _, libc::PTRACE_EVENT_STOP) => {
                    return Ok(StopOutcome::Stopped(StopState::reported(status)));
                }
                Status::Event(_, _, libc::PTRACE_EVENT_EXIT) => {
                    self.note_last_registers(thread);
                    resume(thread, None)?;
                }
                Status::Event(_, _, event) => {
                    self.forked.extend(Child::from_event(thread, event)?);
                    match event {
                        // The thread is blocked by its child, which is at its first stop.
                        libc::PTRACE_EVENT_VFORK => {
                            return Ok(StopOutcome::Stopped(StopState::InSyscall));
                        }
                        _ => continue_to_stop(thread)?,
                    }
                }
                // The system call goes on at the stop that is requested here.
                status if is_to_stop_again(status) => continue_to_stop(thread)?,
                Status::Stopped(..) => {
                    return Ok(StopOutcome::Stopped(StopState::reported(status)));
                }
                Status::Exited(..) | Status::Signaled(..) => {
                    return Ok(StopOutcome::Event(status));
                }
                Status::Continued | Status::StillAlive => continue_to_stop(thread)?,
            }
        }
    }

    /// Whether a thread that has been waited for so long is left, because a child may block it.
    fn is_blocked(&self, thread: Pid, waited: Duration) -> bool {
        let MayStay::Any(blockable) = &self.may_stay else { return false };
        waited >= BLOCKED && blockable.contains(&thread) && state(thread) == Some(UNINTERRUPTIBLE)
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
/// cancelled the request (Linux, `ptrace_stop`), which is made again. Ignored if the thread has
/// ended.
///
/// # Errors
/// [`PtraceError::System`] if the kernel refuses.
pub fn continue_to_stop(thread: Pid) -> Result<(), PtraceError> {
    match ptrace::interrupt(thread) {
        Ok(()) | Err(Errno::ESRCH) => resume(thread, None),
        Err(error) => Err(PtraceError::new(thread, "stop it")(error)),
    }
}
