//! Maps more memory in the process when it is needed: areas of threads and arenas of the code
//! cache.
//!
//! The process itself maps it: a thread that is stopped makes the system calls, while others go on.
//! Little is mapped at the start, so that the program's limit of address space (`RLIMIT_AS`) and
//! what it locks (`mlockall`) concern its own memory.

use hmtt_probe::address::RunAddr;
use hmtt_probe::control::{MappedCopy, Reservation, SharedFile, TagError};
use hmtt_probe::ptrace::{Mapping, Stopped, mappings};

use super::error::ControlError;
use crate::shared::{Part, THREADS, parts};

/// Memory in a process that is unmapped at the end.
pub struct MappedMemory {
    /// The lookup table, the first page of the arenas, and the arenas.
    pub code: Vec<(RunAddr, u64)>,
    /// The file of the code cache.
    pub code_file: SharedFile,
    /// The areas of threads.
    pub areas: MappedAreas,
}

/// The areas of threads that are mapped: those with the first numbers.
pub struct MappedAreas {
    file: SharedFile,
    /// Address of the header.
    base: RunAddr,
    count: usize,
}

impl MappedMemory {
    /// Address ranges that contain all of it and nothing else, but gaps that the kernel gives to
    /// nobody.
    pub fn ranges(&self) -> Vec<(RunAddr, u64)> {
        let mut all = self.code.clone();
        // A part of one more may be mapped.
        let areas = (self.areas.count + 1).min(THREADS);
        all.push((self.areas.base, parts::end(areas)));
        all
    }
}

impl MappedMemory {
    /// Makes the process unmap it. What cannot be unmapped stays, and is not used.
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

    /// No area is mapped, but the header at an address.
    pub fn new(file: SharedFile, base: RunAddr) -> Self {
        MappedAreas { file, base, count: 0 }
    }

    /// Number of areas that are mapped.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Maps one more area.
    ///
    /// # Errors
    /// [`ControlError`] if there are no more, the program has mapped something in their place, or
    /// the process does not map it.
    pub fn map_next(&mut self, process: &mut Stopped<'_>) -> Result<(), ControlError> {
        let number = self.count;
        let all: Vec<Part> = if number < THREADS { parts::of_area(number) } else { Vec::new() };
        let (Some(first), Some(last)) = (all.first(), all.last()) else {
            return Err(ControlError::NoGap("the ring of another thread"));
        };
        let range = self.base + first.at..self.base + last.at + last.bytes;
        let is_taken = |one: &Mapping| one.start < range.end && range.start < one.end;
        if mappings(process.pid)?.iter().any(is_taken) {
            return Err(ControlError::NoGap("the ring of another thread"));
        }
        for Part { from, offset, at, bytes } in all {
            let (from, at) = (self.base + from, self.base + at);
            // The kernel gives addresses there to nobody who does not ask for them.
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
