//! Provides the tables of the query engine: the parts of data sets and the rows of captures, as one
//! table.
//!
//! ```text
//! filters of a query -> pruning        parts and captures that can have rows of the result
//!                    -> access_filter  accesses of captures that can be in the result
//! parts    -> parts                    a scan of Parquet files
//! captures -> capture_stream -> row_batches  decoded rows as batches
//! both     -> provider                 the table
//! ```

mod access_filter;
mod capture_stream;
mod parts;
mod provider;
mod pruning;
mod row_batches;

pub use provider::TraceTable;
