//! Data sets: the traces of many boards and days as Parquet files under Hive-style partitions,
//! which databases read as they are.
//!
//! ```text
//! capture -> identity  hash of the bytes, which names the parts
//!         -> capture   decoded: accesses, rows -> part   a Parquet file of one partition
//!                                              -> staging publishes all parts of a capture
//!                      or only the rows, for queries
//! tag log -> log       calls and threads -> part, published in the same way
//! parts   -> listing   parts of complete changes, for readers
//!         -> check     counts, order and gaps, compared with what the captures counted
//!         -> compact   small parts of a partition -> one part
//!         -> pieces    accesses in pieces, for analyses
//! files   -> follow    adds each file that a receiver has finished
//! a path  -> readable_folder  opens a path below a folder that another process names
//! ```
//!
//! [`Dataset`] is the entry point. A *part* is a Parquet file; its folder states the table
//! ([`Table`]), the run, the board and the hour ([`Partition`]). `docs/dataset.md` defines the
//! columns.
//!
//! Invariants: a part appears whole or not at all. A reader sees all parts of a capture or none; an
//! interrupted publication is completed by the next command that changes the data set. The same
//! capture added again changes nothing. Readers change nothing, wait for nobody and follow no link.
//! Writers change only what belongs to their user (`data_folder`, `journal`).

#![deny(clippy::missing_errors_doc, clippy::missing_panics_doc)]

mod accesses;
mod capture;
mod card_counts;
mod check;
mod clock;
mod compact;
mod data_folder;
mod dataset;
mod error;
mod follow;
mod hour;
mod identity;
mod journal;
mod listing;
mod log;
mod part;
mod partition;
mod pieces;
mod readable_folder;
mod reader;
mod rows;
mod schema;
mod staging;

pub use capture::{CaptureRows, RowOptions, RowSink};
pub use check::Check;
pub use compact::Compacted;
pub use dataset::{AddOptions, Added, Dataset};
pub use error::DatasetError;
pub use follow::{Followed, Follower};
pub use hour::Hour;
pub use identity::CaptureHash;
pub use log::LogCounts;
pub use partition::{Partition, default_run, escape, unescape};
pub use pieces::{
    ANALYSED_TABLES, Memory, PLANNED_TABLES, Piece, PieceState, Plan, ReadRows, StateError,
    address_map,
};
pub use readable_folder::ReadableFolder;
pub use rows::Value;
pub use schema::{Column, Kind, Table};
