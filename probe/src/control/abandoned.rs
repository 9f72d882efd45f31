//! Finds and removes the tags, or the code cache, that a killed controller has left in a process,
//! and reports whether a process has a controller.
//!
//! The memory that the process shared with its controller ([`crate::stubs::layout`]) records which
//! bytes were overwritten and which memory was added; [`records`] reads these records. The process
//! may have written anything there. Code caches overwrite nothing, but threads may be in them
//! ([`caches`]).
//!
//! Invariant: only places whose contents match the record, in the process's own mappings, are
//! changed. The work is limited by the size of the mapped memory, whatever the records claim.

pub(super) mod caches;
pub(crate) mod records;

use std::ops::Range;
use std::time::{Duration, Instant};

use nix::unistd::Pid;

use super::TagError;
use super::removal::{self, RemainingMemory};
use super::restorers;
use super::shared::backing::is_tag_memory;
use crate::address::RunAddr;
use crate::ptrace::{Mapping, Process, PtraceError, live_thread, mappings, tracer};
use crate::stubs::layout::header;
use crate::stubs::restorer;
use caches::Caches;
use records::{Place, Records};

/// Longest wait for a signal handler that has interrupted a stub, and the time between checks.
const PATIENCE: Duration = Duration::from_secs(1);
const PAUSE: Duration = Duration::from_millis(5);

/// ID of the process that traces a process; `None` if no process does.
///
/// # Errors
/// [`PtraceError::Ended`] if there is no such process.
pub fn controller(pid: Pid) -> Result<Option<Pid>, PtraceError> {
    let tracer = tracer(pid).ok_or(PtraceError::Ended(pid))?;
    Ok(Some(tracer).filter(|tracer| tracer.as_raw() != 0))
}

/// A process that may have tags or a code cache without a controller.
#[derive(Debug)]
pub struct AbandonedTags {
    process: Process,
    memory: AbandonedMemory,
}

/// Changes and memory that a killed controller has left in a process.
#[derive(Debug)]
struct AbandonedMemory {
    /// Places that are still overwritten, in the order in which they were overwritten.
    places: Vec<Place>,
    /// Memory areas that hold stubs.
    areas: Vec<Range<RunAddr>>,
    /// Memory that was shared with the controller.
    shared: Vec<Range<RunAddr>>,
    /// Memory of code caches.
    caches: Caches,
    /// Threads whose `gs` leads to a thread area of a code cache that is no longer mapped.
    lost: Vec<Pid>,
    /// Descriptors of the shared memory that were not closed.
    files: Vec<u64>,
    /// Whether no thread can still make a system call that the killed controller has prepared. Such
    /// a call may map more memory.
    are_sites_left: bool,
}

impl AbandonedMemory {
    /// Searches a process whose threads are all stopped.
    fn find(process: &mut Process) -> Result<Self, TagError> {
        let can_call = process.can_call();
        let mut stopped = process.stopped()?;
        // Handlers return to restorers that may still be overwritten.
        let mapped = mappings(stopped.pid)?;
        for address in overwritten_restorers(&Records::read(&stopped, &mapped)?.places) {
            stopped.record_restorer(address);
        }
        // A thread may be about to make a system call of the killed controller, which maps memory
        // or closes a file.
        let are_sites_left = !can_call || stopped.clear_sites()?;
        let files = descriptors(stopped.pid);
        let mapped = mappings(stopped.pid)?;
        let Records { places, areas, shared, .. } = Records::read(&stopped, &mapped)?;
        let caches = Caches::find(&stopped, &mapped);
        let lost = caches::threads_with_lost_areas(&stopped, &mapped)?;
        Ok(AbandonedMemory { places, areas, shared, caches, lost, files, are_sites_left })
    }

    /// Whether nothing was overwritten, mapped or left open.
    fn is_empty(&self) -> bool {
        let AbandonedMemory { places, areas, shared, caches, files, .. } = self;
        [areas.len(), shared.len(), files.len(), places.len()] == [0; 4] && caches.is_empty()
    }
}

impl AbandonedTags {
    /// Searches a process, whose threads are all stopped, for tags, code caches and their memory.
    /// The threads are resumed after an error.
    ///
    /// # Errors
    /// [`TagError::Ptrace`] if the process cannot be read.
    pub fn find(mut process: Process) -> Result<Self, TagError> {
        match AbandonedMemory::find(&mut process) {
            Ok(memory) => Ok(AbandonedTags { process, memory }),
            Err(error) => {
                process.release();
                Err(error)
            }
        }
    }

    /// Whether a process, whose threads are all stopped, may have tags or a code cache of a killed
    /// controller. This check takes less time than [`find`](Self::find).
    ///
    /// # Errors
    /// [`TagError::Ptrace`] if the process cannot be read.
    pub fn may_be_in(process: &mut Process) -> Result<bool, TagError> {
        let pid = process.pid;
        let mapped = mappings(pid)?;
        let is_lost = !caches::threads_with_lost_areas(&process.stopped()?, &mapped)?.is_empty();
        Ok(is_lost || is_tagged(&mapped) || !descriptors(pid).is_empty())
    }

    /// Number of places that are overwritten.
    pub fn places(&self) -> usize {
        self.memory.places.len()
    }

    /// Whether the process has no tags, no code cache, and no memory that belongs to them.
    pub fn is_nothing(&self) -> bool {
        self.memory.is_empty() && self.memory.lost.is_empty() && self.memory.are_sites_left
    }

    /// Removes the tags and code caches, and detaches from the process. Tags in libraries that have
    /// been unloaded are skipped. Returns the memory that remains because a thread may return to
    /// it.
    ///
    /// # Errors
    /// [`TagError::Ptrace`] if the process cannot be changed.
    pub fn restore(mut self) -> Result<RemainingMemory, TagError> {
        let left = self.remove();
        self.process.detach()?;
        left
    }

    /// Removes the tags and code caches with all their memory, and returns the process, whose
    /// threads are all stopped.
    ///
    /// # Errors
    /// [`TagError::StillInUse`] if the memory is still in use after a second. The threads are
    /// resumed after an error.
    pub fn take_over(mut self) -> Result<Process, TagError> {
        let start = Instant::now();
        loop {
            let error = match self.remove() {
                Ok(RemainingMemory::Nothing) => return Ok(self.process),
                Ok(RemainingMemory::Forbidden(error)) => Some(error.into()),
                Ok(RemainingMemory::InUse) if start.elapsed() > PATIENCE => {
                    Some(TagError::StillInUse(self.process.pid))
                }
                Ok(RemainingMemory::InUse) => None,
                Err(error) => Some(error),
            };
            if let Some(error) = error {
                self.process.release();
                return Err(error);
            }
            let (pid, risk_policy) = (self.process.pid, self.process.risk_policy);
            self.process.detach()?;
            std::thread::sleep(PAUSE);
            let mut process = Process::attach(pid)?;
            process.risk_policy = risk_policy;
            // A thread may have mapped or closed something meanwhile.
            self = AbandonedTags::find(process)?;
        }
    }

    /// Removes the tags and code caches. Returns the memory that remains.
    fn remove(&mut self) -> Result<RemainingMemory, TagError> {
        // Once there is something to remove, signals do not interrupt the removal until it is
        // complete.
        let is_nothing = self.memory.is_empty();
        let AbandonedMemory { places, areas, shared, caches, lost, files, are_sites_left } =
            &mut self.memory;
        self.process.may_be_interrupted &= is_nothing;
        let mut process = self.process.stopped()?;
        for thread in lost.drain(..) {
            let registers = process.registers(thread)?;
            process.set_registers(thread, libc::user_regs_struct { gs_base: 0, ..registers })?;
        }
        if !places.is_empty() {
            for memory in &*shared {
                // From now on no thread waits for a controller. Writing may fail in damaged memory;
                // the tags are removed even so.
                for word in [header::DEAD, header::GIVEN_UP] {
                    let _ = process.write(memory.start + word, &1u32.to_le_bytes());
                }
            }
        }
        // Places are restored in reverse order.
        while let Some(Place { address, original }) = places.last() {
            process.write(*address, original)?;
            places.pop();
        }
        process.forget_restorers();
        if !*are_sites_left {
            return Ok(RemainingMemory::InUse);
        }
        if is_nothing {
            return Ok(RemainingMemory::Nothing);
        }
        if !process.can_call() {
            return Ok(RemainingMemory::InUse);
        }
        for file in &*files {
            let close = (libc::SYS_close, "close the shared memory's file");
            match process.call(close, [*file, 0, 0, 0, 0, 0]) {
                Err(error @ PtraceError::Forbidden { .. }) => {
                    return Ok(RemainingMemory::Forbidden(error));
                }
                closed => drop(closed?),
            }
        }
        files.clear();
        caches.leave_calls(&process)?;
        let code = [&areas[..], &caches.code].concat();
        let data = [&shared[..], &caches.data].concat();
        removal::unmap(&mut process, &code, &data)
    }
}

/// Addresses of the overwritten restorers among some places.
fn overwritten_restorers(places: &[Place]) -> impl Iterator<Item = RunAddr> {
    let candidates = places.iter().filter(|place| restorer::may_begin(&place.original));
    candidates.map(|place| place.address).take(restorers::MOST)
}

/// Descriptors of memory shared with tags that a process has open.
fn descriptors(pid: Pid) -> Vec<u64> {
    let folder = std::fs::read_dir(format!("/proc/{}/fd", live_thread(pid)));
    let is_shared = |entry: &std::fs::DirEntry| {
        std::fs::read_link(entry.path()).is_ok_and(|path| is_tag_memory(&path))
    };
    let ours = folder.into_iter().flatten().flatten().filter(is_shared);
    ours.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

/// Whether a process has memory of tags, from any controller.
pub(super) fn is_tagged(mapped: &[Mapping]) -> bool {
    mapped.iter().any(|mapping| is_tag_memory(&mapping.path))
}
