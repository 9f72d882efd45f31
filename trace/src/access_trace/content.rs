//! Defines the decoded content of a chunk, and the errors of reading a file.

use std::io;

use hmtt_files::access_trace::{
    BlockAccesses, Function, MAGIC, OLDEST_VERSION, RecordedRegion, Unrecorded, VERSION,
};
use thiserror::Error;

/// The reason why a file cannot be read.
#[derive(Debug, Error)]
pub enum ReadError {
    /// The file does not begin with [`MAGIC`], or has no whole header.
    #[error("this is no trace of accesses: it does not begin with {}", String::from_utf8_lossy(&MAGIC))]
    OtherFile,
    /// The version of the format is not one that this library reads.
    #[error(
        "it has version {0} of the format; this program reads versions {OLDEST_VERSION} to {VERSION}"
    )]
    Version(u32),
    /// A chunk, or the header of the file, is damaged.
    #[error("the chunk at byte {at} is damaged: {why}")]
    Damaged {
        /// Offset of the chunk in the file, in bytes.
        at: u64,
        /// What is wrong with the chunk.
        why: &'static str,
    },
    /// The input returned an error.
    #[error("it cannot be read")]
    Input(#[from] io::Error),
}

/// The decoded content of a chunk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    /// Descriptions of functions, whose numbers follow the functions of earlier chunks.
    Functions(Vec<Function>),
    /// Descriptions of blocks and paths, whose numbers follow the blocks and paths of earlier
    /// chunks.
    Blocks(Vec<BlockAccesses>),
    /// Units of a thread.
    Units {
        /// Number of the thread in the system.
        thread: u32,
        /// The base of the segment `fs` before the first unit.
        fs: u64,
        /// The units, 8 bytes each. The first one is a number or a note.
        bytes: Vec<u8>,
    },
    /// The program ran natively here, as the user requested.
    Gap {
        /// Duration, in nanoseconds.
        nanoseconds: u64,
    },
    /// Counts of the code, threads and processes that ran natively up to here although they were to
    /// be recorded.
    Unrecorded(Unrecorded),
    /// The region of instructions that was to be recorded. Files of a whole program have no such
    /// chunk.
    Region(RecordedRegion),
    /// The end of the file: no chunk follows.
    End {
        /// Words of 4 bytes that threads have dropped.
        dropped: u64,
        /// Threads whose last units are missing.
        cut_threads: u64,
    },
}
