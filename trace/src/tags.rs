//! Analyses logs of `hmtt tag`: finds callers and callees, and sums the numbers and times of calls.
//!
//! ```text
//! file -> log_reader -> chunks -> stack (one for each thread) -> call_counts -> report/calls
//!                                   '-> call_tree -> flame graphs; timeline -> Chrome's trace events
//! ```
//!
//! Invariants: each event is processed once and not stored; memory grows with functions, call edges
//! and threads. Lost events are counted, and no input causes a panic.

pub mod accesses;
pub mod call_counts;
pub mod call_tree;
mod hash;
pub mod log_reader;
pub mod names;
pub mod stack;
pub mod threads;
pub mod timeline;

/// Converts ticks to nanoseconds. `tsc_hz`: ticks per second. If it is 0, which means not known, a
/// tick counts as one nanosecond. A result above `u64::MAX` becomes `u64::MAX`.
pub fn nanoseconds(ticks: u64, tsc_hz: u64) -> u64 {
    match tsc_hz {
        0 => ticks,
        hz => u64::try_from(u128::from(ticks) * 1_000_000_000 / u128::from(hz)).unwrap_or(u64::MAX),
    }
}
