//! A tag log or a card's tags, and a trace, to the accesses of each function.
//!
//! ```text
//! tags on the bus: items of the trace -> bus -----------> owners -> ledger
//! a log and marks: log -> log_calls, marks -> sync --> timed --'
//! ```
//!
//! Invariants: every access of the trace is counted for exactly one owner; both inputs are read as streams.
//! Memory grows with functions, the pages they touch, open calls and threads.

pub mod bus;
pub mod ledger;
pub mod log_calls;
pub mod open_calls;
pub mod owners;
pub mod pages;
pub mod steps;
pub mod sync;
pub mod timed;

#[cfg(test)]
mod tests;
