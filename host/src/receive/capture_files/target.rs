//! What `-w` names to how it is written: as a file or files of ours, or as a stream into what is there.
//!
//! [`Target::find`] opens what is opened by its path: the directory, or an inherited descriptor. That comes
//! first, before sockets are open and privileges are given up. Everything after it goes by name below
//! that directory.

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
/// How often it is looked whether a named pipe has a reader.
const TICK: Duration = Duration::from_millis(20);

/// The descriptor that a path stands for, if it does. Such paths lead through links that only this process
/// can change, and so are not opened but taken by their number.
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

/// Where a capture goes.
#[derive(Debug)]
pub struct Target(Opened);

#[derive(Debug)]
enum Opened {
    /// A descriptor that was inherited.
    Descriptor(File, PathBuf),
    /// A name in an open directory.
    Name(Entry),
}

impl Target {
    /// Opens the directory of the plan's path, or finds the inherited descriptor that it names.
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

    /// What the name is to be, whose kind decides. A directory is nothing to write to, one stream no
    /// series, and a link may lead anywhere.
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

/// How a capture is written.
pub(super) enum Resolved {
    /// As one stream, under the name that it has.
    Stream(DiskFile),
    /// As a file, or as files whose names are made from this one.
    File(Entry),
}

/// A descriptor of our own for what was inherited as this number.
pub fn inherited(number: RawFd) -> io::Result<File> {
    // SAFETY: the descriptor is borrowed only for the call, which says so if it is not open.
    let theirs = unsafe { BorrowedFd::borrow_raw(number) };
    Ok(File::from(theirs.try_clone_to_owned()?))
}

/// Opens a named pipe or a device. That of a pipe waits for its reader, or until the capture is to end.
fn open_stream(
    entry: &Entry,
    kind: FileType,
    path: &Path,
    stop: Stop,
) -> Result<DiskFile, WriteError> {
    let failed = |error| WriteError::Create(path.into(), error);
    if kind == FileType::Fifo && entry.seems_planted().map_err(failed)? {
        return Err(WriteError::PlantedPipe(path.into()));
    }
    let file = loop {
        match entry.open(OFlags::WRONLY) {
            Ok(file) => break file,
            // There is no reader yet.
            Err(error) if kind == FileType::Fifo && error.raw_os_error() == Some(libc::ENXIO) => {
                if stop.is_asked() {
                    return Err(WriteError::NoReader(path.into()));
                }
                std::thread::sleep(TICK);
            }
            Err(error) => return Err(failed(error)),
        }
    };
    let status = rustix::fs::fstat(&file).map_err(|error| failed(error.into()))?;
    let is_planted = kind == FileType::Fifo && entry.is_planted(&file).map_err(failed)?;
    if is_planted || FileType::from_raw_mode(status.st_mode) != kind {
        // Replaced between the look and the opening.
        return Err(WriteError::Special(path.into()));
    }
    if file.is_terminal() {
        return Err(WriteError::Terminal(path.into()));
    }
    Ok(DiskFile::stream(path.into(), file, stop))
}
