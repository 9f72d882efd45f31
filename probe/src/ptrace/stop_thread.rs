//! Stops one thread.
//!
//! A thread also stops at its exit (`PTRACE_O_TRACEEXIT`); its registers are recorded, and it is
//! resumed. Other threads may wait in the kernel for its exit, where they cannot be stopped: a
//! thread that executes another program waits for the exit of all others. Therefore threads at
//! their exit are resumed while another thread is waited for.

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

/// Time for which a thread is waited for that may be blocked by a child.
const BLOCKED: Duration = Duration::from_millis(300);
/// State of a thread that no signal interrupts (proc(5), `stat`).
const UNINTERRUPTIBLE: u8 = b'D';

/// Threads that may be left unstopped.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum MayStay {
    /// No thread may: a thread that does not stop is an error.
    #[default]
    None,
    /// Any thread may, if signals end the wait for it. The threads in the set may be blocked by a
    /// child: then they are waited for only for a moment. Such threads are in system calls, and
    /// execute code that stays.
    Any(BTreeSet<Pid>),
}

/// Result of stopping a thread.
pub(super) enum StopOutcome {
    /// The thread is stopped.
    Stopped(StopState),
    /// The thread has ended, or its process has executed another program.
    Event(Status),
    /// The thread has ended. Its status is reported by another wait.
    Ended,
    /// The thread does not stop, and is not waited for any longer.
    Unstopped,
}

impl Process {
    /// Stops a thread, and begins to trace it if necessary. Children that the thread forks
    /// meanwhile are added to [`Process::forked`]. `others`: threads of other processes that share
    /// the memory.
    ///
    /// # Errors
    /// [`PtraceError`] if the thread cannot be traced or stopped.
    pub(super) fn stop_thread(
        &mut self,
        thread: Pid,
        others: &BTreeSet<Pid>,
    ) -> Result<StopOutcome, PtraceError> {
        match ptrace::seize(thread, OPTIONS) {
            // This program already traces the thread: another process cannot attach to one thread
            // of a process that this program traces.
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
                // The call continues at the stop that is requested here.
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

    /// Whether a thread is left unstopped after a wait of the time `waited`, because a child may
    /// block it.
    fn is_blocked(&self, thread: Pid, waited: Duration) -> bool {
        let MayStay::Any(blockable) = &self.may_stay else { return false };
        waited >= BLOCKED && blockable.contains(&thread) && state(thread) == Some(UNINTERRUPTIBLE)
    }

    /// Resumes other threads that are at their exit.
    fn let_exit(&mut self, beside: Pid, others: &BTreeSet<Pid>) {
        let thread_set = threads(self.pid).unwrap_or_default();
        for thread in
            thread_set.union(others).filter(|thread| **thread != beside && is_at_exit(**thread))
        {
            // The thread stays at its exit event until it is resumed or killed.
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

/// Resumes a thread that has stopped for another reason than the requested stop, and requests the
/// stop again: the other stop has cancelled the request (Linux, `ptrace_stop`). A thread that has
/// ended is ignored.
///
/// # Errors
/// [`PtraceError::System`] if the kernel refuses.
pub fn continue_to_stop(thread: Pid) -> Result<(), PtraceError> {
    match ptrace::interrupt(thread) {
        Ok(()) | Err(Errno::ESRCH) => resume(thread, None),
        Err(error) => Err(PtraceError::new(thread, "stop it")(error)),
    }
}
