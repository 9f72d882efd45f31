//! Answers SQL queries over data sets, and over captures without conversion.
//!
//! ```text
//! paths    -> sources    data sets and captures
//! URLs     -> remote     data sets in object stores; `push` copies data sets there
//! sources  -> table      tables of the query engine: parts of data sets, pruned; rows of captures, decoded
//!             functions  pages, lines, banks and rows of addresses; functions of programs; histograms, stack distances
//! query    -> engine     plan -> batches of rows, with a limit of memory
//! plan     -> addresses  which columns of the result are addresses
//! batches  -> output     table, CSV, JSON, Parquet
//! ```
//!
//! DataFusion plans and executes the queries. `docs/sql.md` describes the language and the tables,
//! `docs/dataset.md` the columns.
//!
//! Invariants: a capture has the rows that it would have in a data set. Pruning leaves out only
//! parts and accesses that cannot have rows of the result. A part that cannot be read is named, and
//! is left out only on request.

#![deny(clippy::missing_errors_doc, clippy::missing_panics_doc)]

mod addresses;
pub mod command;
mod damage;
mod engine;
mod functions;
mod hexadecimal;
mod memory;
mod order;
pub mod output;
pub mod push;
pub mod remote;
mod schema;
mod shared;
mod sources;
mod store;
mod table;
mod tags;

pub use engine::{Engine, EngineError, EngineOptions, Query};
pub use functions::{read_state, register_all, write_state};
pub use shared::{Counts, Shared};
pub use sources::{SourceError, Sources};
