//! Resolves the path of `-w` to a new file, a series of files, or a stream into an existing pipe,
//! device or descriptor.
//!
//! [`Target::find`] opens the directory of the path, or takes the inherited descriptor that the
//! path names. This function is called first, before sockets are opened and privileges are dropped.
//! All later operations use names in that directory.

use std::fs::File;
use std::io::{self, IsTerminal};
use std::os::fd::{BorrowedFd, RawFd};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{FileType, OFlags};

use super::FilePlan;
use crate::files::{DiskFile, Entry, Stop, WriteError};

/// The path that stands for standard output.
const STANDARD_OUTPUT: &str = "-";
/// Interval at which a named pipe is checked for a reader.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Number of the descriptor that a path stands for; `None` for other paths. Such paths are not
/// opened: the descriptor is used directly.
pub fn descriptor(path: &Path) -> Option<RawFd> {
    let name = path.to_str()?;
    match name {
        STANDARD_OUTPUT | "/dev/stdout" => return Some(1),
        "/dev/stderr" => return Some(2),
        _ => {}
    }
    let number = name.strip_prefix("/dev/fd/").or_else(|| name.strip_prefix("/proc/self/fd/"))?;
    number.parse().ok().filter(|number| *number >= 0)
}

/// Destination of a capture.
#[derive(Debug)]
pub struct Target(Opened);

#[derive(Debug)]
enum Opened {
    /// An inherited descriptor.
    Descriptor(File, PathBuf),
    /// A name in an open directory.
    Name(Entry),
}

impl Target {
    /// Opens the directory of the plan's path, or duplicates the inherited descriptor that the path
    /// names.
    ///
    /// # Errors
    /// If the directory cannot be opened, or the descriptor is not open or is a terminal.
    pub fn find(plan: &FilePlan) -> Result<Self, WriteError> {
        let path = || plan.path.clone();
        let Some(number) = descriptor(&plan.path) else {
            let entry = Entry::find(&plan.path).ok_or_else(|| WriteError::Directory(path()))?;
            let entry = entry.map_err(|error| WriteError::OpenDirectory(path(), error))?;
            return Ok(Target(Opened::Name(entry)));
        };
        let name = if number == 1 { "standard output".into() } else { path() };
        let own = inherited(number).map_err(|_| WriteError::NotOpen(path()))?;
        if own.is_terminal() {
            return Err(WriteError::Terminal(name));
        }
        if plan.rotation.is_some() {
            return Err(WriteError::Pipe(name));
        }
        Ok(Target(Opened::Descriptor(own, name)))
    }

    /// Decides by the type of the existing file how the capture is written. Directories and
    /// symbolic links are rejected, as is a series of files into a stream.
    pub(super) fn resolve(self, plan: &FilePlan, stop: Stop) -> Result<Resolved, WriteError> {
        let entry = match self.0 {
            Opened::Descriptor(file, path) => {
                return Ok(Resolved::Stream(DiskFile::stream(path, file, stop)));
            }
            Opened::Name(entry) => entry,
        };
        let path = plan.path.clone();
        let kind = entry.kind().map_err(|error| WriteError::Create(path.clone(), error))?;
        match kind {
            None | Some(FileType::RegularFile) => Ok(Resolved::File(entry)),
            Some(FileType::Directory) => Err(WriteError::Directory(path)),
            Some(FileType::Symlink) => Err(WriteError::Link(path)),
            Some(FileType::Fifo | FileType::CharacterDevice) if plan.rotation.is_some() => {
                Err(WriteError::Pipe(path))
            }
            Some(FileType::CharacterDevice) if !plan.overwrite => Err(WriteError::Exists(path)),
            Some(kind @ (FileType::Fifo | FileType::CharacterDevice)) => {
                open_stream(&entry, kind, &path, stop).map(Resolved::Stream)
            }
            Some(_) => Err(WriteError::Special(path)),
        }
    }
}

/// Resolved destination of a capture.
pub(super) enum Resolved {
    /// A stream.
    Stream(DiskFile),
    /// A file, or files whose names are derived from this one.
    File(Entry),
}

/// Duplicates an inherited descriptor.
///
/// # Errors
/// If it is not open.
pub fn inherited(number: RawFd) -> io::Result<File> {
    // SAFETY: the descriptor is borrowed only for the call, which returns an error if it is not
    // open.
    let borrowed = unsafe { BorrowedFd::borrow_raw(number) };
    Ok(File::from(borrowed.try_clone_to_owned()?))
}

/// Opens a named pipe or a device. Waits until a pipe has a reader, or until the end of the capture
/// is requested.
fn open_stream(
    entry: &Entry,
    kind: FileType,
    path: &Path,
    stop: Stop,
) -> Result<DiskFile, WriteError> {
    let failed = |error| WriteError::Create(path.into(), error);
    if kind == FileType::Fifo && entry.names_foreign().map_err(failed)? {
        return Err(WriteError::ForeignPipe(path.into()));
    }
    let file = loop {
        match entry.open(OFlags::WRONLY) {
            Ok(file) => break file,
            // There is no reader yet.
            Err(error) if kind == FileType::Fifo && error.raw_os_error() == Some(libc::ENXIO) => {
                if stop.is_asked() {
                    return Err(WriteError::NoReader(path.into()));
                }
                std::thread::sleep(POLL_INTERVAL);
            }
            Err(error) => return Err(failed(error)),
        }
    };
    let status = rustix::fs::fstat(&file).map_err(|error| failed(error.into()))?;
    let is_foreign = kind == FileType::Fifo && entry.is_foreign(&file).map_err(failed)?;
    if is_foreign || FileType::from_raw_mode(status.st_mode) != kind {
        // The file was replaced between the check and the opening.
        return Err(WriteError::Special(path.into()));
    }
    if file.is_terminal() {
        return Err(WriteError::Terminal(path.into()));
    }
    Ok(DiskFile::stream(path.into(), file, stop))
}
