//! Reads captures of HMTT cards: decodes them into traces, with every loss counted, and writes traces as tables
//! and reports.
//!
//! ```text
//! frames -> pcapng file -> capture_reader -> decode -> report
//!                              merge <------- decode '-> table <-> Parquet, CSV, JSON lines,
//! tag log ----------------------------------> tags         HMTT's 6-byte records
//! ```
//!
//! | Feature | What it adds |
//! |---|---|
//! | `tables` | the module `table`: CSV, JSON lines, text, HMTT's 6-byte records |
//! | `parquet` | Parquet in the module `table` |
//! | `tags` | the module `tags`: logs of `hmtt tag`, and which function made each access of a trace |
//! | `reports` | all of [`report`] except its summaries of counts; with `tags` also the reports of tag logs |
//!
//! All are on by default.
//!
//! Invariants: no function opens a socket or needs a privilege. No input, from a file or from the wire, causes a
//! panic. A loss is data (a gap), not an error.

#![deny(clippy::missing_errors_doc, clippy::missing_panics_doc)]
// Some items that are always compiled are used by optional modules only.
#![cfg_attr(
    not(all(feature = "parquet", feature = "reports", feature = "tags")),
    allow(dead_code, unused_imports)
)]

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
