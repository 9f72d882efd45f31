//! Reads captures of HMTT cards: decodes them into traces, with every loss counted, and writes
//! traces as tables and reports.
//!
//! Start with [`Trace`]: it reads a capture from a file or from any reader, or several captures
//! merged, as accesses, items or columns. This counts the writes to each page of 4 KiB (also in
//! `examples/writes_by_page.rs`):
//!
//! ```
//! # let path = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/worked.pcapng");
//! let mut writes = std::collections::BTreeMap::<hmtt::PhysAddr, u64>::new();
//! let mut trace = hmtt::Trace::open(path)?;
//! for access in trace.accesses() {
//!     let access = access?;
//!     if access.is_write() {
//!         *writes.entry(access.address.page(4096)).or_default() += 1;
//!     }
//! }
//! writes.iter().for_each(|(page, count)| println!("{page}: {count}"));
//! println!("{} accesses are missing", trace.counts()?.sum().lost_accesses);
//! # assert_eq!(writes.into_iter().collect::<Vec<_>>(), [(hmtt::PhysAddr(0x1234_8000), 1)]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! | To | Use |
//! |---|---|
//! | read a capture or several | [`Trace`] |
//! | state how the clocks of several cards are related, and the error | [`merge::Merge`] |
//! | see the packets of a capture beside what they decode to | [`capture_reader::CaptureReader`] |
//! | decode frames that are in no capture file | [`decode`]: a decoder, and a [`decode::Sink`] for the items |
//! | read or write pcapng without decoding | [`pcapng`] |
//! | decompress a file of any kind, and see how it begins | [`compression`] |
//! | read or write tables | `table` |
//! | read or write the accesses of a program | `access_trace` |
//! | read what other programs have recorded: lackey, drmemtrace, gem5, perf, simulators | `imported` |
//! | analyse accesses of any source: sums, hot pages, reuse distances, streams, phases | `analysis` |
//! | resolve physical addresses to processes and virtual addresses | `page_map` |
//! | simulate the caches between a program and memory | `cache` |
//!
//! ```text
//! frames -> pcapng file -> capture_reader -> decode -> trace (Trace) -> report
//!                              merge <------- decode '-> table <-> Parquet, CSV, JSON lines,
//! tag log ----------------------------------> tags         HMTT's 6-byte records
//! ```
//!
//! | Feature | What it adds |
//! |---|---|
//! | `access-traces` | the module `access_trace`: accesses of programs, as `hmtt trace` records them |
//! | `analysis` | the module `analysis`: streaming, mergeable analyses, and one source for files of any kind; the module `page_map` |
//! | `caches` | the module `cache`: models of write-back caches |
//! | `compressed-captures` | captures that gzip or lz4 has compressed; captures that zstd has compressed are always read |
//! | `tables` | the module `table`: CSV, JSON lines, text, HMTT's 6-byte records; the module `imported` |
//! | `parquet` | Parquet in the module `table` |
//! | `tags` | the module `tags`: logs of `hmtt tag`, and which function made each access of a trace |
//! | `reports` | all of [`report`] except its summaries of counts; with `tags` also the reports of tag logs |
//!
//! All features are on by default.
//!
//! Invariants: no function opens a socket or needs a privilege. No input, from a file or from the
//! wire, causes a panic. A loss is data (a gap), not an error.

#![deny(clippy::missing_errors_doc, clippy::missing_panics_doc)]
// Some items are always compiled, but only optional modules use them.
#![cfg_attr(
    not(all(feature = "parquet", feature = "reports", feature = "tags")),
    allow(dead_code, unused_imports)
)]

#[cfg(feature = "access-traces")]
pub mod access_trace;
#[cfg(feature = "analysis")]
pub mod analysis;
#[cfg(feature = "caches")]
pub mod cache;
pub mod capture_reader;
pub mod compression;
pub mod decode;
mod identity;
#[cfg(feature = "tables")]
pub mod imported;
mod link_layer;
pub mod merge;
#[cfg(feature = "analysis")]
pub mod page_map;
#[cfg(any(feature = "access-traces", feature = "analysis"))]
mod page_ranges;
pub mod pcapng;
pub mod report;
#[cfg(feature = "tables")]
pub mod table;
#[cfg(feature = "tags")]
pub mod tags;
mod trace;
#[cfg(any(feature = "analysis", feature = "tags"))]
mod trace_events;

pub use decode::{Accesses, CardCounts, Counts, Gap, Item, LinkCounts};
pub use hmtt_format::{Access, Cycles, Direction, Event, PhysAddr, Report};
pub use identity::{CardId, LinkId};
pub use merge::MergeError;
pub use pcapng::{Interface, ReadError};
pub use trace::{Batch, Trace};
