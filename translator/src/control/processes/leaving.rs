//! Lets processes go on natively.

use std::time::{Duration, Instant};

use hmtt_probe::control::Ending;
use hmtt_probe::ptrace::{
    PtraceError, SignalNumber, Status, detach, interrupt, is_waitable, thread_group, wait,
};
use nix::errno::Errno;
use nix::sys::wait::WaitPidFlag;
use nix::unistd::Pid;

use super::super::error::ControlError;
use super::super::tracer::{Left, program};
use super::{Processes, Tracee};

/// Longest time for which a native process is waited for until it stops. It may be blocked by a child.
const PATIENCE: Duration = Duration::from_millis(500);
const PAUSE: Duration = Duration::from_micros(50);

/// The signal that a stopped thread gets when it is resumed.
fn signal(status: Status) -> Option<SignalNumber> {
    match status {
        Status::Stopped(_, signal) if signal != SignalNumber::SYSTEM_CALL => Some(signal),
        _ => None,
    }
}

impl Processes<'_> {
    /// Following a process has failed: it goes on natively, as far as that is possible.
    pub fn fail(&mut self, pid: Pid, error: ControlError) -> Result<(), ControlError> {
        let (path, follow) = (program(pid), self.options.follow);
        if let Some(followed) = self.followed(pid) {
            followed.is_ending = true;
            followed.output.take_if(|_| !follow);
        }
        if follow {
            self.observer.not_followed(pid, &path, &error);
            return self.leave(pid);
        }
        let _ = self.leave(pid);
        Err(error)
    }

    /// Detaches from a process, which goes on natively unless it is about to end.
    pub fn leave(&mut self, pid: Pid) -> Result<(), ControlError> {
        self.settle_started(pid)?;
        self.release_natives(Some(pid))?;
        let pending = std::mem::take(&mut self.pending);
        for status in pending {
            let is_own = status.thread().is_some_and(|thread| self.owner(thread) == Some(pid));
            match (self.followed(pid).filter(|_| is_own), status) {
                (None, _) => self.pending.push_back(status),
                (Some(followed), Status::Stopped(..)) => {
                    followed.tracer.process.queued_events.push(status);
                }
                // An error is found again below.
                (Some(followed), _) => drop(followed.tracer.handle(status)),
            }
        }
        let Some(followed) = self.followed(pid) else { return Ok(()) };
        if let Some(ending) = followed.tracer.ending {
            self.end(pid, ending);
            return Ok(());
        }
        let left = followed.tracer.leave();
        followed.is_ending = true;
        let started = std::mem::take(&mut followed.tracer.started);
        self.masks.extend(started.into_iter().map(|(new, mask)| (new, (pid, mask))));
        self.release_forked(pid)?;
        match left {
            Ok(Left::Detached) => self.end(pid, Ending::Detached),
            Ok(Left::Ending(queued)) => self.pending.extend(queued),
            Err(error) if !self.options.follow => return Err(error),
            Err(error) => {
                self.observer.not_followed(pid, &program(pid), &error);
                self.end(pid, Ending::Detached);
                self.tracees.insert(pid, Tracee::Native { beside: pid });
            }
        }
        Ok(())
    }

    /// Handles children that a followed process has started while its threads were being stopped. They are stopped.
    pub fn release_forked(&mut self, pid: Pid) -> Result<(), ControlError> {
        let follow = self.options.follow;
        let Some(followed) = self.followed(pid) else { return Ok(()) };
        let forked = std::mem::take(&mut followed.tracer.process.forked);
        if forked.is_empty() {
            return Ok(());
        }
        if follow {
            let new = forked.into_iter().map(|child| child.pid);
            let new: Vec<Pid> = new.filter(|child| self.owner(*child).is_none()).collect();
            self.expected.extend(new);
            return self.settle_expected();
        }
        followed.tracer.seen.children += forked.len() as u64;
        for child in forked {
            let _ = wait(Some(child.pid), WaitPidFlag::__WALL);
            self.set_mask(child.pid)?;
            let _ = detach(child.pid, None);
        }
        Ok(())
    }

    /// Waits for the first stop of new processes, and handles it. This may settle others.
    fn settle_expected(&mut self) -> Result<(), ControlError> {
        let is_process = |new: &Pid| is_waitable(*new) && thread_group(*new) == Some(*new);
        while let Some(process) = self.expected.iter().copied().find(is_process) {
            self.expected.remove(&process);
            if let Some(status) = self.next_stop(process) {
                self.handle(status)?;
            }
        }
        Ok(())
    }

    /// The next event of a process that is about to stop; `None` if there is none for a while, or the process is gone.
    pub fn next_stop(&mut self, pid: Pid) -> Option<Status> {
        let pending = self.pending.iter().position(|status| status.thread() == Some(pid));
        if let Some(at) = pending {
            return self.pending.remove(at);
        }
        let begin = Instant::now();
        while begin.elapsed() < PATIENCE {
            match wait(Some(pid), WaitPidFlag::__WALL | WaitPidFlag::WNOHANG) {
                Ok(Status::StillAlive) => std::thread::sleep(PAUSE),
                Ok(status) => return Some(status),
                Err(Errno::EINTR) => {}
                Err(_) => return None,
            }
        }
        None
    }

    /// Detaches from processes that run natively and share the memory of a process, or from all, and from those that
    /// have executed a program.
    fn release_natives(&mut self, of: Option<Pid>) -> Result<(), ControlError> {
        self.settle_expected()?;
        let is_released = |tracee: &Tracee| match tracee {
            Tracee::Native { beside } => of.is_none_or(|pid| pid == *beside),
            Tracee::Executing => of.is_none(),
            Tracee::Followed(_) => false,
        };
        let natives = self.tracees.iter().filter(|(_, tracee)| is_released(tracee));
        let natives: Vec<Pid> = natives.map(|(pid, _)| *pid).collect();
        natives.into_iter().for_each(|pid| self.release_native(pid));
        Ok(())
    }

    /// Stops a process that is not followed, and detaches from it.
    fn release_native(&mut self, pid: Pid) {
        self.remove_native(pid);
        let _ = interrupt(pid);
        let stopped = self.next_stop(pid);
        let Some(status) = stopped else { return };
        if pid == self.first {
            self.ended = match status {
                Status::Exited(_, code) => Some(Ending::Exited(code)),
                Status::Signaled(_, signal) => Some(Ending::Signaled(signal)),
                _ => Some(Ending::Detached),
            };
        }
        // It fails if the process has ended.
        let _ = detach(pid, signal(status));
    }

    /// Detaches from all processes.
    pub fn leave_all(&mut self) -> Result<(), ControlError> {
        self.is_leaving = true;
        loop {
            while let Some(status) = self.pending.pop_front() {
                self.handle(status)?;
            }
            self.release_natives(None)?;
            let Some(pid) = self.tracees.keys().next().copied() else { return Ok(()) };
            self.leave(pid)?;
            // It is about to end. The end of its other threads is reported before its own.
            while self.followed(pid).is_some() {
                self.wait_and_handle()?;
            }
        }
    }

    fn wait_and_handle(&mut self) -> Result<(), ControlError> {
        if let Some(status) = self.pending.pop_front() {
            return self.handle(status);
        }
        match wait(None, WaitPidFlag::__WALL | WaitPidFlag::__WNOTHREAD) {
            Ok(status) => self.handle(status),
            Err(Errno::EINTR) => Ok(()),
            Err(Errno::ECHILD) => {
                self.next_event()?;
                Ok(())
            }
            Err(error) => Err(PtraceError::new(self.first, "wait")(error).into()),
        }
    }
}
