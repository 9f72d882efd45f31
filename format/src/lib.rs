//! Defines what the card and its readers share: DDR commands, address maps, configuration
//! registers, records and frames.
//!
//! Invariant: each format is defined here and nowhere else. The card packs with these constants,
//! the simulator checks with them and the receiver decodes with them. The crate is `no_std`, does
//! not allocate and has no dependencies. These features need the standard library: `toml` (memory
//! descriptions), `json` and `serde`.
#![deny(clippy::missing_errors_doc)]
#![cfg_attr(not(any(feature = "serde", test)), no_std)]

pub mod account;
pub mod address_map;
pub mod block;
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
pub mod record;
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
