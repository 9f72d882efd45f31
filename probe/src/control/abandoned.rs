//! Finds the tags that a killed controller has left in a process, and takes them out; and who the controller is, if
//! it lives.
//!
//! What was overwritten and added is in the memory that the process shares with its controller
//! ([`crate::stubs::layout`]); [`records`] reads it. The process can have written anything there. Invariant: what is
//! changed in the process is only what is as that memory says, in mappings that are the process's own; and the work
//! is bounded by what the process really has mapped, whatever the memory says.

pub(crate) mod records;

use std::ops::Range;
use std::time::{Duration, Instant};

use nix::unistd::Pid;

use super::TagError;
use super::leave::{self, Left};
use super::shared::backing::is_ours;
use crate::ptrace::{Mapping, Process, PtraceError, mappings, tracer};
use crate::stubs::layout::header;
use records::{Place, Records};

/// How long a signal handler that has interrupted a stub is waited for, and how often it is looked.
const PATIENCE: Duration = Duration::from_secs(1);
const PAUSE: Duration = Duration::from_millis(5);

/// The process that traces another one; `None` if nobody does.
///
/// # Errors
/// [`PtraceError::Ended`] if there is no such process.
pub fn controller(pid: Pid) -> Result<Option<Pid>, PtraceError> {
    let tracer = tracer(pid).ok_or(PtraceError::Ended(pid))?;
    Ok(Some(tracer).filter(|tracer| tracer.as_raw() != 0))
}

/// A process that may still have tags that nobody looks after.
#[derive(Debug)]
pub struct Abandoned {
    process: Process,
    /// Places that are still overwritten, in the order in which they were.
    places: Vec<Place>,
    /// Memory for stubs.
    areas: Vec<Range<u64>>,
    /// Memory that was shared.
    shared: Vec<Range<u64>>,
    /// Descriptors of it that were not closed.
    files: Vec<u64>,
}

impl Abandoned {
    /// Finds the tags in a process whose threads all stand still.
    ///
    /// # Errors
    /// [`TagError::Ptrace`]
    pub fn find(process: Process) -> Result<Self, TagError> {
        let files = descriptors(process.pid);
        let mapped = mappings(process.pid)?;
        let Records { places, areas, shared, .. } = Records::of(&process, &mapped)?;
        Ok(Abandoned { process, places, areas, shared, files })
    }

    /// How many places are overwritten.
    pub fn places(&self) -> usize {
        self.places.len()
    }

    /// Whether there is nothing to be taken out.
    pub fn is_nothing(&self) -> bool {
        self.places.is_empty()
            && self.areas.is_empty()
            && self.shared.is_empty()
            && self.files.is_empty()
    }

    /// Takes the tags out and lets the process go. Places that are no more, in libraries that have been
    /// unloaded, are left out; memory that something may still lead to stays, which comes back.
    ///
    /// # Errors
    /// [`TagError::Ptrace`]
    pub fn restore(mut self) -> Result<Left, TagError> {
        let left = self.take_out()?;
        self.process.detach()?;
        Ok(left)
    }

    /// Takes the tags out, with all memory that was added, and gives the process back, whose threads all
    /// stand still.
    ///
    /// # Errors
    /// [`TagError::Inside`] if the memory is still needed after a while.
    pub(super) fn make_way(mut self) -> Result<Process, TagError> {
        let start = Instant::now();
        loop {
            match self.take_out()? {
                Left::Nothing => return Ok(self.process),
                Left::Forbidden(error) => return Err(error.into()),
                Left::InUse if start.elapsed() > PATIENCE => {
                    return Err(TagError::Inside(self.process.pid));
                }
                Left::InUse => {}
            }
            let (pid, treatment) = (self.process.pid, self.process.treatment);
            self.process.detach()?;
            std::thread::sleep(PAUSE);
            self.process = Process::attach(pid)?;
            self.process.treatment = treatment;
        }
    }

    /// Takes the tags out. What is left of their memory.
    fn take_out(&mut self) -> Result<Left, TagError> {
        if !self.places.is_empty() {
            for memory in &self.shared {
                // Nobody waits for a controller then. Damage is no reason to leave tags in.
                for word in [header::DEAD, header::GIVEN_UP] {
                    let _ = self.process.write(memory.start + word, &1u32.to_le_bytes());
                }
            }
        }
        // The last that was overwritten is the first to be as it was.
        while let Some(Place { address, original }) = self.places.last() {
            self.process.write(*address, original)?;
            self.places.pop();
        }
        let can_call = self.process.can_call();
        if can_call {
            self.process.clear_sites()?;
        }
        if self.is_nothing() {
            return Ok(Left::Nothing);
        }
        if !can_call {
            return Ok(Left::InUse);
        }
        for file in &self.files {
            let close = (libc::SYS_close, "close the shared memory's file");
            match self.process.call(close, [*file, 0, 0, 0, 0, 0]) {
                Err(error @ PtraceError::Forbidden { .. }) => return Ok(Left::Forbidden(error)),
                closed => drop(closed?),
            }
        }
        self.files.clear();
        leave::leave(&mut self.process, &self.areas, &self.shared)
    }
}

/// Descriptors that a process has of memory to share.
fn descriptors(pid: Pid) -> Vec<u64> {
    let folder = std::fs::read_dir(format!("/proc/{pid}/fd"));
    let is_shared = |entry: &std::fs::DirEntry| {
        std::fs::read_link(entry.path()).is_ok_and(|path| is_ours(&path))
    };
    let ours = folder.into_iter().flatten().flatten().filter(is_shared);
    ours.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

/// Whether a process has memory that tags need, whoever has put them in.
pub(super) fn is_tagged(mapped: &[Mapping]) -> bool {
    mapped.iter().any(|one| is_ours(&one.path))
}
