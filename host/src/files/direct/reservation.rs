//! Reserves space on the disk beyond the end of a file, so that a full disk is detected before a
//! write.

use std::fs::File;
use std::io;

use rustix::fs::{FallocateFlags, fallocate};

use super::{DiskFile, is_full, is_too_large};

/// Bytes that are reserved at a time, beyond the written part.
pub(super) const RESERVE_BYTES: u64 = 64 << 20;
/// Reserved bytes that only the end of the file may use, so that a file on a full disk can be
/// finished.
const FINISH_BYTES: u64 = 64 << 10;

impl DiskFile {
    /// Reserves space up to the offset `end`, and for finishing the file after it.
    pub(super) fn reserve(&mut self, end: u64) -> io::Result<()> {
        let needed = if self.finishing { end } else { end + FINISH_BYTES };
        self.check_limit(needed)?;
        if !self.can_reserve || needed <= self.reserved {
            return Ok(());
        }
        let extend = |file: &File, from: u64, to: u64| {
            fallocate(file, FallocateFlags::KEEP_SIZE, from, to - from).map_err(io::Error::from)
        };
        let mut failure = io::ErrorKind::StorageFull.into();
        for to in [(needed + RESERVE_BYTES).min(self.limit), needed] {
            match extend(&self.file, self.reserved, to) {
                Ok(()) => {
                    self.reserved = to;
                    return Ok(());
                }
                Err(error) if !is_full(&error) && !is_too_large(&error) => {
                    // Some file systems cannot reserve space; on those, writes detect a full disk.
                    self.can_reserve = false;
                    return Ok(());
                }
                // After a failed call, ext4 keeps the blocks that it has allocated: free them.
                Err(error) => {
                    self.trim()?;
                    failure = error;
                }
            }
        }
        Err(failure)
    }

    /// Rejects a write beyond the limit before the kernel does, so that space is left for finishing
    /// the file.
    pub(super) fn check_limit(&self, end: u64) -> io::Result<()> {
        if end > self.limit { Err(io::ErrorKind::FileTooLarge.into()) } else { Ok(()) }
    }

    /// Frees reserved space beyond the end of the file, except the part that is needed to finish
    /// the file.
    ///
    /// # Errors
    /// If a file system call fails.
    pub fn trim(&mut self) -> io::Result<()> {
        if !self.can_reserve {
            return Ok(());
        }
        let length = self.file.metadata()?.len();
        self.file.set_len(length)?;
        self.reserved = length;
        // If this space is not free either, finishing the file reports the full disk.
        let _ = fallocate(&self.file, FallocateFlags::KEEP_SIZE, length, FINISH_BYTES);
        Ok(())
    }
}
