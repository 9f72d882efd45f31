//! Maps more memory in the process when it is needed: areas of threads and arenas of the code
//! cache.
//!
//! The process itself maps the memory: a stopped thread makes the system calls, while other threads
//! continue. Little is mapped at the start, so that the program's limit of address space
//! (`RLIMIT_AS`), and its locking of memory (`mlockall`), apply almost only to its own memory.

use hmtt_probe::address::RunAddr;
use hmtt_probe::control::{MappedCopy, Reservation, SharedFile, TagError};
use hmtt_probe::ptrace::{Mapping, Stopped, mappings};

use super::error::ControlError;
use crate::shared::{Part, THREADS, parts};

/// Memory in a process that must be unmapped at the end.
pub struct MappedMemory {
    /// The lookup table, the first page of the arenas, and the arenas.
    pub code: Vec<(RunAddr, u64)>,
    /// The file of the code cache.
    pub code_file: SharedFile,
    /// The areas of threads.
    pub areas: MappedAreas,
}

/// The mapped areas of threads: the areas with the lowest numbers.
pub struct MappedAreas {
    file: SharedFile,
    /// Address of the header.
    base: RunAddr,
    count: usize,
}

impl MappedMemory {
    /// Address ranges of this memory. They contain nothing else, except gaps that the kernel
    /// assigns to no mapping.
    pub fn ranges(&self) -> Vec<(RunAddr, u64)> {
        let mut ranges = self.code.clone();
        // A part of one more area may be mapped.
        let areas = (self.areas.count + 1).min(THREADS);
        ranges.push((self.areas.base, parts::end(areas)));
        ranges
    }
}

impl MappedMemory {
    /// Makes the process unmap the memory. Memory that cannot be unmapped stays, unused.
    pub fn unmap(&self, process: &mut Stopped<'_>) {
        let call = (libc::SYS_munmap, "remove shared memory");
        for (start, bytes) in self.ranges() {
            if process.call(call, [start.0, bytes, 0, 0, 0, 0]).is_err() {
                return;
            }
        }
    }
}

impl MappedAreas {
    /// Address of the header.
    pub fn base(&self) -> RunAddr {
        self.base
    }

    /// State in which only the header is mapped, at `base`, and no area.
    pub fn new(file: SharedFile, base: RunAddr) -> Self {
        MappedAreas { file, base, count: 0 }
    }

    /// Number of mapped areas.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Maps one more area.
    ///
    /// # Errors
    /// [`ControlError`] if all areas are mapped, the program has mapped something in the place of
    /// the next one, or the process cannot map it.
    pub fn map_next(&mut self, process: &mut Stopped<'_>) -> Result<(), ControlError> {
        let number = self.count;
        let area_parts: Vec<Part> =
            if number < THREADS { parts::of_area(number) } else { Vec::new() };
        let (Some(first), Some(last)) = (area_parts.first(), area_parts.last()) else {
            return Err(ControlError::NoGap("the ring of another thread"));
        };
        let range = self.base + first.at..self.base + last.at + last.bytes;
        let is_taken = |mapping: &Mapping| mapping.start < range.end && range.start < mapping.end;
        if mappings(process.pid)?.iter().any(is_taken) {
            return Err(ControlError::NoGap("the ring of another thread"));
        }
        for Part { from, offset, at, bytes } in area_parts {
            let (from, at) = (self.base + from, self.base + at);
            // The kernel assigns addresses there only to mappings that ask for them.
            let reservation = Reservation::None;
            self.file.map_copy(process, MappedCopy { from, offset, at, bytes, reservation })?;
        }
        self.count += 1;
        Ok(())
    }
}

/// Whether a process has ended while memory was being mapped.
pub fn has_ended(error: &ControlError) -> bool {
    use hmtt_probe::ptrace::PtraceError::Ended;
    matches!(
        error,
        ControlError::Ptrace(Ended(_)) | ControlError::Memory(TagError::Ptrace(Ended(_)))
    )
}
