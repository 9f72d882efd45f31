//! A stream of bytes to a file, past the page cache.
//!
//! A page-cache write costs ten times the processor time of a direct one (docs/benchmarks.md) and
//! fills memory with pages nobody reads again. Direct writes must be whole pages, so bytes are staged:
//!
//! ```text
//! file     | written, whole pages      | tail |
//! staging                              | tail | new bytes ...        |
//!                                      ^ at, a multiple of PAGE_BYTES
//! ```
//!
//! [`DiskFile::drain`] writes the whole pages of the staging directly; [`DiskFile::flush`] also
//! writes the tail, through the page cache, and keeps it staged: the next drain writes it again as
//! part of a page. Space is reserved ahead of the writes, so a full disk shows before anything is
//! cut in two. Where the file is none on a disk (a pipe, a file system without direct writes), plain
//! writes take their place.
//!
//! Invariant: a file is opened once, when it is created. `O_DIRECT` is switched on and off on that descriptor
//! (`F_SETFL`): to open the path again would follow whatever stands there by then.

mod ending;
mod reserve;
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
pub use ending::Finished;
use staging::{DRAIN_BYTES, PAGE_BYTES, Staging};
pub(super) use stream::Stalled;
pub use stream::Stop;

/// What is too little to be tried in smaller pieces.
const SMALL_BYTES: usize = 16 << 10;

/// Units that did not reach a file that failed.
#[derive(Debug, Default)]
pub struct Leftover {
    /// Their bytes, one after the other.
    pub bytes: Vec<u8>,
    /// How many units.
    pub units: u64,
}

/// Whether writes pass the page cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Direct {
    /// The file system has no direct writes.
    Unsupported,
    Off,
    On,
}

/// Where a file ends up.
#[derive(Debug)]
enum Kind {
    /// A file of ours on a disk, under a name.
    Named(Entry, Identity),
    /// What was open already, or has a reader: nothing is read back or cut.
    Stream(Stop),
}

/// A file being written.
#[derive(Debug)]
pub struct DiskFile {
    path: PathBuf,
    file: File,
    kind: Kind,
    direct: Direct,
    /// A failed write to a stream may have cut a unit in two: nothing may follow it.
    broken: bool,
    /// Bytes that a file may have (`RLIMIT_FSIZE`).
    limit: u64,
    staging: Staging,
    /// File offset of the staging's first byte.
    at: u64,
    reserved: u64,
    can_reserve: bool,
    /// File offsets after which the file may end, beyond `safe`, each with the units since the one
    /// before.
    marks: Vec<(u64, u64)>,
    /// The last such offset up to which all is in the file.
    safe: u64,
    /// Length of the file when it was last flushed.
    flushed: u64,
    /// What was kept free to finish the file may be used.
    finishing: bool,
}

impl DiskFile {
    /// Creates a file with these permissions, less the umask. One that is there is refused unless
    /// `overwrite`, which replaces it: it is removed, not emptied, because somebody else may own it or
    /// have linked it elsewhere.
    pub fn create(entry: &Entry, mode: u32, overwrite: bool) -> Result<Self, WriteError> {
        let path = entry.path();
        let failed = |error: io::Error| match error.kind() {
            io::ErrorKind::AlreadyExists => WriteError::Exists(path.clone()),
            _ => WriteError::Create(path.clone(), error),
        };
        if overwrite {
            match entry.remove_unless_live(None) {
                Ok(Removal::Live) => return Err(WriteError::InUse(path)),
                // Whatever else has the name is found by the creation.
                Ok(Removal::Removed | Removal::Gone) => {}
                Err(error) => return Err(WriteError::Create(path, error)),
            }
        }
        let file = entry.create(mode).map_err(failed)?;
        let identity = Identity::of_file(&file).map_err(failed)?;
        Ok(DiskFile::new(path.clone(), file, Kind::Named(entry.clone(), identity)))
    }

    /// Writes to what is open already, without going back in it. Once `stop` is asked for, a reader
    /// that takes nothing is given up.
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

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Bytes it has or will have.
    pub fn len(&self) -> u64 {
        self.at + self.staging.len() as u64
    }

    /// Whether nothing was written yet.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Says that the file may end after what was written last, so many units after the last mark.
    #[inline]
    pub fn mark(&mut self, units: u64) {
        let end = self.len();
        self.marks.push((end, units));
    }

    /// Whether enough is staged for a write.
    pub fn is_due(&self) -> bool {
        self.staging.len() >= DRAIN_BYTES
    }

    /// Writes the whole pages that are staged. `hurry`: through the page cache, which takes more at
    /// once than the disk. A disk that is nearly full gets as much as it takes.
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
            // Not every file system that lets a file be switched to direct writes takes them.
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

    /// Switches direct writes on or off, where the file system has them.
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

    /// Writes all that is staged to a stream, in order.
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

    /// Takes note that so many staged bytes are written.
    fn pass(&mut self, count: usize) {
        self.at += count as u64;
        self.staging.forget(count);
        self.pass_marks(self.at);
    }

    /// Takes note that everything up to `end` is in the file.
    fn pass_marks(&mut self, end: u64) {
        let passed = self.marks.partition_point(|(mark, _)| *mark <= end);
        if let Some(last) = passed.checked_sub(1) {
            self.safe = self.marks[last].0;
            self.marks.drain(..passed);
        }
    }

    /// Makes everything so far readable by others.
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

    /// Gives up what is staged after a failed write: the file goes on after its last mark, and the
    /// units beyond come back.
    pub fn reclaim(&mut self) -> io::Result<Leftover> {
        if !self.is_named() {
            // Nobody knows how much of a pipe was read: all of it is given up.
            let bytes = self.staging.bytes().to_vec();
            self.staging.forget(bytes.len());
            return Ok(Leftover { bytes, units: self.take_marks() });
        }
        let page = self.safe & !(PAGE_BYTES as u64 - 1);
        // Of a unit whose start was written and whose rest was not, the start must be read back.
        let mut written = vec![0; (self.at - page) as usize];
        if !written.is_empty() {
            self.switch(false);
            self.file.read_exact_at(&mut written, page)?;
        }
        let kept = (self.safe - page) as usize;
        let mut bytes = written.split_off(kept.min(written.len()));
        // The tail of the staging that was not written may hold what is kept, too.
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

    /// Units that are not in the file: those of the marks that were not passed.
    pub fn unwritten(&self) -> u64 {
        self.marks.iter().map(|(_, units)| units).sum()
    }
}

/// Whether there is no room, on the disk or for this user.
pub(super) fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

/// Whether the file would be larger than this process (`ulimit -f`) or its file system lets it be.
pub(super) fn is_too_large(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::FileTooLarge
}

impl Write for DiskFile {
    /// Stages; never fails.
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
