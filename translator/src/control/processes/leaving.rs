//! Detaches from processes, so that they continue natively.

use std::time::{Duration, Instant};

use hmtt_probe::control::Ending;
use hmtt_probe::ptrace::{
    PtraceError, SignalNumber, Status, continue_call, detach, interrupt, is_asked_to_end,
    is_given_up, is_waitable, thread_group, wait, wait_for_stop,
};
use nix::errno::Errno;
use nix::sys::wait::WaitPidFlag;
use nix::unistd::Pid;

use super::super::error::ControlError;
use super::super::tracer::{Left, program};
use super::{Processes, Tracee};

/// Longest wait for a native process to stop. A child may block it.
const PATIENCE: Duration = Duration::from_millis(500);
const PAUSE: Duration = Duration::from_micros(50);
/// Why a process is not followed any longer after an error, which is reported.
const FAILED: &str = "an error";

/// The signal for whose delivery a thread is stopped, and which it gets when it is resumed.
fn signal(status: Status) -> Option<SignalNumber> {
    match status {
        Status::Stopped(_, signal) if signal != SignalNumber::SYSTEM_CALL => Some(signal),
        _ => None,
    }
}

impl Processes<'_> {
    /// Handles an error of following a process. The process continues natively, as far as that is
    /// possible.
    pub fn fail(&mut self, pid: Pid, error: ControlError) -> Result<(), ControlError> {
        if let Some(followed) = self.followed(pid) {
            followed.is_ending = true;
            followed.tracer.left.get_or_insert(FAILED);
        }
        self.observer.not_followed(pid, &program(pid), &error);
        self.leave(pid)
    }

    /// Detaches from a process. It continues natively, unless it is about to end.
    pub fn leave(&mut self, pid: Pid) -> Result<(), ControlError> {
        self.settle_started(pid)?;
        self.release_natives(Some(pid))?;
        let pending = std::mem::take(&mut self.pending);
        for status in pending {
            if let Some(thread) = status.thread() {
                self.expect_new(thread, status);
            }
            let is_own = status.thread().is_some_and(|thread| self.owner(thread) == Some(pid));
            match (self.followed(pid).filter(|_| is_own), status) {
                (None, _) => self.pending.push_back(status),
                (Some(followed), Status::Stopped(..)) => {
                    followed.tracer.process.queued_events.push(status);
                }
                // The call of `leave` below finds an error again.
                (Some(followed), _) => drop(followed.tracer.handle(status)),
            }
        }
        // A thread that has started a child by vfork(2) stops only when the child has executed a
        // program or ended. So children that were added above must continue first.
        self.release_natives(Some(pid))?;
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
            Ok(Left::Detached(unstopped)) => {
                self.end(pid, Ending::Detached);
                let is_end = self.is_leaving && !self.is_time_over;
                if !unstopped.is_empty() && !is_end {
                    self.tracees.insert(pid, Tracee::Released(unstopped));
                }
            }
            Ok(Left::Ending(queued)) => self.pending.extend(queued),
            Err(error) => {
                if let Some(followed) = self.followed(pid) {
                    followed.tracer.left.get_or_insert(FAILED);
                    followed.tracer.process.release();
                }
                self.observer.not_followed(pid, &program(pid), &error);
                self.end(pid, Ending::Detached);
                self.tracees.insert(pid, Tracee::Native { beside: pid });
            }
        }
        Ok(())
    }

    /// Detaches from a thread that was blocked when its process was left. The thread has stopped or
    /// ended now.
    pub fn handle_released(
        &mut self,
        pid: Pid,
        thread: Pid,
        status: Status,
    ) -> Result<(), ControlError> {
        if let Some(Tracee::Released(threads)) = self.tracees.get_mut(&pid) {
            threads.remove(&thread);
            if threads.is_empty() {
                self.tracees.remove(&pid);
            }
        }
        // This fails if the thread has ended.
        Ok(detach(thread, signal(status))?)
    }

    /// Waits until all blocked threads have been detached, or a signal arrives.
    fn settle_released(&mut self) -> Result<(), ControlError> {
        while self.tracees.values().any(|tracee| matches!(tracee, Tracee::Released(_))) {
            match self.next_event()? {
                Some(status) => self.handle(status)?,
                None if is_asked_to_end() => return Ok(()),
                None => std::thread::sleep(PAUSE),
            }
        }
        Ok(())
    }

    /// Handles children that threads of a followed process have started while they were being
    /// stopped. The children are stopped.
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
            let _ = wait_for_stop(child.pid);
            self.set_mask(child.pid)?;
            let _ = detach(child.pid, None);
        }
        Ok(())
    }

    /// Waits for the first stops of new processes, and handles them. Handling a stop may handle
    /// further stops.
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

    /// Waits for the next event of a process that is about to stop; `None` if there is no event for
    /// a while, or the process has ended.
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

    /// Detaches from processes that run natively and share the memory of process `sharer`. Without
    /// `sharer`, detaches from all native processes, and from processes that have just executed a
    /// program.
    fn release_natives(&mut self, sharer: Option<Pid>) -> Result<(), ControlError> {
        self.settle_expected()?;
        let is_released = |tracee: &Tracee| match tracee {
            Tracee::Native { beside } => sharer.is_none_or(|pid| pid == *beside),
            Tracee::Executing => sharer.is_none(),
            Tracee::Followed(_) | Tracee::Released(_) => false,
        };
        let natives = self.tracees.iter().filter(|(_, tracee)| is_released(tracee));
        let natives: Vec<Pid> = natives.map(|(pid, _)| *pid).collect();
        natives.into_iter().for_each(|pid| self.release_native(pid));
        Ok(())
    }

    /// Stops a process that runs natively, and detaches from it.
    fn release_native(&mut self, pid: Pid) {
        self.remove_native(pid);
        let _ = interrupt(pid);
        let stopped = self.next_stop(pid);
        let Some(status) = stopped else { return };
        // This fails if the process has ended.
        let _ = continue_call(status);
        if pid == self.first {
            self.ended = match status {
                Status::Exited(_, code) => Some(Ending::Exited(code)),
                Status::Signaled(_, signal) => Some(Ending::Signaled(signal)),
                _ => Some(Ending::Detached),
            };
        }
        // This fails if the process has ended.
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
            let mut tracees = self.tracees.iter();
            let followed = tracees.find(|(_, one)| matches!(one, Tracee::Followed(_)));
            let Some((pid, _)) = followed.map(|(pid, tracee)| (*pid, tracee)) else {
                return self.settle_released();
            };
            self.leave(pid)?;
            // The process is still followed only if it is about to end. The kernel reports the end
            // of its other threads before the end of the process.
            let begin = Instant::now();
            while self.followed(pid).is_some() {
                self.wait_and_handle(pid, begin)?;
            }
        }
    }

    /// Handles the next event while a process is about to end. `begin`: time from which the process
    /// is waited for.
    fn wait_and_handle(&mut self, pid: Pid, begin: Instant) -> Result<(), ControlError> {
        if let Some(status) = self.pending.pop_front() {
            return self.handle(status);
        }
        let flags = WaitPidFlag::__WALL | WaitPidFlag::__WNOTHREAD | WaitPidFlag::WNOHANG;
        match wait(None, flags) {
            Ok(Status::StillAlive) if is_given_up(begin.elapsed()) => {
                self.observer.not_followed(pid, &program(pid), &PtraceError::Unstopped(pid).into());
                if let Some(followed) = self.followed(pid) {
                    followed.tracer.left.get_or_insert(FAILED);
                }
                self.end(pid, Ending::Detached);
                Ok(())
            }
            Ok(Status::StillAlive) => {
                std::thread::sleep(PAUSE);
                Ok(())
            }
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
