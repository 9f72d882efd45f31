//! Bytes of captures to files on a disk: direct writes, compression, rotation, a disk that is full.
//!
//! Knows nothing of what the bytes mean, but where a file may be cut: after each unit its writer
//! marks. Invariant: whatever fails, a file ends at such a mark.
//!
//! The directory that files go to may be written by others, who are not trusted: see [`Directory`]. A file
//! that is being written is locked (`flock`), so that no other capture removes or replaces it; one that is
//! removed or replaced all the same is reported as [`LostFile`].

mod compressed;
mod direct;
mod directory;
mod durable;
mod series;

pub use compressed::Output;
pub use direct::{DiskFile, Finished, Leftover, Stop};
pub use directory::{Directory, Entry, Identity, Removal};
pub use durable::{Ended, Fate, LostFile, LostFiles, Syncer};
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
    /// It is a symbolic link, which somebody else may have put there.
    #[error("{0} is a symbolic link, which is not followed; name the file itself")]
    Link(PathBuf),
    /// It is a socket or a disk.
    #[error("{0} is no file, named pipe or character device")]
    Special(PathBuf),
    /// A named pipe of another user in a directory that everybody may write to.
    #[error(
        "{0} is a named pipe that another user put into a directory which everybody may write to"
    )]
    PlantedPipe(PathBuf),
    /// No descriptor of that number was inherited.
    #[error("{0} is not open")]
    NotOpen(PathBuf),
    /// Frames hold whatever was on the wire, control sequences included.
    #[error("{0} is a terminal; a capture is no text: redirect it, or name a file")]
    Terminal(PathBuf),
    /// A capture writes it.
    #[error("{0} is being written by another capture")]
    InUse(PathBuf),
    /// The capture was to end before a named pipe had a reader.
    #[error("{0} was given up: nobody opened the named pipe for reading")]
    NoReader(PathBuf),
    /// It is a named pipe, which cannot be followed by another file.
    #[error("{0} is a named pipe: it takes one capture, so there is no -b")]
    Pipe(PathBuf),
    /// It cannot be created.
    #[error("cannot create {0}")]
    Create(PathBuf, #[source] io::Error),
    /// Its directory cannot be opened.
    #[error("cannot open the directory of {0}")]
    OpenDirectory(PathBuf, #[source] io::Error),
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
    /// The limit on the size of files is reached.
    #[error(
        "{path} has reached the limit on the size of files (ulimit -f, or that of its file system): \
         the capture ends there, and what is in the file is whole; raise the limit, or go on in \
         other files with -b filesize:SIZE"
    )]
    TooLarge {
        /// The file.
        path: PathBuf,
    },
    /// The reader of a stream stopped reading.
    #[error("{path} was given up: its reader takes nothing, and the capture was to end")]
    Stalled {
        /// The stream.
        path: PathBuf,
    },
    /// The file may not survive a loss of power.
    #[error("cannot make {path} durable (fsync): part of it may be lost")]
    Sync {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
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
        let is_stalled = source.get_ref().is_some_and(|inner| inner.is::<direct::Stalled>());
        if direct::is_full(&source) {
            WriteError::Full { path }
        } else if direct::is_too_large(&source) {
            WriteError::TooLarge { path }
        } else if is_stalled {
            WriteError::Stalled { path }
        } else {
            WriteError::Write { path, source }
        }
    }
}
