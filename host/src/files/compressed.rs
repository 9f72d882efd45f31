//! Bytes to a file, as they are or as zstd frames (RFC 8878).
//!
//! Each write to the file is a frame of its own: a compressed capture whose writer was killed can be
//! read to its last whole frame, and `zstd -d` takes the frames of a file as one.

use std::io::{self, Write};
use std::path::Path;

use super::{DiskFile, Finished, Identity, Leftover};

/// Uncompressed bytes of a frame, about.
const FRAME_BYTES: usize = 2 << 20;

/// A file being written, compressed or not.
#[derive(Debug)]
pub struct Output {
    file: DiskFile,
    level: Option<i32>,
    /// Waits to be compressed.
    plain: Vec<u8>,
    /// Units in it.
    units: u64,
}

impl Output {
    /// Writes to `file`, compressed if there is a level.
    pub fn new(file: DiskFile, level: Option<i32>) -> Self {
        Output { file, level, plain: Vec::new(), units: 0 }
    }

    /// Where the file is.
    pub fn path(&self) -> &Path {
        self.file.path()
    }

    /// Bytes the file has, but for what waits to be compressed.
    pub fn len(&self) -> u64 {
        self.file.len()
    }

    /// Whether nothing was written.
    pub fn is_empty(&self) -> bool {
        self.file.is_empty() && self.plain.is_empty()
    }

    /// Says that the file may end here, so many units after the last mark.
    #[inline]
    pub fn mark(&mut self, units: u64) {
        if self.level.is_some() { self.units += units } else { self.file.mark(units) }
    }

    /// Writes to the disk if enough has come for it. `hurry`: see [`DiskFile::drain`].
    #[inline]
    pub fn settle(&mut self, hurry: bool) -> io::Result<()> {
        if self.plain.len() >= FRAME_BYTES {
            self.compress()?;
        }
        if self.file.is_due() { self.file.drain(hurry) } else { Ok(()) }
    }

    /// Frees what is reserved beyond what is in the file, but for what it takes to finish it.
    pub fn trim(&mut self) -> io::Result<()> {
        self.file.trim()
    }

    /// Makes everything so far readable by others.
    pub fn flush(&mut self) -> io::Result<()> {
        self.compress()?;
        self.file.flush()
    }

    fn compress(&mut self) -> io::Result<()> {
        let Some(level) = self.level.filter(|_| !self.plain.is_empty()) else { return Ok(()) };
        let frame = zstd::bulk::compress(&self.plain, level)?;
        self.file.write_all(&frame)?;
        self.file.mark(std::mem::take(&mut self.units));
        self.plain.clear();
        Ok(())
    }

    /// See [`DiskFile::reclaim`]; the leftover's bytes go into another file by [`Output::restore`].
    pub fn reclaim(&mut self) -> io::Result<Leftover> {
        // Into memory only: what waits becomes a frame like those that did not reach the disk.
        self.compress()?;
        self.file.reclaim()
    }

    /// Appends what another file could not take.
    pub fn restore(&mut self, leftover: &Leftover) -> io::Result<()> {
        self.compress()?;
        self.file.write_all(&leftover.bytes)?;
        self.file.mark(leftover.units);
        Ok(())
    }

    /// Frames that are not in the file.
    pub fn unwritten(&self) -> u64 {
        self.units + self.file.unwritten()
    }

    /// What tells the file from others, if it has a name.
    pub fn identity(&self) -> Option<Identity> {
        self.file.identity()
    }

    /// Removes the file: what it was to hold goes elsewhere.
    pub fn discard(self) {
        self.file.discard();
    }

    /// Writes what is left.
    pub fn finish(mut self) -> Finished {
        let compressed = self.compress();
        let mut finished = self.file.finish();
        finished.result = compressed.and(finished.result);
        finished
    }
}

impl Write for Output {
    #[inline]
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.level.is_none() {
            return self.file.write(bytes);
        }
        self.plain.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
