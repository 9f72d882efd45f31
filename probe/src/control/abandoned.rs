//! A process whose controller has died to one without tags; and who the controller is, if it lives.
//!
//! What was overwritten and added is in the memory that the process shares with its controller
//! ([`crate::stubs::layout`]). What is changed in the process is only what is as that says.

use std::ops::Range;
use std::path::Path;
use std::time::Duration;

use nix::unistd::Pid;

use super::shared::NAME;
use super::{TagError, leave};
use crate::ptrace::{Mapping, Process, PtraceError, mappings, tracer};
use crate::stubs::layout::{MAGIC, OVERWRITTEN_BYTES, PAGE_BYTES, PATCH_BYTES, VERSION, header};

/// Most places that are believed to be overwritten: more are damage.
const PATCHES: u64 = 1 << 26;
/// Bytes of the header that are read.
const HEADER_BYTES: usize = 256;
/// How often, and how long, a signal handler that has interrupted a stub is waited for: a second in all.
const TRIES: usize = 200;
const PAUSE: Duration = Duration::from_millis(5);

/// The process that traces another one; `None` if nobody does.
///
/// # Errors
/// [`PtraceError::Ended`] if there is no such process.
pub fn controller(pid: Pid) -> Result<Option<Pid>, PtraceError> {
    let tracer = tracer(pid).ok_or(PtraceError::Ended(pid))?;
    Ok(Some(tracer).filter(|tracer| tracer.as_raw() != 0))
}

/// A place that was overwritten.
#[derive(Debug)]
struct Place {
    address: u64,
    original: Vec<u8>,
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
    pub fn find(process: Process) -> Result<Self, TagError> {
        let (places, areas, shared, files) = Default::default();
        let mut found = Abandoned { process, places, areas, shared, files };
        found.files = found.descriptors();
        let mapped = mappings(found.process.pid)?;
        for mapping in mapped.iter().filter(|one| is_shared(&one.path) && one.offset == 0) {
            found.read(mapping, &mapped)?;
        }
        Ok(found)
    }

    /// Descriptors that the process has of memory to share.
    fn descriptors(&self) -> Vec<u64> {
        let folder = std::fs::read_dir(format!("/proc/{}/fd", self.process.pid));
        let is_ours = |entry: &std::fs::DirEntry| {
            std::fs::read_link(entry.path()).is_ok_and(|path| is_shared(&path))
        };
        let ours = folder.into_iter().flatten().flatten().filter(is_ours);
        ours.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
    }

    /// How many places are overwritten.
    pub fn places(&self) -> usize {
        self.places.len()
    }

    fn read(&mut self, mapping: &Mapping, mapped: &[Mapping]) -> Result<(), TagError> {
        let Mapping { start, end, .. } = *mapping;
        let mut bytes = [0; HEADER_BYTES];
        // A file that has not got its size yet has no header.
        if self.process.read(start, &mut bytes).is_err() {
            self.shared.push(start..end);
            return Ok(());
        }
        let long = |at: u64| {
            let bytes = bytes.get(at as usize..at as usize + 8);
            bytes.and_then(|bytes| bytes.try_into().ok()).map_or(0, u64::from_le_bytes)
        };
        let version = long(header::VERSION) as u32;
        let is_empty = long(header::MAGIC) == 0;
        if !is_empty && (long(header::MAGIC) != MAGIC || version != VERSION) {
            return Ok(());
        }
        self.shared.push(start..end);
        let first = start.saturating_add(long(header::PATCHES_AT));
        for number in 0..long(header::PATCHES).min(PATCHES) {
            let at = first.saturating_add(number * PATCH_BYTES);
            if at.saturating_add(PATCH_BYTES) > end {
                break;
            }
            let mut patch = [0; PATCH_BYTES as usize];
            self.process.read(at, &mut patch)?;
            self.add(&patch, mapped);
        }
        Ok(())
    }

    fn add(&mut self, patch: &[u8; PATCH_BYTES as usize], mapped: &[Mapping]) {
        let (words, _) = patch.as_chunks::<8>();
        let [address, length, original, new] = [0, 1, 2, 3].map(|at| u64::from_le_bytes(words[at]));
        let holds = |one: &Mapping, bytes| {
            one.executable && one.start <= address && address.saturating_add(bytes) <= one.end
        };
        if length == 0 {
            // Nothing but what we added is mapped there: it was not to take the place of anything.
            let is_there = |one: &Mapping| holds(one, original) && one.path.as_os_str().is_empty();
            let is_whole = [address, original].iter().all(|one| one.is_multiple_of(PAGE_BYTES));
            if is_whole && mapped.iter().any(is_there) {
                self.areas.push(address..address + original);
            }
            return;
        }
        let bytes =
            |word: u64| word.to_le_bytes()[..OVERWRITTEN_BYTES.min(length as usize)].to_vec();
        let (original, new) = (bytes(original), bytes(new));
        let mut there = vec![0; new.len()];
        let is_text = mapped.iter().any(|one| holds(one, length));
        // One that was being written when the controller died may be half there.
        let is_ours = |there: &[u8]| {
            let mut all = there.iter().zip(&new).zip(&original);
            there != original && all.all(|((there, new), old)| there == new || there == old)
        };
        if is_text && self.process.read(address, &mut there).is_ok() && is_ours(&there) {
            self.places.push(Place { address, original });
        }
    }

    /// Takes the tags out and lets the process go. Places that are no more, in libraries that have been
    /// unloaded, are left out; memory that something may still lead to stays.
    pub fn restore(mut self) -> Result<(), TagError> {
        self.take_out()?;
        Ok(self.process.detach()?)
    }

    /// Takes the tags out, with all memory that was added, and gives the process back, whose threads all
    /// stand still.
    ///
    /// # Errors
    /// [`TagError::Inside`] if the memory is still needed after a while.
    pub(super) fn make_way(mut self) -> Result<Process, TagError> {
        for _ in 0..TRIES {
            if self.take_out()? {
                return Ok(self.process);
            }
            let pid = self.process.pid;
            self.process.detach()?;
            std::thread::sleep(PAUSE);
            self.process = Process::attach(pid)?;
        }
        Err(TagError::Inside(self.process.pid))
    }

    /// Takes the tags out. Whether their memory is, too.
    fn take_out(&mut self) -> Result<bool, TagError> {
        if !self.places.is_empty() {
            for memory in &self.shared {
                // Nobody waits for a controller then. Damage is no reason to leave tags in.
                let _ = self.process.write(memory.start + header::DEAD, &1u32.to_le_bytes());
            }
        }
        // The last that was overwritten is the first to be as it was.
        while let Some(Place { address, original }) = self.places.last() {
            self.process.write(*address, original)?;
            self.places.pop();
        }
        if self.areas.is_empty() && self.shared.is_empty() && self.files.is_empty() {
            return Ok(true);
        }
        if !leave::leave(&mut self.process, &self.areas, &self.shared)? {
            return Ok(false);
        }
        for file in self.files.drain(..) {
            let close = (libc::SYS_close, "close the shared memory's file");
            self.process.call(close, [file, 0, 0, 0, 0, 0])?;
        }
        Ok(true)
    }
}

/// Whether the kernel calls memory so that a process shares with its controller.
fn is_shared(path: &Path) -> bool {
    let name = path.to_str().and_then(|path| path.strip_prefix("/memfd:"));
    let name = name.and_then(|name| name.strip_suffix(" (deleted)"));
    name.is_some_and(|name| NAME.to_str() == Ok(name))
}
