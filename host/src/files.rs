//! Writes the bytes of captures to files: direct writes, compression, rotation, handling of a full
//! disk.
//!
//! This module does not interpret the bytes. It knows only where a file may end: at the marks that
//! the writer sets after each unit (a pcapng block). Invariant: whatever fails, a file ends at a
//! mark.
//!
//! Users who are not trusted may have write access to the directory of the files: see
//! [`Directory`]. A file that is being written is locked (`flock`), so that no other capture
//! removes or replaces it. A file that is removed or replaced nevertheless is reported as a
//! [`LostFile`].

mod compressed;
mod direct;
mod directory;
mod durability;
mod series;

pub use compressed::Output;
pub use direct::{DiskFile, Finished, Leftover, Stop};
pub use directory::{Directory, Entry, Identity, Removal};
pub use durability::{Fate, LostFile, LostFiles, Syncer, UnsyncedFile};
pub use series::{Series, SeriesError};

use std::io;
use std::path::PathBuf;

/// Why a capture could not be written.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// The file exists.
    #[error("{0} exists; give -f to overwrite it")]
    Exists(PathBuf),
    /// The path names a directory.
    #[error("{0} is a directory; name a file in it")]
    Directory(PathBuf),
    /// The path names a symbolic link, which another user may have created.
    #[error("{0} is a symbolic link, which is not followed; name the file itself")]
    Link(PathBuf),
    /// The path names a socket or a block device.
    #[error("{0} is not a file, named pipe or character device")]
    Special(PathBuf),
    /// The path names a pipe of another user in a directory that everybody may write to.
    #[error(
        "{0} is a named pipe that another user put into a directory which everybody may write to"
    )]
    ForeignPipe(PathBuf),
    /// No descriptor of that number was inherited.
    #[error("{0} is not open")]
    NotOpen(PathBuf),
    /// The output is a terminal. Frames may contain control sequences.
    #[error("{0} is a terminal; a capture is not text: redirect it, or name a file")]
    Terminal(PathBuf),
    /// Another capture is writing the file.
    #[error("{0} is being written by another capture")]
    InUse(PathBuf),
    /// The capture was asked to end before a reader opened the named pipe.
    #[error("{0} was given up: nobody opened the named pipe for reading")]
    NoReader(PathBuf),
    /// The path names a pipe, which cannot be rotated.
    #[error("{0} is a named pipe, which cannot be rotated: -b is not possible")]
    Pipe(PathBuf),
    /// The file cannot be created.
    #[error("cannot create {0}")]
    Create(PathBuf, #[source] io::Error),
    /// The directory of the file cannot be opened.
    #[error("cannot open the directory of {0}")]
    OpenDirectory(PathBuf, #[source] io::Error),
    /// The directory of a series cannot be read, or an old file in it cannot be removed.
    #[error(transparent)]
    Series(#[from] SeriesError),
    /// There is no space left on the disk, or in the user's quota.
    #[error(
        "no space left for {path}: the capture ends, and every frame in the file is complete; \
         free some space, or let old files be removed with -b files:N"
    )]
    Full {
        /// Path of the file.
        path: PathBuf,
    },
    /// The limit on the size of files is reached.
    #[error(
        "{path} has reached the limit on the size of files (ulimit -f, or that of its file system): \
         the capture ends, and every frame in the file is complete; raise the limit, or continue in \
         other files with -b filesize:SIZE"
    )]
    TooLarge {
        /// Path of the file.
        path: PathBuf,
    },
    /// The reader of a stream stopped reading, and the capture was asked to end.
    #[error("{path} was given up: its reader stopped reading, and the capture was asked to end")]
    Stalled {
        /// Path of the stream.
        path: PathBuf,
    },
    /// The file may not survive a loss of power.
    #[error("cannot make {path} durable (fsync): part of it may be lost")]
    Sync {
        /// Path of the file.
        path: PathBuf,
        /// Error of the system call.
        #[source]
        source: io::Error,
    },
    /// The file cannot be written.
    #[error("cannot write {path}")]
    Write {
        /// Path of the file.
        path: PathBuf,
        /// Error of the system call.
        #[source]
        source: io::Error,
    },
}

impl WriteError {
    /// Classifies the error of a failed write to `path`.
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
