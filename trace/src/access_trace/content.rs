//! What a chunk contains, and why a file cannot be read.

use std::io;

use hmtt_format::access_trace::{
    BlockAccesses, Function, MAGIC, OLDEST_VERSION, RecordedRegion, Unrecorded, VERSION,
};
use thiserror::Error;

/// Why a file cannot be read.
#[derive(Debug, Error)]
pub enum ReadError {
    /// It is another kind of file.
    #[error("this is no trace of accesses: it does not begin with {}", String::from_utf8_lossy(&MAGIC))]
    OtherFile,
    /// It has a version that is not known.
    #[error(
        "it has version {0} of the format; this program reads versions {OLDEST_VERSION} to {VERSION}"
    )]
    Version(u32),
    /// A chunk is damaged.
    #[error("the chunk at byte {at} is damaged: {why}")]
    Damaged {
        /// Offset of the chunk in the file.
        at: u64,
        /// What is wrong with it.
        why: &'static str,
    },
    /// It cannot be read.
    #[error("it cannot be read")]
    Input(#[from] io::Error),
}

/// The content of a chunk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    /// Descriptions of functions.
    Functions(Vec<Function>),
    /// Descriptions of blocks.
    Blocks(Vec<BlockAccesses>),
    /// Units of a thread.
    Units {
        /// Number of the thread in the system.
        thread: u32,
        /// The base of the segment `fs` before them.
        fs: u64,
        /// The units.
        bytes: Vec<u8>,
    },
    /// The program ran natively, as was asked for.
    Gap {
        /// For how long, in nanoseconds.
        nanoseconds: u64,
    },
    /// What has run natively although that was not asked for, up to here.
    Unrecorded(Unrecorded),
    /// Only a region was to be recorded.
    Region(RecordedRegion),
    /// Nothing follows.
    End {
        /// Words of 4 bytes that threads have dropped.
        dropped: u64,
        /// Threads whose last units are missing.
        cut_threads: u64,
    },
}
