//! Gives what threads with deferred signals have started the program's signal mask, at its first
//! stop.
//!
//! That stop may be reported before the event which tells what a thread has started. So first stops
//! of threads and children of a process are held as long as one of its threads with deferred
//! signals starts something.

use hmtt_probe::ptrace::{Status, is_waitable, parent, set_signal_mask, thread_group};
use nix::unistd::Pid;

use super::super::error::ControlError;
use super::super::tracer::unless_ended;
use super::{Processes, Tracee};

impl Processes<'_> {
    /// Whether a thread of a process, whose signals are deferred, starts something.
    fn has_starter(&self, pid: Pid) -> bool {
        match self.tracees.get(&pid) {
            Some(Tracee::Followed(followed)) => followed.tracer.starter().is_some(),
            _ => false,
        }
    }

    /// Whether the first stop of a new process or thread is to be handled later; otherwise gives it
    /// its signal mask.
    pub fn is_held(&mut self, thread: Pid, status: Status) -> Result<bool, ControlError> {
        if matches!(status, Status::Exited(..) | Status::Signaled(..)) {
            self.masks.remove(&thread);
            return Ok(false);
        }
        let is_known = |tracee: &Tracee| match tracee {
            Tracee::Followed(followed) => followed.tracer.threads.contains_key(&thread),
            Tracee::Executing | Tracee::Native { .. } | Tracee::Released(_) => false,
        };
        if self.tracees.contains_key(&thread) || self.tracees.values().any(is_known) {
            return Ok(false);
        }
        let beside = [thread_group(thread), parent(thread)];
        if let Some(pid) = beside.into_iter().flatten().find(|pid| self.has_starter(*pid)) {
            self.held.push((pid, status));
            return Ok(true);
        }
        self.set_mask(thread)?;
        Ok(false)
    }

    /// Gives a new process or thread, which is stopped, its signal mask.
    pub fn set_mask(&mut self, new: Pid) -> Result<(), ControlError> {
        let Some((_, mask)) = self.masks.remove(&new) else { return Ok(()) };
        unless_ended(set_signal_mask(new, mask).map_err(ControlError::from))
    }

    /// First stops can be handled if no thread with deferred signals starts anything in the
    /// process.
    pub fn release_held(&mut self) {
        let held = std::mem::take(&mut self.held);
        for (pid, status) in held.into_iter().rev() {
            match self.has_starter(pid) {
                true => self.held.insert(0, (pid, status)),
                false => self.pending.push_front(status),
            }
        }
    }

    /// Waits until what threads of a process start while signals are deferred has got the program's
    /// mask.
    pub fn settle_started(&mut self, pid: Pid) -> Result<(), ControlError> {
        loop {
            let starter = self.followed(pid).and_then(|one| one.tracer.starter());
            let mut started = self.masks.iter().filter(|(_, (of, _))| *of == pid);
            let Some(awaited) = starter.or_else(|| started.next().map(|(new, _)| *new)) else {
                return Ok(());
            };
            match self.next_stop(awaited) {
                Some(status) => self.handle(status)?,
                // It takes long.
                None if is_waitable(awaited) => {}
                None if starter.is_some() => return Ok(()),
                None => drop(self.masks.remove(&awaited)),
            }
        }
    }
}
