//! Keeps new threads at their first stop while no area is free, but areas of ended threads are
//! still being read.
//!
//! The area of an ended thread becomes free when the monitor has read its ring to the end. Without
//! the wait, a thread that starts before that would run natively, and would not be counted.

use std::sync::atomic::Ordering;

use hmtt_probe::ptrace::{Status, StopState};
use nix::unistd::Pid;

use super::super::error::ControlError;
use super::{Tracer, unless_ended};

impl Tracer {
    /// Whether the monitor still reads areas of ended threads.
    fn are_areas_read(&self) -> bool {
        let used = self.shared.rings.used.iter().filter(|used| used.load(Ordering::SeqCst));
        used.count() > self.threads.values().filter(|one| one.area.is_some()).count()
    }

    /// Whether a new thread must wait for an area. If so, its stop is stored.
    pub(super) fn is_to_wait(&mut self, status: Status) -> bool {
        status.thread().into_iter().for_each(|thread| self.forget_waiting(thread));
        let is_first = !matches!(status, Status::Event(_, _, libc::PTRACE_EVENT_EXIT));
        if !is_first || self.shared.rings.free_area().is_some() || !self.are_areas_read() {
            return false;
        }
        self.waiting.push_back(status);
        self.shared.rings.await_area();
        true
    }

    /// Removes a thread from the waiting ones.
    pub(super) fn forget_waiting(&mut self, thread: Pid) {
        self.waiting.retain(|status| status.thread() != Some(thread));
    }

    /// Adds waiting threads if an area is free, or if no area will become free.
    pub(super) fn admit_waiting(&mut self) -> Result<(), ControlError> {
        for _ in 0..self.waiting.len() {
            let Some(status) = self.waiting.pop_front() else { return Ok(()) };
            unless_ended(self.handle(status))?;
        }
        Ok(())
    }

    /// Whether a thread waits for an area.
    pub fn is_waiting(&self, thread: Pid) -> bool {
        self.waiting.iter().any(|status| status.thread() == Some(thread))
    }

    /// Removes and returns the waiting threads. They are stopped, and stay without an area.
    pub(super) fn take_waiting(&mut self) -> Vec<(Pid, StopState)> {
        let waiting = self.waiting.drain(..);
        waiting.filter_map(|status| Some((status.thread()?, StopState::reported(status)))).collect()
    }
}
