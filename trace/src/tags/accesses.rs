//! Attributes the accesses of a trace to functions, blocks and loops. The calls come from tags in
//! the trace, or from a tag log.
//!
//! ```text
//! tags on the bus: items of the trace -> bus -----------> owners -> ledger
//! a log and marks: log -> log_calls, marks -> sync --> timed --'
//! ```
//!
//! Invariants: every access of the trace is an own access of exactly one owner. Both inputs are
//! read as streams. Memory grows with functions, the pages that they access, open calls and
//! threads.

pub mod bus;
pub mod current_blocks;
pub mod current_owners;
pub mod ledger;
pub mod log_calls;
pub mod open_calls;
pub mod owners;
pub mod pages;
pub mod regions;
pub mod steps;
pub mod sync;
pub mod timed;
pub mod traffic;
pub mod unseen;

#[cfg(test)]
mod tests;
