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

mod reserve;
mod staging;

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use super::WriteError;
use staging::{DRAIN_BYTES, PAGE_BYTES, Staging};

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

/// A file being written.
#[derive(Debug)]
pub struct DiskFile {
    path: PathBuf,
    file: File,
    /// The same file for direct writes, where there are such.
    direct: Option<File>,
    regular: bool,
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
    /// Creates `path`; an existing file is refused unless `overwrite`.
    pub fn create(path: &Path, overwrite: bool) -> Result<Self, WriteError> {
        let mut options = OpenOptions::new();
        options.write(true);
        if overwrite {
            options.create(true).truncate(true);
        } else {
            options.create_new(true);
        }
        let file = options.open(path).map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => WriteError::Exists(path.into()),
            _ => WriteError::Create(path.into(), error),
        })?;
        let regular = file.metadata().is_ok_and(|metadata| metadata.is_file());
        Ok(DiskFile::new(path.into(), file, regular))
    }

    /// Writes to what is open already, without going back in it.
    pub fn stream(path: PathBuf, file: File) -> Self {
        DiskFile::new(path, file, false)
    }

    fn new(path: PathBuf, file: File, regular: bool) -> Self {
        let direct = || OpenOptions::new().write(true).custom_flags(libc::O_DIRECT).open(&path);
        let direct = if regular { direct().ok() } else { None };
        DiskFile {
            path,
            file,
            direct,
            regular,
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
        let staged = self.staging.len();
        let mut rest = if self.regular { staged & !(PAGE_BYTES - 1) } else { staged };
        let mut piece = rest;
        while rest != 0 {
            piece = piece.min(rest);
            match self.write_staged(piece, hurry) {
                Ok(()) => rest -= piece,
                Err(error) if is_full(&error) && piece > SMALL_BYTES => {
                    piece = (piece / 2).next_multiple_of(PAGE_BYTES);
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn write_staged(&mut self, count: usize, hurry: bool) -> io::Result<()> {
        self.reserve(self.at + count as u64)?;
        let bytes = &self.staging.bytes()[..count];
        match &self.direct {
            Some(direct) if !hurry => match direct.write_all_at(bytes, self.at) {
                // Not every file system that opens a file for direct writes takes them.
                Err(error) if error.kind() == io::ErrorKind::InvalidInput => {
                    self.direct = None;
                    self.file.write_all_at(bytes, self.at)?;
                }
                other => other?,
            },
            _ if self.regular => self.file.write_all_at(bytes, self.at)?,
            _ => self.file.write_all(bytes)?,
        }
        self.at += count as u64;
        self.staging.forget(count);
        self.pass_marks(self.at);
        Ok(())
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
            self.file.write_all_at(self.staging.bytes(), self.at)?;
        }
        self.pass_marks(self.len());
        self.flushed = self.len();
        Ok(())
    }

    /// Gives up what is staged after a failed write: the file goes on after its last mark, and the
    /// units beyond come back.
    pub fn reclaim(&mut self) -> io::Result<Leftover> {
        if !self.regular {
            // Nobody knows how much of a pipe was read: all of it is given up.
            let bytes = self.staging.bytes().to_vec();
            self.staging.forget(bytes.len());
            return Ok(Leftover { bytes, units: self.take_marks() });
        }
        let page = self.safe & !(PAGE_BYTES as u64 - 1);
        // Of a unit whose start was written and whose rest was not, the start must be read back.
        let mut written = vec![0; (self.at - page) as usize];
        if !written.is_empty() {
            File::open(&self.path)?.read_exact_at(&mut written, page)?;
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

    /// Writes what is left and frees what was reserved. After a failure the file ends at its last
    /// mark. Its length comes back, and what failed.
    pub fn finish(mut self) -> (u64, io::Result<()>) {
        self.finishing = true;
        if !self.regular {
            let drained = self.drain(false);
            return (self.at, drained);
        }
        let flushed = self.flush();
        let length = if flushed.is_ok() { self.len() } else { self.safe };
        let cut = self.file.set_len(length);
        (length, flushed.and(cut))
    }
}

/// Whether there is no room, on the disk or for this user.
pub(super) fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
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
