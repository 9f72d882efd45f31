//! Shares memory with a process, in which its tags write. [`crate::stubs::layout`] defines the
//! layout.
//!
//! The memory is an unnamed file that the process creates and maps. The controller maps it too
//! ([`backing`]). The file exists as long as either of them maps it. The header in its first page
//! and the patch records behind it show a later controller how to remove the tags.
//!
//! ```text
//! offset 0         header, one page
//! PATCHES_AT       records of overwritten bytes and of added areas
//! SLOTS_AT         slots: counters or buffers, one slot for each thread
//! last page        texts that system calls of the process read
//! ```

pub mod backing;
pub mod clock;
pub mod copies;
pub mod counts;
pub(crate) mod drain;
pub mod log;
pub mod marks;
pub mod memory;
pub mod registers;
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

use hmtt_files::tag_map::new_id;
use nix::unistd::Pid;
use rustix::fs::Timespec;
use rustix::thread::futex;

use super::TagError;
use crate::address::RunAddr;
use crate::ptrace::Stopped;
use crate::stubs::InlineBytes;
use crate::stubs::layout::{MAGIC, PAGE_BYTES, PATCH_BYTES, VERSION, header};
use backing::Backing;
pub use clock::tsc;
use memory::Memory;
use untrusted::Untrusted;

/// Number of slots: the maximum number of tagged threads, and slot 0, which is discarded. The
/// kernel allocates memory only for pages that are written.
pub const SLOTS: u64 = 1 << 12;

/// Maximum number of events of a thread: per nanosecond, and a fixed number in addition. A larger
/// count is damage.
const EVENTS_PER_NS: u64 = 8;
const EVENTS: u64 = 1 << 20;

/// Maximum number of events that a thread can have counted in `time`.
fn plausible(time: Duration) -> u64 {
    let ns = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
    ns.saturating_mul(EVENTS_PER_NS).saturating_add(EVENTS)
}

/// Space for patch records: average number of overwritten places for each function, and number of
/// redirected calls. The kernel allocates memory only for pages that are written.
const PATCHES: u64 = 32;
const CALLS: u64 = 1 << 22;

/// Bytes of the header and of `patches` patch records, rounded up to whole pages.
fn before_slots(patches: u64) -> u64 {
    (PAGE_BYTES + patches * PATCH_BYTES).next_multiple_of(PAGE_BYTES)
}

/// A place that a tag overwrites, with the bytes before and after.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Overwritten {
    /// Address in the process.
    pub address: RunAddr,
    /// Original bytes.
    pub bytes: InlineBytes,
    /// New bytes. The number of bytes is the same.
    pub new: InlineBytes,
}

/// Size and alignment of slots.
#[derive(Clone, Copy, Debug)]
pub struct SlotLayout {
    /// Bytes of a slot.
    pub slot_bytes: u64,
    /// Alignment of slots, in bytes.
    pub alignment: u64,
}

impl SlotLayout {
    /// No slots: the memory holds only the header and the patch records.
    pub const NONE: SlotLayout = SlotLayout { slot_bytes: 0, alignment: PAGE_BYTES };
}

/// Shared memory that a child has inherited from its parent and that is to be replaced.
#[derive(Clone, Copy, Debug)]
pub struct InheritedMemory {
    /// Address of the memory in the child.
    pub start: RunAddr,
    /// Value of `gs` in the child.
    pub gs: RunAddr,
    /// Cookie at the end of the areas. The child's areas are copies of its parent's areas.
    pub cookie: u64,
}

/// Memory that a process shares with the controller.
#[derive(Debug)]
pub struct Shared {
    /// Address of the memory in the process.
    pub start: RunAddr,
    memory: Memory,
    slots_at: u64,
    slot_bytes: u64,
    /// Size in bytes.
    pub bytes: u64,
    pid: Pid,
    /// Maximum number of patch records.
    patches: u64,
    /// Number of patch records. The value in the header is not used, because the process can change
    /// it.
    patch_count: AtomicU64,
    cookie: u64,
}

impl Shared {
    /// Makes the memory for at most `functions` functions. Memory that a child has inherited must
    /// have the same size.
    ///
    /// # Errors
    /// [`TagError::Answer`] if the memory that the process reports is not the shared file; nothing
    /// was written then.
    pub fn new(
        process: &mut Stopped<'_>,
        inherited: Option<InheritedMemory>,
        shape: SlotLayout,
        functions: usize,
    ) -> Result<Self, TagError> {
        let pid = process.pid;
        let patches = (functions as u64 + 1) * PATCHES + CALLS;
        // The process maps the memory at any page, so slots begin at the first multiple of their
        // alignment. One more page holds texts.
        let slots = shape.alignment + shape.slot_bytes * SLOTS;
        let bytes = before_slots(patches) + slots + PAGE_BYTES;
        let backing = Backing::new(process, bytes)?;
        let cookie = inherited.map_or_else(|| u64::from_le_bytes(new_id()), |memory| memory.cookie);
        let shared = Shared::from_file(&backing.file, bytes, pid, shape, (patches, cookie));
        let operation = "map memory to share";
        let shared = shared.map_err(|source| TagError::Shared { pid, operation, source });
        let shared = shared.and_then(|mut shared| {
            let start = backing.map(process, inherited.map(|memory| memory.start))?;
            shared.set_address(start, shape);
            Ok(shared)
        });
        let closed = backing.close(process);
        let shared = shared?;
        closed?;
        Ok(shared)
    }

    fn failed(&self, what: &str) -> TagError {
        let operation = "share memory with it";
        TagError::Shared { pid: self.pid, operation, source: io::Error::other(what) }
    }

    /// Maps a file of `bytes` bytes that no process has mapped yet, and writes the header.
    /// `patches`: maximum number of patch records. `cookie`: written at the end of areas.
    ///
    /// # Errors
    /// If the file cannot be mapped.
    pub fn from_file(
        file: &File,
        bytes: u64,
        pid: Pid,
        shape: SlotLayout,
        (patches, cookie): (u64, u64),
    ) -> io::Result<Self> {
        let memory = Memory::map(file, bytes)?;
        let (slot_bytes, patch_count) = (shape.slot_bytes, AtomicU64::new(0));
        let (start, slots_at) = (RunAddr(0), 0);
        let shared = Shared {
            start,
            memory,
            slots_at,
            slot_bytes,
            bytes,
            pid,
            patches,
            patch_count,
            cookie,
        };
        // The process must find a valid header as soon as it maps the file.
        shared.write_header();
        Ok(shared)
    }

    /// Sets the address at which the process has mapped the memory.
    pub fn set_address(&mut self, start: RunAddr, shape: SlotLayout) {
        let before = start + before_slots(self.patches);
        self.start = start;
        self.slots_at = before.next_multiple_of(shape.alignment) - start;
        self.set(header::SLOTS_AT, self.slots_at);
    }

    /// Memory that no process has mapped.
    #[cfg(test)]
    fn without_process(shape: SlotLayout, slots: u64) -> Self {
        let at = before_slots(PATCHES).max(shape.alignment);
        let bytes = at + slots * shape.slot_bytes + PAGE_BYTES;
        let file = tempfile::tempfile().unwrap();
        file.set_len(bytes).unwrap();
        let mut shared = Shared::from_file(&file, bytes, Pid::this(), shape, (PATCHES, 7)).unwrap();
        shared.set_address(RunAddr(1 << 40), shape);
        shared
    }

    /// Records bytes that are about to be overwritten, so that a later controller can restore them.
    ///
    /// # Errors
    /// [`TagError::Shared`]: the records do not fit; none of them was written then.
    pub fn record(&self, overwritten: &[Overwritten]) -> Result<(), TagError> {
        let word = |bytes: &InlineBytes| u64::from_le_bytes(bytes.padded());
        let patches = overwritten.iter().map(|Overwritten { address, bytes, new }| {
            [address.0, bytes.len() as u64, word(bytes), word(new)]
        });
        self.append(&patches.collect::<Vec<_>>()).map(drop)
    }

    /// Records an area that is about to be mapped for stubs. Returns the number of the record.
    ///
    /// # Errors
    /// [`TagError::Shared`]: there is no space for another record.
    pub fn record_area(&self, area: &Range<RunAddr>) -> Result<u64, TagError> {
        self.append(&[[area.start.0, 0, area.end - area.start, 0]])
    }

    /// Invalidates the record of an area.
    pub fn forget_area(&self, number: u64) {
        self.set(PAGE_BYTES + number * PATCH_BYTES + 2 * 8, 0);
    }

    /// Raises the liveness counter. Threads at breakpoints watch it to see that the controller is
    /// alive.
    pub fn raise_liveness(&self) {
        self.memory.word(header::BREAKPOINT_LIVENESS).fetch_add(1, Ordering::SeqCst);
    }

    /// Number of the latest wait at a breakpoint that is not answered yet, including waits that
    /// were given up.
    pub fn unanswered_wait(&self) -> Option<u32> {
        let asked = self.memory.read(header::ASKED).any();
        let is_answered = self.memory.read(header::ANSWERED).is(asked);
        (!is_answered).then_some(asked)
    }

    /// Ends the waits with this number or an earlier one. Returns whether a thread has given up
    /// waiting.
    pub fn answer(&self, asked: u32) -> bool {
        self.memory.write(header::ANSWERED, asked);
        self.memory.word(header::GIVEN_UP).swap(0, Ordering::SeqCst) != 0
    }

    /// Whether a thread has given up waiting at a breakpoint.
    pub fn has_given_up(&self) -> bool {
        !self.memory.read(header::GIVEN_UP).is(0)
    }

    /// Makes threads pass breakpoints without waiting.
    pub fn release_breakpoints(&self) {
        self.memory.write(header::GIVEN_UP, 1);
    }

    /// Cookie that is written at the end of areas.
    pub fn cookie(&self) -> u64 {
        self.cookie
    }

    /// Appends patch records. Returns the number of the first one.
    fn append(&self, patches: &[[u64; 4]]) -> Result<u64, TagError> {
        let first = self.patch_count.load(Ordering::SeqCst);
        let behind = first + patches.len() as u64;
        if behind > self.patches {
            return Err(self.failed("too many places to tag"));
        }
        for (number, patch) in (first..).zip(patches) {
            let at = PAGE_BYTES + number * PATCH_BYTES;
            (at..).step_by(8).zip(patch).for_each(|(at, word)| self.set(at, *word));
        }
        // From now on a later controller uses the records.
        self.patch_count.store(behind, Ordering::SeqCst);
        self.set(header::PATCHES, behind);
        Ok(first)
    }

    /// Writes a text of at most a page for a system call of the process. Returns its address in the
    /// process.
    ///
    /// # Errors
    /// [`TagError::Shared`]: the text is longer than a page; nothing was written then.
    pub fn write_text(&self, text: &[u8]) -> Result<RunAddr, TagError> {
        if text.len() as u64 > PAGE_BYTES {
            return Err(self.failed("a path is too long"));
        }
        // The last page is used for texts only.
        let at = self.bytes - PAGE_BYTES;
        self.memory.copy_from(at, text);
        Ok(self.start + at)
    }

    /// Clears a text of `bytes` bytes.
    pub fn clear_text(&self, bytes: usize) {
        self.memory.clear(self.bytes - PAGE_BYTES, bytes as u64);
    }

    /// Writes the header.
    fn write_header(&self) {
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

    /// Offset of a slot in the memory.
    fn slot_at(&self, slot: u64) -> u64 {
        self.slots_at + slot * self.slot_bytes
    }

    /// Address of a slot in the process.
    fn slot_address(&self, slot: u64) -> RunAddr {
        self.start + self.slot_at(slot)
    }

    /// Number of the slot that contains an address; 0 if no slot contains it.
    fn slot_of(&self, address: RunAddr) -> u64 {
        let at = address.offset_from(self.slot_address(0)).unwrap_or(0);
        at.checked_div(self.slot_bytes).unwrap_or(0).min(SLOTS - 1)
    }

    /// Whether an address of the process is in the memory.
    pub fn contains(&self, address: RunAddr) -> bool {
        address.offset_from(self.start).is_some_and(|at| at < self.bytes)
    }

    /// Increments a word, and wakes the threads that wait for it.
    fn wake(&self, offset: u64) {
        let word = self.memory.word(offset);
        word.fetch_add(1, Ordering::SeqCst);
        // A thread that is about to wait is woken, or sees the new value before it sleeps.
        let _ = futex::wake(word, futex::Flags::empty(), u32::MAX >> 1);
    }

    /// Waits until a word has another value than `was`, but at most for the time `at_most`.
    fn wait(&self, offset: u64, was: u32, at_most: Duration) {
        let timeout = Timespec {
            tv_sec: at_most.as_secs() as i64,
            tv_nsec: i64::from(at_most.subsec_nanos()),
        };
        // The caller checks the memory again, whatever has ended the wait.
        let _ = futex::wait(self.memory.word(offset), futex::Flags::empty(), was, Some(&timeout));
    }
}
