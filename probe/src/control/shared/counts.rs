//! Slots to how often each thread has entered each function.

use std::sync::{Arc, PoisonError};
use std::time::Instant;

use nix::unistd::Pid;

use super::slots::Slots;
use super::{Inherited, Shape, Shared, plausible};
use crate::control::TagError;
use crate::ptrace::Process;
use crate::stubs::layout::PAGE_BYTES;

/// What one thread has counted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ThreadCounts {
    /// Its number.
    pub thread: i32,
    /// Entries of each function.
    pub entries: Vec<u64>,
    /// How many of these cannot be, because the program has written over them: 0 stands for them.
    pub damaged: u64,
}

/// Counters of all threads.
#[derive(Debug)]
pub struct Counts {
    shared: Arc<Shared>,
    /// Which thread has which.
    pub slots: Slots,
    functions: usize,
    /// Since when there can be any.
    began: Instant,
    /// Of threads that have ended.
    ended: Vec<ThreadCounts>,
}

impl Counts {
    /// Makes room for them.
    pub fn new(
        process: &mut Process,
        inherited: Option<Inherited>,
        at_most: usize,
    ) -> Result<Self, TagError> {
        let slot_bytes = (at_most as u64 * 8).max(1).next_multiple_of(PAGE_BYTES);
        let shape = Shape { slot_bytes, alignment: PAGE_BYTES };
        let shared = Arc::new(Shared::new(process, inherited, shape, at_most)?);
        Ok(Counts::over(shared, inherited))
    }

    /// Counters of no functions yet, in memory whose slots have room for them.
    pub fn over(shared: Arc<Shared>, inherited: Option<Inherited>) -> Self {
        let slots = Slots::new(Arc::clone(&shared), inherited);
        Counts { shared, slots, functions: 0, began: Instant::now(), ended: Vec::new() }
    }

    /// Counts more functions.
    pub fn add(&mut self, functions: usize) -> Result<(), TagError> {
        self.functions += functions;
        if self.functions as u64 * 8 > self.shared.slot_bytes {
            return Err(self.shared.failed("too many functions"));
        }
        Ok(())
    }

    /// The memory they are in.
    pub fn shared(&self) -> &Shared {
        &self.shared
    }

    /// Takes the counts of a thread that has ended, and its slot.
    pub fn leave(&mut self, thread: Pid) {
        let Some(slot) = self.slots.leave(thread) else { return };
        let counts = self.of_slot(thread, slot);
        self.ended.push(counts);
        self.shared.memory.clear(self.shared.slot_at(slot), self.shared.slot_bytes);
        self.slots.free().lock().unwrap_or_else(PoisonError::into_inner).push(slot);
    }

    /// What all threads have counted so far, those that ended first.
    pub fn read(&self) -> Vec<ThreadCounts> {
        let alive = self.slots.iter().map(|(thread, slot)| self.of_slot(thread, slot));
        self.ended.iter().cloned().chain(alive).collect()
    }

    fn of_slot(&self, thread: Pid, slot: u64) -> ThreadCounts {
        let start = self.shared.slot_at(slot);
        let possible = 0..=plausible(self.began.elapsed());
        let mut damaged = 0;
        let count = |function: usize| {
            let count = self.shared.get(start + 8 * function as u64).within(possible.clone());
            damaged += u64::from(count.is_none());
            count.unwrap_or(0)
        };
        let entries = (0..self.functions).map(count).collect();
        ThreadCounts { thread: thread.as_raw(), entries, damaged }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_count_that_cannot_be_is_damage() {
        let shape = Shape { slot_bytes: PAGE_BYTES, alignment: PAGE_BYTES };
        let shared = Arc::new(Shared::of_nobody(shape, 2));
        let mut counts = Counts::over(shared, None);
        counts.add(4).unwrap();
        let at = counts.shared.slot_at(1);
        for (function, count) in [3, u64::MAX, 1 << 62, 9].into_iter().enumerate() {
            counts.shared.set(at + 8 * function as u64, count);
        }
        let read = counts.of_slot(Pid::this(), 1);
        assert_eq!((read.entries, read.damaged), (vec![3, 0, 0, 9], 2));
    }
}
