//! A process to one that shares memory with us: [`crate::stubs::layout`] says what is where.
//!
//! The memory is a file without a name, which the process makes and maps, and we map too ([`backing`]). It outlives
//! either. Its first page and the patches behind it tell a later controller how to take the tags out.

pub mod backing;
mod clock;
pub mod counts;
pub(crate) mod drain;
pub mod log;
pub mod marks;
mod memory;
pub mod slots;
#[cfg(test)]
mod tests;
pub mod untrusted;
pub mod window;
pub mod writer;

use std::fs::File;
use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use hmtt_format::tag_map::new_id;
use nix::unistd::Pid;
use rustix::fs::Timespec;
use rustix::thread::futex;

use super::TagError;
use crate::ptrace::Process;
use crate::stubs::Few;
use crate::stubs::layout::{MAGIC, PAGE_BYTES, PATCH_BYTES, VERSION, header};
use backing::Backing;
pub use clock::tsc;
use memory::Memory;
use untrusted::Untrusted;

/// Threads that may be tagged at once, and one slot for what is nobody's. Memory is taken where something is
/// written.
pub const SLOTS: u64 = 1 << 12;

/// Most that a thread can count in a nanosecond, and what it may have counted at once: more is damage.
const EVENTS_PER_NS: u64 = 8;
const EVENTS: u64 = 1 << 20;

/// What a thread can have counted in some time at most.
fn plausible(time: Duration) -> u64 {
    let ns = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
    ns.saturating_mul(EVENTS_PER_NS).saturating_add(EVENTS)
}

/// Places of a function that are overwritten, on average at most, and calls beside: memory is taken where there
/// are some.
const PATCHES: u64 = 32;
const CALLS: u64 = 1 << 22;

/// Bytes of the header, and of so many patches: whole pages.
fn before_slots(patches: u64) -> u64 {
    (PAGE_BYTES + patches * PATCH_BYTES).next_multiple_of(PAGE_BYTES)
}

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

/// What a child has of its parent's memory, which it is not to share any more.
#[derive(Clone, Copy, Debug)]
pub struct Inherited {
    /// Where the memory is.
    pub start: u64,
    /// What the child has in `gs`.
    pub gs: u64,
    /// What areas end with, which are copies of its parent's.
    pub cookie: u64,
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
    /// How many are noted: the process can change what the header says.
    noted: AtomicU64,
    cookie: u64,
}

impl Shared {
    /// Makes the memory, for at most so many functions. What a child has inherited is as large.
    ///
    /// # Errors
    /// [`TagError::Answer`] if the process does not share with us what it says; nothing was written.
    pub fn new(
        process: &mut Process,
        inherited: Option<Inherited>,
        shape: Shape,
        functions: usize,
    ) -> Result<Self, TagError> {
        let pid = process.pid;
        let patches = (functions as u64 + 1) * PATCHES + CALLS;
        // The process maps it at any page: slots begin at the first multiple behind. One more page is only
        // pointed at.
        let slots = shape.alignment + shape.slot_bytes * SLOTS;
        let bytes = before_slots(patches) + slots + PAGE_BYTES;
        let backing = Backing::new(process, bytes)?;
        let cookie = inherited.map_or_else(|| u64::from_le_bytes(new_id()), |one| one.cookie);
        let shared = Shared::over(&backing.file, bytes, pid, shape, (patches, cookie));
        let shared = shared.map_err(|source| TagError::Shared { pid, source });
        let shared = shared.and_then(|mut shared| {
            let start = backing.map(process, inherited.map(|one| one.start))?;
            shared.place(start, shape);
            Ok(shared)
        });
        let closed = backing.close(process);
        let shared = shared?;
        closed?;
        Ok(shared)
    }

    fn failed(&self, what: &str) -> TagError {
        TagError::Shared { pid: self.pid, source: io::Error::other(what) }
    }

    /// Memory in a file of so many bytes, which no process has mapped yet. `patches`: how many are noted at most;
    /// `cookie`: what areas end with.
    ///
    /// # Errors
    /// If it cannot be mapped here.
    pub fn over(
        file: &File,
        bytes: u64,
        pid: Pid,
        shape: Shape,
        (patches, cookie): (u64, u64),
    ) -> io::Result<Self> {
        let memory = Memory::map(file, bytes)?;
        let (slot_bytes, noted) = (shape.slot_bytes, AtomicU64::new(0));
        let (start, slots_at) = (0, 0);
        let shared =
            Shared { start, memory, slots_at, slot_bytes, bytes, pid, patches, noted, cookie };
        // What the process maps says at once whose it is.
        shared.describe();
        Ok(shared)
    }

    /// Takes note of where the process has mapped it.
    pub fn place(&mut self, start: u64, shape: Shape) {
        let before = start + before_slots(self.patches);
        self.start = start;
        self.slots_at = before.next_multiple_of(shape.alignment) - start;
        self.set(header::SLOTS_AT, self.slots_at);
    }

    /// Memory that no process has.
    #[cfg(test)]
    fn of_nobody(shape: Shape, slots: u64) -> Self {
        let at = before_slots(PATCHES).max(shape.alignment);
        let bytes = at + slots * shape.slot_bytes + PAGE_BYTES;
        let file = tempfile::tempfile().unwrap();
        file.set_len(bytes).unwrap();
        let mut shared = Shared::over(&file, bytes, Pid::this(), shape, (PATCHES, 7)).unwrap();
        shared.place(1 << 40, shape);
        shared
    }

    /// Keeps what is to be overwritten, for a controller that takes the tags out later.
    pub fn note(&self, overwritten: &[Overwritten]) -> Result<(), TagError> {
        let word = |few: &Few| u64::from_le_bytes(few.padded());
        let all = overwritten.iter().map(|Overwritten { address, bytes, new }| {
            [*address, bytes.len() as u64, word(bytes), word(new)]
        });
        self.append(&all.collect::<Vec<_>>()).map(drop)
    }

    /// Keeps where memory is added, likewise. Its number comes back.
    pub fn note_area(&self, area: &Range<u64>) -> Result<u64, TagError> {
        self.append(&[[area.start, 0, area.end - area.start, 0]])
    }

    /// Takes back that memory is added.
    pub fn forget_area(&self, number: u64) {
        self.set(PAGE_BYTES + number * PATCH_BYTES + 2 * 8, 0);
    }

    /// Says that the controller looks for threads at gates.
    pub fn say_alive(&self) {
        self.memory.word(header::ALIVE).fetch_add(1, Ordering::SeqCst);
    }

    /// Up to which number threads wait at gates, or have given up, which is not answered yet.
    pub fn asked(&self) -> Option<u32> {
        let asked = self.memory.read(header::ASKED).any();
        let is_answered = self.memory.read(header::ANSWERED).is(asked);
        (!is_answered).then_some(asked)
    }

    /// Lets threads go on that wait at gates, up to a number. Whether one has given up.
    pub fn answer(&self, asked: u32) -> bool {
        self.memory.write(header::ANSWERED, asked);
        self.memory.word(header::GIVEN_UP).swap(0, Ordering::SeqCst) != 0
    }

    /// Whether a thread has not waited at a gate.
    pub fn has_given_up(&self) -> bool {
        !self.memory.read(header::GIVEN_UP).is(0)
    }

    /// Lets threads pass gates.
    pub fn give_up(&self) {
        self.memory.write(header::GIVEN_UP, 1);
    }

    /// What areas end with.
    pub fn cookie(&self) -> u64 {
        self.cookie
    }

    /// The number of the first comes back.
    fn append(&self, patches: &[[u64; 4]]) -> Result<u64, TagError> {
        let first = self.noted.load(Ordering::SeqCst);
        let behind = first + patches.len() as u64;
        if behind > self.patches {
            return Err(self.failed("too many places to tag"));
        }
        for (number, patch) in (first..).zip(patches) {
            let at = PAGE_BYTES + number * PATCH_BYTES;
            (at..).step_by(8).zip(patch).for_each(|(at, word)| self.set(at, *word));
        }
        // From here on they are believed.
        self.noted.store(behind, Ordering::SeqCst);
        self.set(header::PATCHES, behind);
        Ok(first)
    }

    /// Where the process finds a text of at most a page, until that is taken back.
    pub fn lend(&self, text: &[u8]) -> Result<u64, TagError> {
        if text.len() as u64 > PAGE_BYTES {
            return Err(self.failed("a path is too long"));
        }
        // That page is only pointed at.
        let at = self.bytes - PAGE_BYTES;
        self.memory.copy_from(at, text);
        Ok(self.start + at)
    }

    /// Takes a text of so many bytes back.
    pub fn take_back(&self, bytes: usize) {
        self.memory.clear(self.bytes - PAGE_BYTES, bytes as u64);
    }

    /// Fills the header in.
    fn describe(&self) {
        self.memory.write(header::VERSION, VERSION);
        self.memory.write(header::CONTROLLER, std::process::id());
        self.set(header::PATCHES_AT, PAGE_BYTES);
        self.set(header::COOKIE, self.cookie);
        self.set(header::SLOT_BYTES, self.slot_bytes);
        self.set(header::MAGIC, MAGIC);
    }

    fn set(&self, offset: u64, value: u64) {
        self.memory.long(offset).store(value, Ordering::SeqCst);
    }

    fn get(&self, offset: u64) -> Untrusted<u64> {
        self.memory.read_long(offset)
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
