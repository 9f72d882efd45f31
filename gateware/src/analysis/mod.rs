//! Accesses to hot pages, reuse distances and the use of banks: what the card finds out by itself.
//!
//! Beside the traces, from the same accesses, in block RAM of fixed size:
//!
//! ```text
//! observed -> page_runs -> hot_pages    a majority vote in each of 256 buckets
//!                      -> reuse         order of use of the sampled pages
//!          -> tallies                   row hits, misses, conflicts; reuse distances
//!                          dump_unit    one table after the other to records
//! ```
//!
//! Nothing here can hold up the traces. What finds a unit busy is counted as skipped, and the counts go
//! out with the results, so that every bound holds. Results leave in dumps ([`dump_unit`]), record by
//! record when the traces have none, and clear what they sent. What they guarantee is in `docs/format.md`,
//! section "Analysis".

pub mod dump_unit;
pub mod hot_pages;
pub mod page_runs;
pub mod page_spread;
pub mod reuse;
pub mod tallies;
pub mod unit;

/// Ticks from one dump to the next, of at most 2^15 clocks each; as many dumps as the table of hot pages
/// has parts make a round. Every table is emptied within a round and so counts less than 2^27 accesses,
/// at most one a clock; what was skipped is told by every dump, so less than 2^23.
pub const DUMP_TICKS: u64 = 128;
