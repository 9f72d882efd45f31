//! Reads and writes files with the accesses of a program, as `hmtt trace` records them.
//!
//! [`Writer`] writes the units of threads. [`read`] decodes a file: each access has a virtual
//! address, the address of its instruction, and its thread. With [`visit`], a [`Visitor`] receives
//! the executed blocks too, with their code and functions: [`Summary`] is such a visitor. [`table`]
//! writes accesses as CSV, JSON lines and Parquet. [`Decoder`] decodes units before they are in a
//! file. [`RegionCutter`] extracts a region of a thread's instructions from its units.
//! [`EachElement`] splits string instructions, as far as an [`ElementBudget`] allows.
//! `hmtt_files::access_trace` defines the format.

mod chunk;
mod column;
mod columns;
mod content;
mod decode;
mod decoders;
mod differences;
mod element_budget;
pub(crate) mod elements;
mod encoder;
mod encoders;
mod file_numbers;
mod kept;
mod numbers;
mod predictor;
mod reader;
mod region;
mod summary;
#[cfg(feature = "tables")]
pub mod table;
mod visitor;
mod writer;

pub use content::{Content, ReadError};
pub use decode::{Decoder, Ending, read, visit};
pub use element_budget::{ElementBudget, MOST_ELEMENTS, Refused};
pub use elements::{EachElement, Elements, MOST_ACCESS_BYTES};
pub use reader::ChunkReader;
pub use region::{CutUnits, RegionCutter, RegionStage, SeenInRegion};
pub use summary::{Summary, Sums};
pub use visitor::{Accesses, Executed, Gap, ThreadAccess, Visitor};
pub use writer::{Writer, WriterOptions};

#[cfg(test)]
mod tests;
