//! One thread that runs to one that is stopped.
//!
//! A thread stops where it ends, too (`PTRACE_O_TRACEEXIT`), and is let end: only what its `gs` holds is kept. Others
//! may wait for that in the kernel, where nothing stops them: a thread that becomes another program waits for the end
//! of all others. So while one thread is waited for, the others are let end.

use std::collections::BTreeSet;

use nix::errno::Errno;
use nix::sys::ptrace;
use nix::sys::signal::Signal;
use nix::sys::wait::WaitPidFlag;
use nix::unistd::Pid;

use super::proc::threads;
use super::wait::{OPTIONS, go_on, is_at_exit, wait_unless_dead_and};
use super::{Child, Process, PtraceError, Standing, Status, wait};

/// What has become of a thread that was to be stopped.
pub(super) enum Stopped {
    Stands(Standing),
    /// It has ended, or its process has become another program.
    Heard(Status),
    /// It has ended, which is heard elsewhere.
    Ended,
}

impl Process {
    /// Stops a thread, which is traced from here on if it was not. Children that it forks meanwhile are added to
    /// [`Process::forked`]. `others`: threads of other processes with the same memory.
    pub(super) fn stand_still(
        &mut self,
        thread: Pid,
        others: &BTreeSet<Pid>,
    ) -> Result<Stopped, PtraceError> {
        match ptrace::seize(thread, OPTIONS) {
            // Traced already, by us: nobody else can have been before us at the whole process.
            Ok(()) | Err(Errno::EPERM) => {}
            Err(Errno::ESRCH) => return Ok(Stopped::Ended),
            Err(error) => return Err(PtraceError::new(thread, "trace it")(error)),
        }
        match ptrace::interrupt(thread) {
            Err(Errno::ESRCH) => return Ok(Stopped::Ended),
            other => other.map_err(PtraceError::new(thread, "stop it"))?,
        }
        loop {
            match wait_unless_dead_and(thread, || self.let_end(thread, others)) {
                Ok(None) => return Ok(Stopped::Ended),
                Ok(Some(status @ Status::Event(_, _, libc::PTRACE_EVENT_EXEC))) => {
                    return Ok(Stopped::Heard(status));
                }
                Ok(Some(Status::Event(_, signal, libc::PTRACE_EVENT_STOP))) => {
                    let is_ours = signal == Signal::SIGTRAP;
                    let standing = if is_ours { Standing::Free } else { Standing::Halted };
                    return Ok(Stopped::Stands(standing));
                }
                Ok(Some(Status::Event(_, _, libc::PTRACE_EVENT_EXIT))) => {
                    self.note_last_gs(thread);
                    go_on(thread, None)?;
                }
                Ok(Some(Status::Event(_, _, event))) => {
                    self.forked.extend(Child::of(thread, event)?);
                    match event {
                        // It waits for its child, which waits for us.
                        libc::PTRACE_EVENT_VFORK => return Ok(Stopped::Stands(Standing::InCall)),
                        _ => again(thread)?,
                    }
                }
                Ok(Some(Status::Stopped(_, signal))) => {
                    return Ok(Stopped::Stands(Standing::Signal(signal)));
                }
                Ok(Some(status @ (Status::Exited(..) | Status::Signaled(..)))) => {
                    return Ok(Stopped::Heard(status));
                }
                Err(Errno::ECHILD | Errno::ESRCH) => return Ok(Stopped::Ended),
                Err(Errno::EINTR) => {}
                Err(error) => return Err(PtraceError::new(thread, "wait")(error)),
                Ok(Some(_)) => again(thread)?,
            }
        }
    }

    /// Lets other threads end that stand where they do.
    fn let_end(&mut self, beside: Pid, others: &BTreeSet<Pid>) {
        let all = threads(self.pid).unwrap_or_default();
        for thread in all.union(others).filter(|thread| **thread != beside && is_at_exit(**thread))
        {
            // It is at that stop until it is continued or killed.
            let _ = wait(Some(*thread), WaitPidFlag::__WALL | WaitPidFlag::WNOHANG);
            self.note_last_gs(*thread);
            let _ = go_on(*thread, None);
        }
    }

    fn note_last_gs(&mut self, thread: Pid) {
        if let Ok(registers) = self.registers(thread) {
            self.last_gs.push((thread, registers.gs_base));
        }
    }
}

/// Lets a thread go on that has stopped for another reason than that it was to. That has made the kernel forget
/// that it was to stop (Linux, `ptrace_stop`).
fn again(thread: Pid) -> Result<(), PtraceError> {
    match ptrace::interrupt(thread) {
        Ok(()) | Err(Errno::ESRCH) => go_on(thread, None),
        Err(error) => Err(PtraceError::new(thread, "stop it")(error)),
    }
}
