//! Where a file ends to room on its disk beyond that, so that a full disk shows before a write.

use std::fs::File;
use std::io;

use rustix::fs::{FallocateFlags, fallocate};

use super::{DiskFile, is_full, is_too_large};

/// Reserved at a time, beyond what is written.
pub(super) const RESERVE_BYTES: u64 = 64 << 20;
/// Kept free of the reserve, so that a file on a full disk can still be finished.
const FINISH_BYTES: u64 = 64 << 10;

impl DiskFile {
    /// Makes sure that there is room up to `end`, and to finish the file after it.
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
                    // Not every file system can reserve; writes then find out.
                    self.can_reserve = false;
                    return Ok(());
                }
                // ext4 keeps as much as there was.
                Err(error) => {
                    self.trim()?;
                    failure = error;
                }
            }
        }
        Err(failure)
    }

    /// Refuses what would be beyond the limit before the kernel does, which would leave no room for what
    /// finishes the file.
    pub(super) fn check_limit(&self, end: u64) -> io::Result<()> {
        if end > self.limit { Err(io::ErrorKind::FileTooLarge.into()) } else { Ok(()) }
    }

    /// Frees what is reserved beyond what is in the file, but for what it takes to finish it.
    pub fn trim(&mut self) -> io::Result<()> {
        if !self.can_reserve {
            return Ok(());
        }
        let length = self.file.metadata()?.len();
        self.file.set_len(length)?;
        self.reserved = length;
        // If not even that is free, finishing says so.
        let _ = fallocate(&self.file, FallocateFlags::KEEP_SIZE, length, FINISH_BYTES);
        Ok(())
    }
}
