//! Reads from the slots how often each thread has entered each function.

use std::sync::{Arc, PoisonError};
use std::time::Instant;

use nix::unistd::Pid;

use super::slots::Slots;
use super::{InheritedMemory, Shared, SlotLayout, plausible};
use crate::control::TagError;
use crate::ptrace::Stopped;
use crate::stubs::layout::PAGE_BYTES;

/// Counters of one thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ThreadCounts {
    /// Thread ID.
    pub thread: i32,
    /// Number of entries of each function and block, by
    /// [`FunctionId::index`](hmtt_files::tag_log::FunctionId::index).
    pub entries: Vec<u64>,
    /// Number of counters with impossible values, because the program has written over them. The
    /// entries of such counters are 0.
    pub damaged: u64,
}

/// Counters of all threads.
#[derive(Debug)]
pub struct Counts {
    shared: Arc<Shared>,
    /// The slot of each thread.
    pub slots: Slots,
    functions: usize,
    /// Earliest time at which threads can have counted.
    began: Instant,
    /// Counters of threads that have ended.
    ended: Vec<ThreadCounts>,
}

impl Counts {
    /// Makes shared memory with counters for at most `max_functions` functions.
    ///
    /// # Errors
    /// As [`Shared::new`].
    pub fn new(
        process: &mut Stopped<'_>,
        inherited: Option<InheritedMemory>,
        max_functions: usize,
    ) -> Result<Self, TagError> {
        let slot_bytes = (max_functions as u64 * 8).max(1).next_multiple_of(PAGE_BYTES);
        let shape = SlotLayout { slot_bytes, alignment: PAGE_BYTES };
        let shared = Arc::new(Shared::new(process, inherited, shape, max_functions)?);
        Ok(Counts::from_memory(shared, inherited))
    }

    /// Counters for no functions, in memory whose slots are large enough.
    pub fn from_memory(shared: Arc<Shared>, inherited: Option<InheritedMemory>) -> Self {
        let slots = Slots::new(Arc::clone(&shared), inherited);
        Counts { shared, slots, functions: 0, began: Instant::now(), ended: Vec::new() }
    }

    /// Adds counters for more functions.
    ///
    /// # Errors
    /// [`TagError::Shared`]: the slots are too small for so many functions.
    pub fn add(&mut self, functions: usize) -> Result<(), TagError> {
        self.functions += functions;
        if self.functions as u64 * 8 > self.shared.slot_bytes {
            return Err(self.shared.failed("too many functions"));
        }
        Ok(())
    }

    /// The shared memory with the counters.
    pub fn shared(&self) -> &Shared {
        &self.shared
    }

    /// Reads the counters of a thread that has ended, and frees its slot.
    pub fn remove_thread(&mut self, thread: Pid) {
        let Some(slot) = self.slots.remove_thread(thread) else { return };
        let counts = self.of_slot(thread, slot);
        self.ended.push(counts);
        self.shared.memory.clear(self.shared.slot_at(slot), self.shared.slot_bytes);
        self.slots.free().lock().unwrap_or_else(PoisonError::into_inner).push(slot);
    }

    /// Counters of all threads. Threads that have ended are first.
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
    fn an_impossible_count_is_damage() {
        let shape = SlotLayout { slot_bytes: PAGE_BYTES, alignment: PAGE_BYTES };
        let shared = Arc::new(Shared::without_process(shape, 2));
        let mut counts = Counts::from_memory(shared, None);
        counts.add(4).unwrap();
        let at = counts.shared.slot_at(1);
        for (function, count) in [3, u64::MAX, 1 << 62, 9].into_iter().enumerate() {
            counts.shared.set(at + 8 * function as u64, count);
        }
        let read = counts.of_slot(Pid::this(), 1);
        assert_eq!((read.entries, read.damaged), (vec![3, 0, 0, 9], 2));
    }
}
