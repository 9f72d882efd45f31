//! The log of `hmtt tag` to what was called by what, how often and for how long.
//!
//! ```text
//! file -> log_reader -> chunks -> stack (one for each thread) -> call_counts -> report/tags
//!                                   '-> call_tree -> flame graphs; timeline -> Chrome's trace events
//! ```
//!
//! Invariants: an event is looked at once, and forgotten; memory grows with functions, edges and threads. What
//! is missing is counted, and no input panics.

pub mod accesses;
pub mod call_counts;
pub mod call_tree;
mod hash;
pub mod log_reader;
pub mod names;
pub mod stack;
pub mod threads;
pub mod timeline;

/// Ticks to nanoseconds; a clock that is not known ticks once in one.
pub fn nanoseconds(ticks: u64, tsc_hz: u64) -> u64 {
    match tsc_hz {
        0 => ticks,
        hz => u64::try_from(u128::from(ticks) * 1_000_000_000 / u128::from(hz)).unwrap_or(u64::MAX),
    }
}
