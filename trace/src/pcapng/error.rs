//! Why a capture could not be read.

use std::io;

/// Why a capture could not be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The file cannot be opened.
    #[error("cannot open the capture")]
    Open(#[source] io::Error),
    /// The file cannot be read on.
    #[error("cannot read the capture at offset {offset}")]
    Read {
        /// Byte offset reached.
        offset: u64,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// It does not begin as pcapng files do.
    #[error(
        "not a pcapng file ({reason}); if it is a capture of another format, convert it: editcap -F pcapng IN OUT"
    )]
    NotPcapng {
        /// What is wrong.
        reason: String,
    },
    /// A block makes no sense.
    #[error("block at offset {offset} is damaged: {reason}")]
    Damaged {
        /// Byte offset of the block.
        offset: u64,
        /// What is wrong.
        reason: String,
    },
}
