//! Sets the signal mask of threads and processes that were started by a thread with deferred
//! signals. The new thread inherits the mask of the deferral, and gets the program's mask at its
//! first stop.
//!
//! The first stop may be reported before the event of the starting thread, which names the new one.
//! So while a thread with deferred signals starts something, the first stops of new threads and
//! children of its process are held.

use hmtt_probe::ptrace::{Status, is_waitable, parent, set_signal_mask, thread_group};
use nix::unistd::Pid;

use super::super::error::ControlError;
use super::super::tracer::unless_ended;
use super::{Processes, Tracee};

impl Processes<'_> {
    /// Whether a thread of the process has deferred signals and is about to start a thread or
    /// process.
    fn has_starter(&self, pid: Pid) -> bool {
        match self.tracees.get(&pid) {
            Some(Tracee::Followed(followed)) => followed.tracer.starter().is_some(),
            _ => false,
        }
    }

    /// Whether the first stop of a new process or thread must be handled later. If not, sets the
    /// signal mask of the new one.
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

    /// Sets the signal mask of a new process or thread, which is stopped. Does nothing if it was
    /// not started by a thread with deferred signals.
    pub fn set_mask(&mut self, new: Pid) -> Result<(), ControlError> {
        let Some((_, mask)) = self.masks.remove(&new) else { return Ok(()) };
        unless_ended(set_signal_mask(new, mask).map_err(ControlError::from))
    }

    /// Queues the held first stops of each process in which no thread with deferred signals is
    /// starting something.
    pub fn release_held(&mut self) {
        let held = std::mem::take(&mut self.held);
        for (pid, status) in held.into_iter().rev() {
            if self.has_starter(pid) {
                self.held.insert(0, (pid, status))
            } else {
                self.pending.push_front(status)
            }
        }
    }

    /// Waits until no thread with deferred signals is starting a thread or process, and all threads
    /// and processes that such threads have started have the program's mask.
    pub fn settle_started(&mut self, pid: Pid) -> Result<(), ControlError> {
        loop {
            let starter = self.followed(pid).and_then(|one| one.tracer.starter());
            let mut started = self.masks.iter().filter(|(_, (of, _))| *of == pid);
            let Some(awaited) = starter.or_else(|| started.next().map(|(new, _)| *new)) else {
                return Ok(());
            };
            match self.next_stop(awaited) {
                Some(status) => self.handle(status)?,
                // The system call takes long.
                None if is_waitable(awaited) => {}
                None if starter.is_some() => return Ok(()),
                None => drop(self.masks.remove(&awaited)),
            }
        }
    }
}
