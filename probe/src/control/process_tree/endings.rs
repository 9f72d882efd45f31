//! Handles processes that end, that cannot be tagged, or that the controller detaches from.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sys::wait::WaitPidFlag;
use nix::unistd::Pid;

use super::super::TagError;
use super::super::ending::Ending;
use super::{ProcessTree, Tracee};
use crate::ptrace::{
    self, Process, PtraceError, Status, StopState, is_given_up, wait, wait_for_stop,
};

/// Pause between two checks whether a process that is about to end has ended.
const PAUSE: Duration = Duration::from_millis(1);

impl ProcessTree<'_> {
    /// Removes a process from the tree.
    pub(super) fn end(&mut self, pid: Pid, ending: Ending) {
        let tracee = self.tracees.remove(&pid);
        self.threads.retain(|_, owner| *owner != pid);
        if pid == self.first && (ending != Ending::Replaced || self.start.is_none()) {
            self.ended = Some(ending);
        }
        if let Some(Tracee::Tagged(mut tagged)) = tracee {
            tagged.record_gs_taken(ending);
            let memory_sharers = std::mem::take(&mut tagged.memory_sharers);
            // If the process was detached, the processes that share its memory were detached with
            // it. Otherwise they have the memory alone, and their tags are not followed.
            for sharer in memory_sharers.into_keys().filter(|_| ending != Ending::Detached) {
                self.tracees.insert(sharer, Tracee::Untagged);
                self.threads.insert(sharer, sharer);
            }
            self.observer.ended(*tagged, ending);
        }
        self.release_orphans();
    }

    /// Handles a failed operation on a process: the process has ended, or it continues without
    /// tags. `thread`: a thread of the process that is stopped.
    pub(super) fn handle_failure(
        &mut self,
        pid: Pid,
        thread: Option<Pid>,
        error: TagError,
    ) -> Result<(), TagError> {
        let is_over = matches!(error, TagError::Ptrace(PtraceError::Ended(_)));
        if (is_over || self.start.is_none())
            && let (Some(thread), Some(tagged)) = (thread, self.tagged(pid))
        {
            tagged.process.threads.entry(thread).or_insert(StopState::AtInstruction);
        }
        if is_over {
            let is_heard_of = self.pending.iter().any(|status| status.thread() == Some(pid));
            if is_heard_of || ptrace::is_waitable(pid) {
                // While threads are stopped, the end of the process would be reported late.
                return if self.is_leaving { Ok(()) } else { self.resume(pid) };
            }
            if self.start.is_some() {
                self.end(pid, super::UNKNOWN);
                return Ok(());
            }
        }
        if self.start.is_none() {
            return Err(error);
        }
        let Some(tagged) = self.tagged(pid) else { return Ok(()) };
        let program = tagged.program().to_owned();
        let is_stopped = !tagged.process.threads.is_empty();
        self.observer.untagged(pid, &program, &error);
        // The process cannot be followed any further: it continues without tags.
        if is_stopped || self.stop(pid, thread).is_ok() {
            self.end(pid, Ending::Detached);
        }
        Ok(())
    }

    /// Lets all processes continue without tags, as far as possible.
    pub fn give_up(mut self) {
        for (pid, tracee) in std::mem::take(&mut self.tracees) {
            match tracee {
                Tracee::Tagged(mut tagged) => {
                    let is_its = |status: &&Status| matches!(status, Status::Stopped(thread, _) if self.threads.get(thread) == Some(&pid));
                    tagged.process.queued_events.extend(self.pending.iter().filter(is_its));
                    // A thread that has just executed another program is already stopped.
                    let others = self.pending.iter().filter_map(|status| match status {
                        Status::Event(thread, ..) if self.threads.get(thread) == Some(&pid) => {
                            Some((*thread, StopState::InSyscall))
                        }
                        _ => None,
                    });
                    tagged.process.threads.extend(others);
                    tagged.give_up();
                }
                Tracee::Executing | Tracee::Untagged => self.leave_untagged(pid),
            }
        }
    }

    /// Lets all processes continue without tags. Returns how the first process has ended. Tags stay
    /// in processes that cannot be stopped, as if the controller had been killed.
    pub fn leave(mut self) -> Result<Ending, TagError> {
        let left = self.leave_all();
        if left.is_err() {
            self.give_up();
        }
        left
    }

    fn leave_all(&mut self) -> Result<Ending, TagError> {
        self.is_leaving = true;
        while let Some(status) = self.pending.pop_front() {
            self.handle_event(status)?;
        }
        while let Some(pid) = self.tracees.keys().next().copied() {
            self.leave_tracee(pid)?;
        }
        self.is_leaving = false;
        self.release_orphans();
        Ok(self.ended.unwrap_or(Ending::Detached))
    }

    fn leave_tracee(&mut self, pid: Pid) -> Result<(), TagError> {
        if !matches!(self.tracees.get(&pid), Some(Tracee::Tagged(_))) {
            self.leave_untagged(pid);
            return Ok(());
        }
        if let Err(error) = self.stop(pid, None) {
            self.handle_failure(pid, None, error)?;
        }
        while let Some(status) = self.pending.pop_front() {
            self.handle_event(status)?;
        }
        if self.tagged(pid).is_some_and(|tagged| !tagged.process.threads.is_empty()) {
            self.end(pid, Ending::Detached);
        }
        // A process that is still in the tree has no stopped threads: it is about to end.
        let begin = Instant::now();
        while self.tagged(pid).is_some() {
            // The kernel reports the end of the other threads before the end of the process.
            let flags = WaitPidFlag::__WALL | WaitPidFlag::__WNOTHREAD | WaitPidFlag::WNOHANG;
            match wait(None, flags) {
                Ok(Status::StillAlive) if is_given_up(begin.elapsed()) => {
                    return Err(PtraceError::Unstopped(pid).into());
                }
                Ok(Status::StillAlive) => std::thread::sleep(PAUSE),
                Ok(status) => self.handle_event(status)?,
                Err(Errno::EINTR) => {}
                Err(_) => self.end(pid, super::UNKNOWN),
            }
        }
        Ok(())
    }

    /// Detaches from a process without tags, and from children that it has just started.
    fn leave_untagged(&mut self, pid: Pid) {
        self.tracees.remove(&pid);
        let Ok(mut process) = Process::from_traced(pid) else { return };
        process.threads = BTreeMap::new();
        let stopped = process.stop().map(drop);
        for child in std::mem::take(&mut process.forked) {
            if self.early.remove(&child.pid).is_none() {
                // The child is stopped, or has ended.
                let _ = wait_for_stop(child.pid);
            }
            let _ = ptrace::detach(child.pid, None);
        }
        match stopped {
            Ok(()) => drop(process.detach()),
            Err(PtraceError::Unstopped(_)) => process.release(),
            Err(_) => {}
        }
    }
}
