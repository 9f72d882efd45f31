//! Frames to where they are wanted.

use std::io;
use std::path::PathBuf;

use crate::gmii::Frame;

pub mod interface;
pub mod partial;
pub mod pcapng;

/// Takes frames in order of time.
pub trait Sink {
    /// Takes a frame.
    fn frame(&mut self, frame: &Frame) -> Result<(), OutputError>;

    /// All frames were given. A sink that is dropped without this leaves nothing behind.
    fn finish(self: Box<Self>) -> Result<(), OutputError>;
}

/// Why frames could not be delivered.
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
