//! Analyses accesses on the card: computes hot pages, reuse distances and bank use from the
//! accesses that the traces see.
//!
//! It runs in parallel with the traces, in block RAM of fixed size:
//!
//! ```text
//! observed -> page_runs -> hot_pages    a majority vote in each of 256 buckets
//!                      -> reuse         order of use of the sampled pages
//!          -> tallies                   row hits, misses, conflicts; reuse distances
//!                          dump_unit    sends one table after the other as records
//! ```
//!
//! The analysis never delays the traces. Events that arrive while a unit is busy are counted as
//! skipped, and the counts are sent with the results, so each bound holds. Results are sent in
//! dumps ([`dump_unit`]), one record at a time when the traces have none, and each dump clears the
//! entries that it sends. `docs/format.md`, section "Analysis", states what the results guarantee.

pub mod dump_unit;
pub mod hot_pages;
pub mod page_runs;
pub mod page_spread;
pub mod reuse;
pub mod tallies;
pub mod unit;

/// Position of the table number in the index of a tally. The number is also the group of its
/// counts.
pub(crate) const TABLE_AT: u32 = 6;

/// Ticks from one dump to the next, of at most 2^15 clocks each. A round has as many dumps as the
/// table of hot pages has parts. Each table is emptied once in a round, so it counts less than 2^27
/// accesses, at most one in each clock. Each dump sends and restarts the counts of skipped events,
/// so they stay below 2^23.
pub const DUMP_TICKS: u64 = 128;
