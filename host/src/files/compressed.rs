//! Writes bytes to a file, unchanged or as zstd frames (RFC 8878).
//!
//! Each write to the file is one zstd frame. So a compressed capture whose writer was killed can be
//! read to its last whole frame. `zstd -d` decompresses the frames of a file as one stream.

use std::io::{self, Write};
use std::path::Path;

use super::{DiskFile, Finished, Identity, Leftover};

/// Approximate number of uncompressed bytes in a zstd frame.
const FRAME_BYTES: usize = 2 << 20;

/// A file being written, compressed or not.
#[derive(Debug)]
pub struct Output {
    file: DiskFile,
    level: Option<i32>,
    /// Bytes that are not compressed yet.
    plain: Vec<u8>,
    /// Number of units in `plain`.
    units: u64,
}

impl Output {
    /// Writes to `file`, compressed if `level` is given.
    pub fn new(file: DiskFile, level: Option<i32>) -> Self {
        Output { file, level, plain: Vec::new(), units: 0 }
    }

    /// Path of the file.
    pub fn path(&self) -> &Path {
        self.file.path()
    }

    /// Length of the file in bytes, without bytes that are not compressed yet.
    pub fn len(&self) -> u64 {
        self.file.len()
    }

    /// Whether nothing was written.
    pub fn is_empty(&self) -> bool {
        self.file.is_empty() && self.plain.is_empty()
    }

    /// Sets a mark: the file may end here, `units` units after the last mark.
    #[inline]
    pub fn mark(&mut self, units: u64) {
        if self.level.is_some() { self.units += units } else { self.file.mark(units) }
    }

    /// Writes to the disk if enough bytes are buffered. `hurry`: see [`DiskFile::drain`].
    ///
    /// # Errors
    /// If compression or a write fails.
    #[inline]
    pub fn settle(&mut self, hurry: bool) -> io::Result<()> {
        if self.plain.len() >= FRAME_BYTES {
            self.compress()?;
        }
        if self.file.is_due() { self.file.drain(hurry) } else { Ok(()) }
    }

    /// Frees reserved space beyond the end of the file, except the part that is needed to finish
    /// the file.
    ///
    /// # Errors
    /// If the file system call fails.
    pub fn trim(&mut self) -> io::Result<()> {
        self.file.trim()
    }

    /// Writes all buffered bytes, so that other processes can read them.
    ///
    /// # Errors
    /// If compression or a write fails.
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

    /// As [`DiskFile::reclaim`]. [`Output::restore`] writes the leftover to another file.
    ///
    /// # Errors
    /// If the file cannot be read back.
    pub fn reclaim(&mut self) -> io::Result<Leftover> {
        // Compresses into memory: the buffered bytes become a zstd frame, like the frames that did
        // not reach the disk.
        self.compress()?;
        self.file.reclaim()
    }

    /// Appends the units that another file could not take.
    ///
    /// # Errors
    /// If compression fails.
    pub fn restore(&mut self, leftover: &Leftover) -> io::Result<()> {
        self.compress()?;
        self.file.write_all(&leftover.bytes)?;
        self.file.mark(leftover.units);
        Ok(())
    }

    /// Number of units that are not in the file.
    pub fn unwritten(&self) -> u64 {
        self.units + self.file.unwritten()
    }

    /// Identity of the file; `None` for a stream.
    pub fn identity(&self) -> Option<Identity> {
        self.file.identity()
    }

    /// Removes the file, because its content is written elsewhere or the capture does not begin.
    pub fn discard(self) {
        self.file.discard();
    }

    /// Writes all buffered bytes and ends the file.
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
