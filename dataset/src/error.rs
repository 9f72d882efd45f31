//! Defines the errors of reading and changing a data set.

use std::io;
use std::path::{Path, PathBuf};

use hmtt::analysis::source::MOST_MEMORIES;
use hmtt::pcapng::ReadError;
use hmtt::table::TableError;
use hmtt::tags::log_reader::TagLogError;
use hmtt_files::tag_map::TagMapError;
use parquet::errors::ParquetError;

/// The reason why a data set could not be read or changed.
#[derive(Debug, thiserror::Error)]
pub enum DatasetError {
    /// A file or folder could not be read, written, renamed or removed.
    #[error("{}: cannot {operation}", path.display())]
    File {
        /// The operation that has failed, such as "read".
        operation: &'static str,
        /// Path of the file or folder.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// A capture could not be read.
    #[error("{}", path.display())]
    Capture {
        /// Path of the capture.
        path: PathBuf,
        /// The reason.
        source: ReadError,
    },
    /// A log of tags could not be read.
    #[error("{}", path.display())]
    Log {
        /// Path of the log.
        path: PathBuf,
        /// The reason.
        source: TagLogError,
    },
    /// The map of a log of tags, which names the functions, could not be read.
    #[error("{}: its map, which names the functions, is beside it as LOG.json", path.display())]
    Map {
        /// Path of the log.
        path: PathBuf,
        /// The reason.
        source: TagMapError,
    },
    /// The map beside a log belongs to another log.
    #[error("{name}: {name}.json is the map of another log", name = .0.display())]
    OtherMap(PathBuf),
    /// A capture or log is still being written.
    #[error("{} is being written; add it when it is finished", .0.display())]
    Unfinished(PathBuf),
    /// A capture has no frame of a card.
    #[error("{}: no frame of a card is in it: it is the capture of another wire, or no card has sent anything", path.display())]
    NoFrames {
        /// Path of the capture.
        path: PathBuf,
    },
    /// A frame has no arrival time, which determines its partition.
    #[error("{}: packet {packet} has no arrival time", path.display())]
    Undated {
        /// Path of the capture.
        path: PathBuf,
        /// Number of the packet, from 1.
        packet: u64,
    },
    /// A capture would have too many parts, because its arrival times jump from hour to hour. No
    /// receiver writes such times.
    #[error("{}: its times are in more than {most} hours in turn", path.display())]
    Scattered {
        /// Path of the capture.
        path: PathBuf,
        /// Maximum number of parts of a capture.
        most: usize,
    },
    /// A clock is too large for a column.
    #[error("clock {0} is beyond 2^63")]
    Clock(u64),
    /// A part could not be read.
    #[error("{}", path.display())]
    Part {
        /// Path of the part.
        path: PathBuf,
        /// The reason.
        source: TableError,
    },
    /// A part could not be encoded.
    #[error(transparent)]
    Parquet(#[from] ParquetError),
    /// The folder is no data set.
    #[error("{} is no data set: it has no tables", .0.display())]
    NoDataset(PathBuf),
    /// The data set has more boards than can be analysed together; a board counts once for each
    /// run.
    #[error("the data set has {0} boards of runs; at most {MOST_MEMORIES} are analysed together")]
    Boards(usize),
    /// The journal of an interrupted change is damaged, or has steps that no change of a data set
    /// has.
    #[error(
        "{}: damaged; the change that it states cannot be completed. Remove its folder in .staging if the data set is yours",
        .0.display()
    )]
    Journal(PathBuf),
    /// A file or folder that would be changed does not belong to this user alone.
    #[error("{}: only the user who owns a data set changes it", path.display())]
    Foreign {
        /// Path of the folder or file.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// A file that has the name of a part is no regular file.
    #[error("{}: neither a file nor a part of a data set; links are not followed", .0.display())]
    NoPart(PathBuf),
    /// The data set changed during each of many attempts to list its parts.
    #[error("{} is being changed all the time; try again when that has ended", .0.display())]
    Busy(PathBuf),
}

impl DatasetError {
    /// Makes the error of a failed operation on a file.
    pub(crate) fn file(operation: &'static str, path: &Path, source: io::Error) -> Self {
        DatasetError::File { operation, path: path.to_owned(), source }
    }

    /// Makes the error of a failed change: the operation failed, or this user may not change the
    /// data set.
    pub(crate) fn change(operation: &'static str, path: &Path, source: io::Error) -> Self {
        // An error from the system has a number; otherwise the file was refused as foreign.
        if source.raw_os_error().is_some() {
            return DatasetError::file(operation, path, source);
        }
        DatasetError::Foreign { path: path.to_owned(), source }
    }

    /// Returns a function that makes errors of reading the log at `path`.
    pub(crate) fn log(path: &Path) -> impl Fn(TagLogError) -> DatasetError {
        move |source| DatasetError::Log { path: path.to_owned(), source }
    }

    /// The message of this error with the messages of all causes.
    pub fn in_full(&self) -> String {
        let mut text = self.to_string();
        let mut cause = std::error::Error::source(self);
        while let Some(error) = cause {
            text.push_str(&format!(": {error}"));
            cause = error.source();
        }
        text
    }

    /// Makes the error of reading a part.
    pub(crate) fn part(path: &Path, source: impl Into<TableError>) -> Self {
        DatasetError::Part { path: path.to_owned(), source: source.into() }
    }
}
