//! Memory that a process shares with us to how often each thread has entered each function.
//!
//! ```text
//! file       | slot 0: a count of 64 bits for each function, whole pages | slot 1 | ...
//!              ^ gs of one thread                                          ^ of another
//! ```
//!
//! A slot is a thread's for as long as it lives.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use nix::unistd::Pid;

use super::TagError;
use super::loaded::Loaded;
use crate::ptrace::{Mapping, Process, mappings};

/// Threads that may have counters at once. Memory is taken where something is counted.
const SLOTS: u64 = 1 << 12;
const PAGE_BYTES: u64 = 4096;
/// What the kernel calls the memory.
const NAME: &std::ffi::CStr = c"hmtt-tag";

/// What one thread has counted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ThreadCounts {
    /// Its number.
    pub thread: i32,
    /// Entries of each function.
    pub entries: Vec<u64>,
}

#[derive(Debug)]
pub(super) struct Counters {
    pid: Pid,
    file: File,
    /// Where the process has them.
    start: u64,
    functions: usize,
    slot_bytes: u64,
    /// The slot of each thread that lives.
    slots: BTreeMap<Pid, u64>,
    free: Vec<u64>,
    next: u64,
    /// Of threads that have ended.
    ended: Vec<ThreadCounts>,
}

impl Counters {
    /// Makes room for the counts. `scratch`: writable by us, and not in use yet.
    pub fn new(
        process: &mut Process,
        loaded: &Loaded,
        scratch: u64,
        functions: usize,
    ) -> Result<Self, TagError> {
        let pid = process.pid;
        let slot_bytes = (functions as u64 * 8).max(1).next_multiple_of(PAGE_BYTES);
        let bytes = slot_bytes * SLOTS;
        let name = NAME.to_bytes_with_nul();
        let mut before = vec![0; name.len()];
        process.read(scratch, &mut before)?;
        process.write(scratch, name)?;
        let site = loaded.site();
        let create = (libc::SYS_memfd_create, "make memory for counters");
        let descriptor =
            process.call(site, create, [scratch, u64::from(libc::MFD_CLOEXEC), 0, 0, 0, 0])?;
        process.write(scratch, &before)?;
        let path = format!("/proc/{pid}/fd/{descriptor}");
        let file = File::options().read(true).write(true).open(path);
        let file = file.and_then(|file| file.set_len(bytes).map(|()| file));
        let file = file.map_err(|source| TagError::Counters { pid, source })?;
        let protection = (libc::PROT_READ | libc::PROT_WRITE) as u64;
        let map = (libc::SYS_mmap, "map memory for counters");
        let flags = (libc::MAP_SHARED | libc::MAP_NORESERVE) as u64;
        let start = process.call(site, map, [0, bytes, protection, flags, descriptor, 0])?;
        let close = (libc::SYS_close, "close the counters' file");
        process.call(site, close, [descriptor, 0, 0, 0, 0, 0])?;
        Ok(Counters {
            pid,
            file,
            start,
            functions,
            slot_bytes,
            slots: BTreeMap::new(),
            free: Vec::new(),
            next: 0,
            ended: Vec::new(),
        })
    }

    /// Gives a thread that stands still a slot.
    pub fn enter(&mut self, process: &Process, thread: Pid) -> Result<(), TagError> {
        let mut registers = process.registers(thread)?;
        // A new thread has that of the one that started it.
        if registers.gs_base != 0 && !self.is_ours(registers.gs_base)? {
            return Err(TagError::GsInUse(self.pid));
        }
        let slot = self.free.pop().unwrap_or(self.next);
        self.next = self.next.max(slot + 1);
        if slot >= SLOTS {
            return Err(self.failed(io::Error::other("too many threads at once")));
        }
        self.slots.insert(thread, slot);
        registers.gs_base = self.start + slot * self.slot_bytes;
        process.set_registers(thread, registers)?;
        Ok(())
    }

    /// Whether an address is that of counters, these or earlier ones: those stay when tags are taken out,
    /// because a signal may have come just before a count.
    fn is_ours(&self, address: u64) -> Result<bool, TagError> {
        if (self.start..self.start + self.slot_bytes * SLOTS).contains(&address) {
            return Ok(true);
        }
        let counters = format!("/memfd:{} (deleted)", NAME.to_string_lossy());
        let holds = |mapping: &Mapping| (mapping.start..mapping.end).contains(&address);
        Ok(mappings(self.pid)?
            .iter()
            .any(|mapping| holds(mapping) && mapping.path.as_os_str() == counters.as_str()))
    }

    /// Whether a thread has a slot.
    pub fn knows(&self, thread: Pid) -> bool {
        self.slots.contains_key(&thread)
    }

    /// Takes the counts of a thread that has ended, and its slot.
    pub fn leave(&mut self, thread: Pid) -> Result<(), TagError> {
        let Some(slot) = self.slots.remove(&thread) else { return Ok(()) };
        let counts = self.of_slot(thread, slot)?;
        self.ended.push(counts);
        let zeros = vec![0; self.slot_bytes as usize];
        let cleared = self.file.write_all_at(&zeros, slot * self.slot_bytes);
        cleared.map_err(|source| self.failed(source))?;
        self.free.push(slot);
        Ok(())
    }

    /// What all threads have counted so far, those that ended first.
    pub fn read(&self) -> Result<Vec<ThreadCounts>, TagError> {
        let mut counts = self.ended.clone();
        for (thread, slot) in &self.slots {
            counts.push(self.of_slot(*thread, *slot)?);
        }
        Ok(counts)
    }

    fn of_slot(&self, thread: Pid, slot: u64) -> Result<ThreadCounts, TagError> {
        let mut bytes = vec![0; self.functions * 8];
        let read = self.file.read_exact_at(&mut bytes, slot * self.slot_bytes);
        read.map_err(|source| self.failed(source))?;
        let counts = bytes.as_chunks().0.iter().map(|count| u64::from_le_bytes(*count));
        Ok(ThreadCounts { thread: thread.as_raw(), entries: counts.collect() })
    }

    fn failed(&self, source: io::Error) -> TagError {
        TagError::Counters { pid: self.pid, source }
    }
}
