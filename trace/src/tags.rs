//! Analyses logs of `hmtt tag`: callers and callees, numbers of calls and their times.
//!
//! ```text
//! file -> log_reader -> chunks -> stack (one for each thread) -> call_counts -> report/tags
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

/// Converts ticks to nanoseconds. If the frequency is not known (0), a tick counts as one
/// nanosecond.
pub fn nanoseconds(ticks: u64, tsc_hz: u64) -> u64 {
    match tsc_hz {
        0 => ticks,
        hz => u64::try_from(u128::from(ticks) * 1_000_000_000 / u128::from(hz)).unwrap_or(u64::MAX),
    }
}
