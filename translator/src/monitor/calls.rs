//! Counts system calls by thread and number.

use std::collections::{BTreeMap, BTreeSet};

/// Maximum number of threads with separate counts. Calls of further threads are counted as thread
/// 0.
const THREADS: usize = 1 << 12;
/// Limit of the numbers of system calls. Calls with other numbers are counted as [`UNKNOWN`].
const NUMBERS: u32 = 1 << 10;
/// Stands for all numbers of system calls that Linux does not have.
pub const UNKNOWN: u32 = u32::MAX;

/// Counts of one system call of one thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CallCount {
    /// Number of calls.
    pub times: u64,
    /// Number of calls whose duration is known.
    pub timed: u64,
    /// Sum of the known durations, in ticks of the time stamp counter.
    pub ticks: u64,
}

/// Counts of the system calls of a process.
#[derive(Clone, Debug, Default)]
pub struct Calls {
    counts: BTreeMap<(i32, u32), CallCount>,
    threads: BTreeSet<i32>,
}

impl Calls {
    fn count(&mut self, thread: i32, number: u32) -> &mut CallCount {
        let is_counted = self.threads.contains(&thread) || self.threads.len() < THREADS;
        let thread = if is_counted { thread } else { 0 };
        self.threads.insert(thread);
        let number = if number < NUMBERS { number } else { UNKNOWN };
        self.counts.entry((thread, number)).or_default()
    }

    /// Counts a system call of a thread. Counts saturate.
    pub fn add(&mut self, thread: i32, number: u32) {
        let count = self.count(thread, number);
        count.times = count.times.saturating_add(1);
    }

    /// Adds the duration of a system call that was counted before.
    pub fn add_time(&mut self, thread: i32, number: u32, ticks: u64) {
        let count = self.count(thread, number);
        count.timed = count.timed.saturating_add(1);
        count.ticks = count.ticks.saturating_add(ticks);
    }

    /// Adds other counts.
    pub fn merge(&mut self, other: &Calls) {
        for ((thread, number), added) in &other.counts {
            let count = self.count(*thread, *number);
            count.times = count.times.saturating_add(added.times);
            count.timed = count.timed.saturating_add(added.timed);
            count.ticks = count.ticks.saturating_add(added.ticks);
        }
    }

    /// All counts, as thread, number of the call, and count.
    pub fn iter(&self) -> impl Iterator<Item = (i32, u32, CallCount)> {
        self.counts.iter().map(|((thread, number), count)| (*thread, *number, *count))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_have_bounds() {
        let mut calls = Calls::default();
        for thread in 0..10_000 {
            calls.add(thread, 1);
            calls.add(thread, 5000 + thread as u32);
            calls.add_time(thread, 1, u64::MAX / 2);
        }
        let mut twice = calls.clone();
        twice.merge(&calls);
        let counts: Vec<_> = twice.iter().collect();
        assert_eq!(counts.len(), 2 * THREADS);
        let times: u64 = counts.iter().map(|(_, _, count)| count.times).sum();
        assert_eq!(times, 40_000);
        assert_eq!(counts[0].2.ticks, u64::MAX);
        assert_eq!((counts[1].0, counts[1].1), (0, UNKNOWN));
        let expected = CallCount { times: 2, timed: 2, ticks: u64::MAX / 2 * 2 };
        assert_eq!(counts[2], (1, 1, expected));
    }
}
