//! Maps further parts of a file that a process has already mapped, without a descriptor of the
//! file.
//!
//! mremap(2) with an old size of 0 adds a second mapping of a shared file. The new mapping begins
//! with the page at an address of the first mapping and can have any length. It has the properties
//! of the first mapping: it is excluded from core files and from children, and is not locked, even
//! after `mlockall(MCL_FUTURE)`.
//!
//! No memory of the program is replaced: memory without a file is mapped at the address first, and
//! the kernel refuses this if the address is in use. The process reports the result, and the
//! controller compares it with `/proc/PID/maps`.

use super::backing::{Backing, false_answer};
use crate::address::RunAddr;
use crate::control::TagError;
use crate::ptrace::{FileId, Mapping, Stopped, mappings};

/// A file in memory, a part of which a process has mapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SharedFile(FileId);

/// A part of the file that is to be mapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MappedCopy {
    /// Address at which the first page of the part is already mapped.
    pub from: RunAddr,
    /// Offset of the part in the file, whole pages.
    pub offset: u64,
    /// Address at which the part is to be mapped, whole pages.
    pub at: RunAddr,
    /// Number of bytes, whole pages.
    pub bytes: u64,
    /// Memory that is mapped at `at` first.
    pub reservation: Reservation,
}

/// Memory that is mapped before the part, so that no memory of the program is replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reservation {
    /// No memory: the caller knows that the process maps nothing there.
    None,
    /// Memory that cannot be accessed.
    Hidden,
    /// Executable memory. perf(1) takes it for code without a file, and looks for its symbols in a
    /// perf map. The kernel reports mappings to perf when they are made, but not when they are
    /// moved or copied.
    Code,
}

impl SharedFile {
    /// The file of `backing`.
    ///
    /// # Errors
    /// [`TagError::Shared`] if the kernel does not identify it.
    pub fn new(backing: &Backing) -> Result<Self, TagError> {
        Ok(SharedFile(backing.identity()?))
    }

    /// Makes the process map a part of the file.
    ///
    /// # Errors
    /// [`TagError::Answer`] if the part is not mapped at its address afterwards;
    /// [`TagError::Ptrace`] if the process cannot map it.
    pub fn map_copy(self, process: &mut Stopped<'_>, copy: MappedCopy) -> Result<(), TagError> {
        let MappedCopy { from, offset, at, bytes, reservation } = copy;
        let (pid, operation) = (process.pid, "map more of shared memory");
        reserve(process, copy)?;
        let flags = (libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED) as u64;
        let start = process.call((libc::SYS_mremap, operation), [from.0, 0, bytes, flags, at.0, 0]);
        if start.is_err() && reservation != Reservation::None {
            let remove = (libc::SYS_munmap, "unmap reserved memory");
            process.call(remove, [at.0, bytes, 0, 0, 0, 0])?;
        }
        let start = RunAddr(start?);
        let is_part = |mapping: &Mapping| {
            (mapping.start, mapping.end) == (at, at + bytes)
                && (mapping.file, mapping.offset, mapping.shared) == (Some(self.0), offset, true)
        };
        if start != at || !mappings(pid)?.iter().any(is_part) {
            let answer = format!("{start:x}, where that memory is not mapped");
            return Err(false_answer(pid, operation, answer));
        }
        Ok(())
    }
}

/// Maps the memory that the part of the file is to replace.
fn reserve(process: &mut Stopped<'_>, copy: MappedCopy) -> Result<(), TagError> {
    let protection = match copy.reservation {
        Reservation::None => return Ok(()),
        Reservation::Hidden => libc::PROT_NONE,
        Reservation::Code => libc::PROT_READ | libc::PROT_EXEC,
    };
    let flags =
        libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_FIXED_NOREPLACE;
    let arguments = [copy.at.0, copy.bytes, protection as u64, flags as u64, u64::MAX, 0];
    let operation = "reserve addresses for shared memory";
    let start = RunAddr(process.call((libc::SYS_mmap, operation), arguments)?);
    if start != copy.at {
        let answer = format!("{start:x}, where that memory was not to be mapped");
        return Err(false_answer(process.pid, operation, answer));
    }
    Ok(())
}
