//! Writes frames to a pcapng file or sends them on a network interface.

use std::io;
use std::path::PathBuf;

use crate::gmii::Frame;

pub mod interface;
pub mod partial;
pub mod pcapng;

/// A receiver of frames in order of time.
pub trait Sink {
    /// Takes one frame.
    fn frame(&mut self, frame: &Frame) -> Result<(), OutputError>;

    /// Ends the output after the last frame. A sink that is dropped without `finish` leaves no
    /// file.
    fn finish(self: Box<Self>) -> Result<(), OutputError>;
}

/// Why a frame could not be written or sent.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)]
pub enum OutputError {
    #[error("{} exists; -f overwrites it", path.display())]
    Exists { path: PathBuf },
    #[error("{} is no regular file", path.display())]
    NoFile { path: PathBuf },
    #[error("{}: cannot {operation}", path.display())]
    File { operation: &'static str, path: PathBuf, source: io::Error },
    #[error("{}: cannot write: {reason}", path.display())]
    Block { path: PathBuf, reason: String },
    #[error("{interface}: cannot {operation}")]
    Interface { operation: &'static str, interface: String, source: io::Error },
}
