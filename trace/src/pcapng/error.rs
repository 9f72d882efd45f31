//! Defines the errors of reading a capture.

use std::io;
use std::path::PathBuf;

/// The reason why a capture could not be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The file cannot be opened.
    #[error("cannot open the capture")]
    Open(#[source] io::Error),
    /// Reading the file failed.
    #[error("cannot read the capture at offset {offset}")]
    Read {
        /// Byte offset at which reading failed.
        offset: u64,
        /// The error of the file system.
        #[source]
        source: io::Error,
    },
    /// The file does not begin with a section header of pcapng, nor with the header of classic
    /// pcap.
    #[error(
        "not a pcapng or pcap file ({reason}); if it is a capture of another format, convert it: editcap -F pcapng IN OUT"
    )]
    NotPcapng {
        /// Description of the problem.
        reason: String,
    },
    /// A block is invalid.
    #[error("block at offset {offset} is damaged: {reason}")]
    Damaged {
        /// Byte offset of the block.
        offset: u64,
        /// Description of the problem.
        reason: String,
    },
    /// One of several captures could not be read.
    #[error("{}", path.display())]
    Capture {
        /// Path of the capture.
        path: PathBuf,
        /// The error of reading this capture.
        #[source]
        source: Box<ReadError>,
    },
}
