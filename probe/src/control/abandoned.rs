//! Finds and removes the tags that a killed controller has left in a process, and reports whether a process has a
//! controller.
//!
//! The memory that the process shared with its controller ([`crate::stubs::layout`]) records what was overwritten and
//! which memory was added; [`records`] reads it. The process may have written anything there.
//!
//! Invariant: only places whose contents match the record, in the process's own mappings, are changed. The work is
//! bounded by what the process has mapped, whatever the memory claims.

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
use records::{Place, Records};

/// How long to wait for a signal handler that has interrupted a stub, and the time between checks.
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

/// A process that may have tags without a controller.
#[derive(Debug)]
pub struct AbandonedTags {
    process: Process,
    /// Places that are still overwritten, in the order in which they were overwritten.
    places: Vec<Place>,
    /// Memory areas that hold stubs.
    areas: Vec<Range<RunAddr>>,
    /// Memory that was shared with the controller.
    shared: Vec<Range<RunAddr>>,
    /// Descriptors of the shared memory that were not closed.
    files: Vec<u64>,
    /// Whether no thread may still make a system call of the killed controller, which may map more memory.
    are_sites_left: bool,
}

impl AbandonedTags {
    /// Finds the tags in a process whose threads are all stopped.
    ///
    /// # Errors
    /// [`TagError::Ptrace`] if the process cannot be read.
    pub fn find(mut process: Process) -> Result<Self, TagError> {
        let can_call = process.can_call();
        let mut stopped = process.stopped()?;
        // Handlers return to restorers that may still be overwritten.
        let mapped = mappings(stopped.pid)?;
        for address in overwritten_restorers(&Records::read(&stopped, &mapped)?.places) {
            stopped.record_restorer(address);
        }
        // A thread may be about to make a system call of the killed controller, which maps memory or closes a file.
        let are_sites_left = !can_call || stopped.clear_sites()?;
        let files = descriptors(stopped.pid);
        let mapped = mappings(stopped.pid)?;
        let Records { places, areas, shared, .. } = Records::read(&stopped, &mapped)?;
        Ok(AbandonedTags { process, places, areas, shared, files, are_sites_left })
    }

    /// Number of places that are overwritten.
    pub fn places(&self) -> usize {
        self.places.len()
    }

    /// Whether the process has no tags and no memory of tags.
    pub fn is_nothing(&self) -> bool {
        self.places.is_empty()
            && self.areas.is_empty()
            && self.shared.is_empty()
            && self.files.is_empty()
            && self.are_sites_left
    }

    /// Removes the tags and detaches from the process. Places in libraries that have been unloaded are left out.
    /// Returns the memory that remains because a thread may return to it.
    ///
    /// # Errors
    /// [`TagError::Ptrace`] if the process cannot be changed.
    pub fn restore(mut self) -> Result<RemainingMemory, TagError> {
        let left = self.remove_tags()?;
        self.process.detach()?;
        Ok(left)
    }

    /// Removes the tags with all their memory, and returns the process, whose threads are all stopped.
    ///
    /// # Errors
    /// [`TagError::StillInUse`] if the memory is still in use after [`PATIENCE`].
    pub(super) fn take_over(mut self) -> Result<Process, TagError> {
        let start = Instant::now();
        loop {
            match self.remove_tags()? {
                RemainingMemory::Nothing => return Ok(self.process),
                RemainingMemory::Forbidden(error) => return Err(error.into()),
                RemainingMemory::InUse if start.elapsed() > PATIENCE => {
                    return Err(TagError::StillInUse(self.process.pid));
                }
                RemainingMemory::InUse => {}
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

    /// Removes the tags. Returns the memory that remains.
    fn remove_tags(&mut self) -> Result<RemainingMemory, TagError> {
        let AbandonedTags { process, places, areas, shared, files, are_sites_left } = self;
        // What was begun is completed.
        let is_nothing = [areas.len(), shared.len(), files.len(), places.len()] == [0; 4];
        process.may_be_interrupted &= is_nothing;
        let mut process = process.stopped()?;
        if !places.is_empty() {
            for memory in &*shared {
                // From now on no thread waits for a controller. Writing may fail in damaged memory; the tags are
                // removed even so.
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
        removal::unmap(&mut process, areas, shared)
    }
}

/// Addresses of the overwritten restorers among some places.
fn overwritten_restorers(places: &[Place]) -> impl Iterator<Item = RunAddr> {
    let found = places.iter().filter(|place| restorer::may_begin(&place.original));
    found.map(|place| place.address).take(restorers::MOST)
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
    mapped.iter().any(|one| is_tag_memory(&one.path))
}
