//! Writes a stream of bytes to a file, bypassing the page cache.
//!
//! A page-cache write costs ten times the processor time of a direct one (docs/benchmarks.md) and
//! fills memory with pages that nobody reads again. Direct writes must be whole pages, so bytes are
//! staged:
//!
//! ```text
//! file     | written, whole pages      | tail |
//! staging                              | tail | new bytes ...        |
//!                                      ^ at, a multiple of PAGE_BYTES
//! ```
//!
//! [`DiskFile::drain`] writes the whole pages of the staging directly; [`DiskFile::flush`] also
//! writes the tail, through the page cache. The tail stays staged, and the next drain writes it
//! again as part of a page. Space is reserved before the writes, so that a full disk is detected
//! before a unit is cut in two. A pipe, or a file on a file system without direct writes, is
//! written with ordinary writes.
//!
//! Invariant: a file is opened once, when it is created. `O_DIRECT` is switched on and off on that
//! descriptor (`F_SETFL`), because another file could have the path by the time it is opened again.

mod completion;
mod reservation;
mod staging;
mod stream;

use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use nix::sys::resource::{Resource, getrlimit};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};

use super::WriteError;
use super::directory::{Entry, Identity, Removal};
pub use completion::Finished;
use staging::{DRAIN_BYTES, PAGE_BYTES, Staging};
pub(super) use stream::Stalled;
pub use stream::Stop;

/// Size, in bytes, below which a failed write is not retried in smaller pieces.
const SMALL_BYTES: usize = 16 << 10;

/// Units that could not be written to a file.
#[derive(Debug, Default)]
pub struct Leftover {
    /// Bytes of the units, in order.
    pub bytes: Vec<u8>,
    /// Number of units.
    pub units: u64,
}

/// Whether writes bypass the page cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Direct {
    /// The file system has no direct writes.
    Unsupported,
    Off,
    On,
}

/// Kind of the file.
#[derive(Debug)]
enum Kind {
    /// A file that this process created on a disk, with its name.
    Named(Entry, Identity),
    /// A stream: an inherited descriptor, a pipe or a device. It is not read back or truncated.
    Stream(Stop),
}

/// A file being written.
#[derive(Debug)]
pub struct DiskFile {
    path: PathBuf,
    file: File,
    kind: Kind,
    direct: Direct,
    /// Set after a failed write to a stream, which may have cut a unit in two: nothing may be
    /// written after it.
    broken: bool,
    /// Largest length of a file in bytes (`RLIMIT_FSIZE`).
    limit: u64,
    staging: Staging,
    /// File offset of the staging's first byte.
    at: u64,
    reserved: u64,
    can_reserve: bool,
    /// Marks beyond `safe`: file offsets at which the file may end, each with the number of units
    /// since the previous mark.
    marks: Vec<(u64, u64)>,
    /// Last mark up to which all bytes are in the file.
    safe: u64,
    /// Length of the file when it was last flushed.
    flushed: u64,
    /// Set while the file is being finished. Then the space that is reserved for finishing may be
    /// used.
    finishing: bool,
}

impl DiskFile {
    /// Creates a file with permissions `mode`, before the umask is applied. An existing file is an
    /// error unless `overwrite` is set. Then the existing file is removed, not truncated, because
    /// another user may own it or have linked it elsewhere.
    ///
    /// # Errors
    /// If the file exists, is being written by another capture, or cannot be created.
    pub fn create(entry: &Entry, mode: u32, overwrite: bool) -> Result<Self, WriteError> {
        let path = entry.path();
        let failed = |error: io::Error| match error.kind() {
            io::ErrorKind::AlreadyExists => WriteError::Exists(path.clone()),
            _ => WriteError::Create(path.clone(), error),
        };
        if overwrite {
            match entry.remove_unless_live(None) {
                Ok(Removal::Live) => return Err(WriteError::InUse(path)),
                // If another file has the name, the creation below reports it.
                Ok(Removal::Removed | Removal::Gone) => {}
                Err(error) => return Err(WriteError::Create(path, error)),
            }
        }
        let file = entry.create(mode).map_err(failed)?;
        let identity = Identity::from_file(&file).map_err(failed)?;
        Ok(DiskFile::new(path.clone(), file, Kind::Named(entry.clone(), identity)))
    }

    /// Writes to a descriptor that is already open, without seeking. After `stop` was requested, a
    /// reader that does not read for a second is abandoned.
    pub fn stream(path: PathBuf, file: File, stop: Stop) -> Self {
        DiskFile::new(path, file, Kind::Stream(stop))
    }

    fn new(path: PathBuf, file: File, kind: Kind) -> Self {
        let regular = matches!(kind, Kind::Named(..));
        let limit = getrlimit(Resource::RLIMIT_FSIZE).map_or(u64::MAX, |(soft, _)| soft);
        DiskFile {
            path,
            file,
            direct: if regular { Direct::Off } else { Direct::Unsupported },
            kind,
            broken: false,
            limit,
            staging: Staging::default(),
            at: 0,
            reserved: 0,
            can_reserve: regular,
            marks: Vec::new(),
            safe: 0,
            flushed: 0,
            finishing: false,
        }
    }

    fn is_named(&self) -> bool {
        matches!(self.kind, Kind::Named(..))
    }

    /// Path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Length of the file in bytes, including staged bytes.
    pub fn len(&self) -> u64 {
        self.at + self.staging.len() as u64
    }

    /// Whether nothing was written or staged.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Sets a mark: the file may end after the bytes written so far, `units` units after the last
    /// mark.
    #[inline]
    pub fn mark(&mut self, units: u64) {
        let end = self.len();
        self.marks.push((end, units));
    }

    /// Whether enough bytes are staged for a write.
    pub fn is_due(&self) -> bool {
        self.staging.len() >= DRAIN_BYTES
    }

    /// Writes the whole pages that are staged. With `hurry` it writes through the page cache, which
    /// accepts more at once than the disk. A nearly full disk is filled in smaller pieces.
    ///
    /// # Errors
    /// If a write fails.
    pub fn drain(&mut self, hurry: bool) -> io::Result<()> {
        if !self.is_named() {
            return self.drain_stream();
        }
        let mut rest = self.staging.len() & !(PAGE_BYTES - 1);
        let mut piece = rest;
        while rest != 0 {
            piece = piece.min(rest);
            match self.write_staged(piece, hurry) {
                Ok(()) => rest -= piece,
                Err(error) if (is_full(&error) || is_too_large(&error)) && piece > SMALL_BYTES => {
                    piece = (piece / 2).next_multiple_of(PAGE_BYTES);
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn write_staged(&mut self, count: usize, hurry: bool) -> io::Result<()> {
        self.reserve(self.at + count as u64)?;
        self.switch(!hurry);
        let bytes = &self.staging.bytes()[..count];
        match self.file.write_all_at(bytes, self.at) {
            // Some file systems accept the flag and then reject direct writes.
            Err(error)
                if error.kind() == io::ErrorKind::InvalidInput && self.direct == Direct::On =>
            {
                self.switch(false);
                self.direct = Direct::Unsupported;
                self.file.write_all_at(&self.staging.bytes()[..count], self.at)?;
            }
            other => other?,
        }
        self.pass(count);
        Ok(())
    }

    /// Switches direct writes on or off, if the file system supports them.
    fn switch(&mut self, on: bool) {
        let wanted = if on { Direct::On } else { Direct::Off };
        if self.direct == Direct::Unsupported || self.direct == wanted {
            return;
        }
        let set = if on { OFlags::DIRECT } else { OFlags::empty() };
        let switched = fcntl_getfl(&self.file)
            .and_then(|flags| fcntl_setfl(&self.file, (flags - OFlags::DIRECT) | set));
        self.direct = if switched.is_ok() { wanted } else { Direct::Unsupported };
    }

    /// Writes all staged bytes to a stream, in order.
    fn drain_stream(&mut self) -> io::Result<()> {
        let Kind::Stream(stop) = &self.kind else { return Ok(()) };
        if self.broken || self.staging.len() == 0 {
            return Ok(());
        }
        let (written, result) = stream::write(&self.file, self.staging.bytes(), stop);
        self.pass(written);
        self.broken = result.is_err();
        result
    }

    /// Records that the first `count` staged bytes are written.
    fn pass(&mut self, count: usize) {
        self.at += count as u64;
        self.staging.forget(count);
        self.pass_marks(self.at);
    }

    /// Records that all bytes up to the offset `end` are in the file.
    fn pass_marks(&mut self, end: u64) {
        let passed = self.marks.partition_point(|(mark, _)| *mark <= end);
        if let Some(last) = passed.checked_sub(1) {
            self.safe = self.marks[last].0;
            self.marks.drain(..passed);
        }
    }

    /// Writes all staged bytes, so that other processes can read them.
    ///
    /// # Errors
    /// If a write fails.
    pub fn flush(&mut self) -> io::Result<()> {
        if self.flushed == self.len() {
            return Ok(());
        }
        self.drain(false)?;
        if self.staging.len() != 0 {
            self.check_limit(self.len())?;
            self.switch(false);
            self.file.write_all_at(self.staging.bytes(), self.at)?;
        }
        self.pass_marks(self.len());
        self.flushed = self.len();
        Ok(())
    }

    /// Discards staged bytes after a failed write. The file then ends at the last mark up to which
    /// all bytes are in the file. The units after this mark are returned.
    ///
    /// # Errors
    /// If the start of a partly written unit cannot be read back.
    pub fn reclaim(&mut self) -> io::Result<Leftover> {
        if !self.is_named() {
            // It is not known how much the reader of a stream has read, so everything staged is
            // returned.
            let bytes = self.staging.bytes().to_vec();
            self.staging.forget(bytes.len());
            return Ok(Leftover { bytes, units: self.take_marks() });
        }
        let page = self.safe & !(PAGE_BYTES as u64 - 1);
        // The written start of a partly written unit is read back.
        let mut written = vec![0; (self.at - page) as usize];
        if !written.is_empty() {
            self.switch(false);
            self.file.read_exact_at(&mut written, page)?;
        }
        let kept = (self.safe - page) as usize;
        let mut bytes = written.split_off(kept.min(written.len()));
        // Part of the bytes before the mark may still be in the staging.
        let staged = self.staging.bytes();
        let staged_kept = kept - written.len();
        written.extend_from_slice(&staged[..staged_kept]);
        bytes.extend_from_slice(&staged[staged_kept..]);
        self.staging.forget(self.staging.len());
        self.staging.append(&written);
        (self.at, self.flushed) = (page, 0);
        Ok(Leftover { bytes, units: self.take_marks() })
    }

    fn take_marks(&mut self) -> u64 {
        self.marks.drain(..).map(|(_, units)| units).sum()
    }

    /// Number of units that are not in the file.
    pub fn unwritten(&self) -> u64 {
        self.marks.iter().map(|(_, units)| units).sum()
    }
}

/// Whether the error states that the disk is full or a quota is exhausted.
pub(super) fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

/// Whether the error states that a file exceeds the limit of the process (`ulimit -f`) or of the
/// file system.
pub(super) fn is_too_large(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::FileTooLarge
}

impl Write for DiskFile {
    /// Stages the bytes; never fails.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.staging.append(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests;
