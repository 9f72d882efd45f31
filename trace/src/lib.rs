//! Reads what HMTT cards send: captures to traces, with every loss counted, and traces to tables and reports.
//!
//! ```text
//! frames -> pcapng file -> capture_reader -> decode -> report
//!                              merge <------- decode '-> table <-> Parquet, CSV, JSON lines,
//! tag log ----------------------------------> tags         HMTT's 6-byte records
//! ```
//!
//! | Feature | What it adds |
//! |---|---|
//! | `tables` | the module `table`: Parquet, CSV, JSON lines, HMTT's 6-byte records |
//! | `tags` | the module `tags`: logs of `hmtt tag`, and whose the accesses of a trace are |
//! | `reports` | all of [`report`] beside its summaries of counts; it needs `tags` |
//!
//! All are on by default.
//!
//! Invariants: nothing here knows a socket or needs a privilege. Whatever a file or the wire holds, nothing
//! panics, and what was lost is data, not an error.

// Some of what is always there is for optional modules alone.
#![cfg_attr(not(all(feature = "tables", feature = "tags")), allow(dead_code, unused_imports))]

pub mod capture_reader;
pub mod decode;
pub mod merge;
pub mod pcapng;
pub mod report;
#[cfg(feature = "tables")]
pub mod table;
#[cfg(feature = "tags")]
pub mod tags;
mod trace;

pub use trace::{Batch, CardId, Trace};
