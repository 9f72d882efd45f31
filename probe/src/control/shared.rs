//! A process to one that shares memory with us: [`crate::stubs::layout`] says what is where.
//!
//! The memory is a file without a name, which the process makes and maps, and we map too. It outlives
//! either. Its first page and the patches behind it tell a later controller how to take the tags out.

mod clock;
pub mod counts;
mod drain;
pub mod log;
pub mod marks;
mod memory;
pub mod slots;
#[cfg(test)]
mod tests;
pub mod window;
pub mod writer;

use std::fs::File;
use std::io;
use std::ops::Range;
use std::sync::atomic::Ordering;
use std::time::Duration;

use nix::unistd::Pid;
use rustix::fs::Timespec;
use rustix::thread::futex;

use super::TagError;
use crate::ptrace::Process;
use crate::stubs::Few;
use crate::stubs::layout::{MAGIC, PAGE_BYTES, PATCH_BYTES, VERSION, header};
pub use clock::tsc;
use memory::Memory;

/// What the kernel calls the memory.
pub const NAME: &std::ffi::CStr = c"hmtt-tag";
/// Threads that may be tagged at once, and one slot for what is nobody's. Memory is taken where something is
/// written.
pub const SLOTS: u64 = 1 << 12;

/// Places of a function that are overwritten, on average at most, and calls beside: memory is taken where there
/// are some.
const PATCHES: u64 = 32;
const CALLS: u64 = 1 << 22;

/// Where something stood before a tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Overwritten {
    /// Where.
    pub address: u64,
    /// What.
    pub bytes: Few,
    /// What stands there now, as many bytes.
    pub new: Few,
}

/// What slots are to be like.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// Bytes of each.
    pub slot_bytes: u64,
    /// What their addresses are multiples of.
    pub alignment: u64,
}

impl Shape {
    /// Nothing is collected: the memory says what was overwritten.
    pub const NONE: Shape = Shape { slot_bytes: 0, alignment: PAGE_BYTES };
}

/// Where in a process memory to share is made.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    /// Writable by us, and not in use yet.
    pub scratch: u64,
    /// Where a child has its parent's memory, which it is not to share any more, and what it has in `gs`.
    pub inherited: Option<(u64, u64)>,
}

/// Memory that a process shares with us.
#[derive(Debug)]
pub struct Shared {
    /// Where the process has it.
    pub start: u64,
    memory: Memory,
    slots_at: u64,
    slot_bytes: u64,
    /// How much it is.
    pub bytes: u64,
    pid: Pid,
    /// What was overwritten, at most.
    patches: u64,
}

impl Shared {
    /// Makes the memory, for at most so many functions. What a child has inherited is as large.
    pub fn new(
        process: &mut Process,
        place: Place,
        shape: Shape,
        functions: usize,
    ) -> Result<Self, TagError> {
        let pid = process.pid;
        let failed = |source| TagError::Shared { pid, source };
        let patches = (functions as u64 + 1) * PATCHES + CALLS;
        let before = (PAGE_BYTES + patches * PATCH_BYTES).next_multiple_of(PAGE_BYTES);
        // The process maps it at any page: slots begin at the first multiple behind. One more page is only
        // pointed at.
        let bytes = before + shape.alignment + shape.slot_bytes * SLOTS + PAGE_BYTES;
        let (start, file) = create(process, place, bytes)?;
        let slots_at = (start + before).next_multiple_of(shape.alignment) - start;
        let memory = Memory::map(&file, bytes).map_err(failed)?;
        let slot_bytes = shape.slot_bytes;
        let shared = Shared { start, memory, slots_at, slot_bytes, bytes, pid, patches };
        shared.describe();
        Ok(shared)
    }

    fn failed(&self, what: &str) -> TagError {
        TagError::Shared { pid: self.pid, source: io::Error::other(what) }
    }

    /// Memory that no process has.
    #[cfg(test)]
    fn of_nobody(shape: Shape, slots: u64) -> Self {
        let slots_at = (2 * PAGE_BYTES).max(shape.alignment);
        let slot_bytes = shape.slot_bytes;
        let bytes = slots_at + slots * slot_bytes + PAGE_BYTES;
        let file = tempfile::tempfile().unwrap();
        file.set_len(bytes).unwrap();
        let memory = Memory::map(&file, bytes).unwrap();
        Shared {
            start: 1 << 40,
            memory,
            slots_at,
            slot_bytes,
            bytes,
            pid: Pid::this(),
            patches: PATCHES,
        }
    }

    /// Keeps what is to be overwritten, for a controller that takes the tags out later.
    pub fn note(&self, overwritten: &[Overwritten]) -> Result<(), TagError> {
        let word = |few: &Few| u64::from_le_bytes(few.padded());
        let all = overwritten.iter().map(|Overwritten { address, bytes, new }| {
            [*address, bytes.len() as u64, word(bytes), word(new)]
        });
        self.append(&all.collect::<Vec<_>>())
    }

    /// Keeps where memory was added, likewise.
    pub fn note_area(&self, area: &Range<u64>) -> Result<(), TagError> {
        self.append(&[[area.start, 0, area.end - area.start, 0]])
    }

    fn append(&self, patches: &[[u64; 4]]) -> Result<(), TagError> {
        let first = self.get(header::PATCHES);
        let behind = first + patches.len() as u64;
        if behind > self.patches {
            return Err(self.failed("too many places to tag"));
        }
        for (number, patch) in (first..).zip(patches) {
            let at = PAGE_BYTES + number * PATCH_BYTES;
            (at..).step_by(8).zip(patch).for_each(|(at, word)| self.set(at, *word));
        }
        // From here on they are believed.
        self.set(header::PATCHES, behind);
        Ok(())
    }

    /// Fills the header in.
    fn describe(&self) {
        self.memory.write(header::VERSION, VERSION);
        self.memory.write(header::CONTROLLER, std::process::id());
        self.set(header::PATCHES_AT, PAGE_BYTES);
        self.set(header::SLOTS_AT, self.slots_at);
        self.set(header::SLOT_BYTES, self.slot_bytes);
        self.set(header::MAGIC, MAGIC);
    }

    fn set(&self, offset: u64, value: u64) {
        self.memory.long(offset).store(value, Ordering::SeqCst);
    }

    fn get(&self, offset: u64) -> u64 {
        self.memory.long(offset).load(Ordering::SeqCst)
    }

    /// Where in the memory a slot is.
    fn slot_at(&self, slot: u64) -> u64 {
        self.slots_at + slot * self.slot_bytes
    }

    /// Where the process has a slot.
    fn slot_address(&self, slot: u64) -> u64 {
        self.start + self.slot_at(slot)
    }

    /// The slot that an address is in; 0 if it is in none.
    fn slot_of(&self, address: u64) -> u64 {
        let at = address.saturating_sub(self.slot_address(0));
        at.checked_div(self.slot_bytes).unwrap_or(0).min(SLOTS - 1)
    }

    /// Whether the process has it at an address.
    pub fn holds(&self, address: u64) -> bool {
        address.checked_sub(self.start).is_some_and(|at| at < self.bytes)
    }

    /// Raises a word, and wakes who waits for that.
    fn wake(&self, offset: u64) {
        let word = self.memory.word(offset);
        word.fetch_add(1, Ordering::SeqCst);
        // It is woken, or finds the word changed.
        let _ = futex::wake(word, futex::Flags::empty(), u32::MAX >> 1);
    }

    /// Waits until a word is no longer what it was, or not so long.
    fn wait(&self, offset: u64, was: u32, at_most: Duration) {
        let timeout = Timespec {
            tv_sec: at_most.as_secs() as i64,
            tv_nsec: i64::from(at_most.subsec_nanos()),
        };
        // Whatever ends it, whoever waits looks again.
        let _ = futex::wait(self.memory.word(offset), futex::Flags::empty(), was, Some(&timeout));
    }
}

/// The memory as a file, and where the process has it.
fn create(
    process: &mut Process,
    Place { scratch, inherited }: Place,
    bytes: u64,
) -> Result<(u64, File), TagError> {
    let pid = process.pid;
    let create = (libc::SYS_memfd_create, "make memory to share");
    let descriptor = with_text(process, scratch, NAME.to_bytes_with_nul(), |process| {
        let arguments = [scratch, u64::from(libc::MFD_CLOEXEC), 0, 0, 0, 0];
        Ok(process.call(create, arguments)?)
    })?;
    let path = format!("/proc/{pid}/fd/{descriptor}");
    let file = File::options().read(true).write(true).open(path);
    let file = file.and_then(|file| file.set_len(bytes).map(|()| file));
    let file = file.map_err(|source: io::Error| TagError::Shared { pid, source })?;
    let protection = (libc::PROT_READ | libc::PROT_WRITE) as u64;
    let map = (libc::SYS_mmap, "map memory to share");
    let over = if inherited.is_some() { libc::MAP_FIXED } else { 0 };
    let flags = (libc::MAP_SHARED | libc::MAP_NORESERVE | over) as u64;
    let start = inherited.map_or(0, |(start, _)| start);
    let start = process.call(map, [start, bytes, protection, flags, descriptor, 0])?;
    let close = (libc::SYS_close, "close the shared memory's file");
    process.call(close, [descriptor, 0, 0, 0, 0, 0])?;
    Ok((start, file))
}

/// Does something while the process has some bytes in its memory.
fn with_text<T>(
    process: &mut Process,
    scratch: u64,
    text: &[u8],
    something: impl FnOnce(&mut Process) -> Result<T, TagError>,
) -> Result<T, TagError> {
    let mut before = vec![0; text.len()];
    process.read(scratch, &mut before)?;
    process.write(scratch, text)?;
    let result = something(process);
    process.write(scratch, &before)?;
    result
}
