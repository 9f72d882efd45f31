//! Bytes of captures to files on a disk: direct writes, compression, rotation, a disk that is full.
//!
//! Knows nothing of what the bytes mean, but where a file may be cut: after each unit its writer
//! marks. Invariant: whatever fails, a file ends at such a mark.

mod compressed;
mod direct;
mod series;

pub use compressed::Output;
pub use direct::{DiskFile, Leftover};
pub use series::{Series, SeriesError};

use std::io;
use std::path::PathBuf;

/// Why a capture could not be written.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// The file is there already.
    #[error("{0} exists; give -f to overwrite it")]
    Exists(PathBuf),
    /// It is a folder.
    #[error("{0} is a directory; name a file in it")]
    Directory(PathBuf),
    /// It is a named pipe, which cannot be followed by another file.
    #[error("{0} is a named pipe: it takes one capture, so there is no -b")]
    Pipe(PathBuf),
    /// It cannot be created.
    #[error("cannot create {0}")]
    Create(PathBuf, #[source] io::Error),
    /// The folder of a series cannot be read, or an old file in it not be removed.
    #[error(transparent)]
    Series(#[from] SeriesError),
    /// There is no room left.
    #[error(
        "no space left for {path}: the capture ends there, and what is in the file is whole; \
         make room, or let old files go with -b files:N"
    )]
    Full {
        /// The file.
        path: PathBuf,
    },
    /// It cannot be written.
    #[error("cannot write {path}")]
    Write {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
}

impl WriteError {
    /// What a failed write to `path` means.
    pub fn at(path: &std::path::Path, source: io::Error) -> Self {
        let path = path.into();
        if direct::is_full(&source) {
            WriteError::Full { path }
        } else {
            WriteError::Write { path, source }
        }
    }
}
