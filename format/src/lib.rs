//! Defines what the card and its readers share: DDR commands, address maps, configuration
//! registers, records and frames, and the log and map of software tags.
//!
//! Invariant: each format is defined here and nowhere else. The card packs with these constants,
//! the simulator checks with them and the receiver decodes with them. The crate is `no_std`, does
//! not allocate and has no dependencies. These features need the standard library: `toml` (memory
//! descriptions), `tag-map` (the file beside a tag log), `profile` (the file of `hmtt monitor`),
//! `access-trace` (what translated programs write about their accesses), `page-map` (maps from
//! frames to processes), `json` and `serde`.
#![deny(clippy::missing_errors_doc)]
#![cfg_attr(
    not(any(feature = "serde", feature = "access-trace", feature = "page-map", test)),
    no_std
)]

#[cfg(feature = "access-trace")]
pub mod access_trace;
pub mod account;
pub mod address_map;
pub mod block;
pub mod block_list;
pub mod command;
pub mod config;
pub mod control;
pub mod credentials;
pub mod escape;
pub mod event;
pub mod fault;
pub mod frame;
pub mod header;
pub mod info;
#[cfg(feature = "json")]
pub mod json;
pub mod memory;
#[cfg(feature = "page-map")]
pub mod page_map;
pub mod page_table_record;
#[cfg(feature = "profile")]
pub mod profile;
pub mod record;
pub mod system_call;
pub mod tag_log;
#[cfg(feature = "tag-map")]
pub mod tag_map;
pub mod tally;
pub mod timing;
#[cfg(feature = "toml")]
pub mod toml_memory;
pub mod truth;
mod units;

pub use address_map::{AddressMap, Coordinates, MapError};
pub use block::{Block, BlockError};
pub use command::{Command, CommandKind, Generation, Pins};
pub use event::Event;
pub use fault::FaultKind;
pub use info::Report;
pub use memory::{MemoryDescription, MemoryError};
pub use tally::Tally;
pub use units::{Access, Cycles, Direction, PhysAddr};

/// Version of the wire format: frame headers, records and reports. Any change increments it.
pub const FORMAT_VERSION: u8 = 3;
