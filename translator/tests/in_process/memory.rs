//! The memory of generated code, in the process of the test itself.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use hmtt_probe::address::RunAddr;
use hmtt_translator::cache::{Arena, ArenaNumber, CacheMemory};
use hmtt_translator::code::{CodeBytes, Expected};
use hmtt_translator::extent::Extent;
use hmtt_translator::layout::{PAGE_BYTES, area, header, lookup, ring};

use super::instructions::Random;

/// Bytes of an arena.
const ARENA_BYTES: u32 = 1 << 20;

/// Maps memory that may be read, written and executed. `at` is the wanted address, or 0.
fn map(at: u64, bytes: u64, flags: i32) -> Option<u64> {
    let protection = libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC;
    let flags = flags | libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    // SAFETY: a new mapping replaces no other one.
    let mapping = unsafe { libc::mmap(at as *mut _, bytes as usize, protection, flags, -1, 0) };
    (mapping != libc::MAP_FAILED).then_some(mapping as u64)
}

/// Memory of the test that its mapping outlives.
#[derive(Clone, Copy, Debug)]
pub struct Range {
    pub start: u64,
    pub bytes: u64,
}

impl Range {
    /// Maps memory below 2 GiB.
    pub fn low(bytes: u64) -> Range {
        let start = map(0, bytes, libc::MAP_32BIT).expect("there is memory below 2 GiB");
        Range { start, bytes }
    }

    /// Maps memory at a multiple of a power of two.
    pub fn aligned(bytes: u64, to: u64) -> Range {
        let reservation =
            Range { start: map(0, bytes + to, 0).expect("there is memory"), bytes: bytes + to };
        let start = reservation.start.next_multiple_of(to);
        let before = Range { start: reservation.start, bytes: start - reservation.start };
        let after = Range { start: start + bytes, bytes: to - before.bytes };
        [before, after].into_iter().filter(|part| part.bytes > 0).for_each(Range::unmap);
        Range { start, bytes }
    }

    /// Maps memory near an address.
    pub fn near(at: u64, bytes: u64) -> Option<Range> {
        let step = u64::from(ARENA_BYTES);
        let wanted = (1..1400).map(|count| (at & !(PAGE_BYTES - 1)).checked_sub(count * step));
        let start = wanted.flatten().find_map(|at| map(at, bytes, libc::MAP_FIXED_NOREPLACE))?;
        Some(Range { start, bytes })
    }

    /// The contents.
    pub fn bytes(&self) -> &'static [u8] {
        // SAFETY: the memory stays mapped, and nothing writes it while a test looks at it.
        unsafe { std::slice::from_raw_parts(self.start as *const u8, self.bytes as usize) }
    }

    /// Replaces the contents from an offset on.
    pub fn write(&self, at: u64, bytes: &[u8]) {
        assert!(at + bytes.len() as u64 <= self.bytes);
        let to = (self.start + at) as *mut u8;
        // SAFETY: the memory is mapped, and only this thread uses that part of it now.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len()) };
    }

    /// Makes all bytes 0.
    pub fn clear(&self) {
        // SAFETY: as above.
        unsafe { std::ptr::write_bytes(self.start as *mut u8, 0, self.bytes as usize) };
    }

    /// Unmaps the memory, which nothing must use any more.
    pub fn unmap(self) {
        // SAFETY: the threads that used the memory have ended.
        unsafe { libc::munmap(self.start as *mut _, self.bytes as usize) };
    }

    /// A word that threads share.
    pub fn word(&self, at: u32) -> &'static AtomicU32 {
        // SAFETY: the memory stays mapped, and the address is aligned.
        unsafe { &*((self.start + u64::from(at)) as *const AtomicU32) }
    }

    /// A word of 8 bytes that threads share.
    pub fn long(&self, at: u32) -> &'static AtomicU64 {
        // SAFETY: as above.
        unsafe { &*((self.start + u64::from(at)) as *const AtomicU64) }
    }
}

/// Code that may be translated: a part of a range.
pub struct Code {
    pub range: Range,
    /// Whether it may change without notice.
    pub may_change: bool,
    /// Whether blocks are expected to be executed, at any addresses.
    pub is_expected: bool,
    /// How much is recorded of a block, by its address.
    pub extent: fn(u64) -> Extent,
}

impl CodeBytes for Code {
    fn read(&self, at: RunAddr, into: &mut [u8]) -> usize {
        let Some(offset) = at.0.checked_sub(self.range.start) else { return 0 };
        let rest = self.range.bytes().get(offset as usize..).unwrap_or_default();
        let count = rest.len().min(into.len());
        into[..count].copy_from_slice(&rest[..count]);
        count
    }

    fn may_change(&self, _at: RunAddr) -> bool {
        self.may_change
    }

    fn extent(&self, at: RunAddr) -> Extent {
        (self.extent)(at.0)
    }

    fn expected(&self, at: RunAddr) -> Vec<Expected> {
        let mut random = Random(at.0 | 1);
        let count = if self.is_expected { random.below(30) } else { 0 };
        let mut expectation = || Expected {
            at: at.wrapping_add(random.below(300)).saturating_sub(100),
            direct: random.below(2) == 0,
            indirect: random.below(2) == 0,
        };
        (0..count).map(|_| expectation()).collect()
    }
}

/// The cache's memory.
#[derive(Debug)]
pub struct Direct {
    pub table: Range,
    arenas: Vec<Range>,
    /// Number of jumps that were linked.
    pub links: usize,
    /// Distance from the code at which arenas are made.
    pub away: u64,
}

impl Direct {
    pub fn new() -> Direct {
        let table = Range::low(lookup::BYTES);
        table.write(lookup::CALLS, &[lookup::AT_ONCE; 256]);
        Direct { table, arenas: Vec::new(), links: 0, away: 0 }
    }
}

impl Drop for Direct {
    fn drop(&mut self) {
        for range in self.arenas.iter().chain([&self.table]) {
            range.unmap();
        }
    }
}

impl CacheMemory for Direct {
    fn new_arena(&mut self, near: RunAddr) -> Result<Arena, String> {
        let range = Range::near(near.0 - self.away, u64::from(ARENA_BYTES)).ok_or("no gap")?;
        self.arenas.push(range);
        Ok(Arena { base: RunAddr(range.start), bytes: ARENA_BYTES })
    }

    fn write(&mut self, arena: ArenaNumber, offset: u32, bytes: &[u8]) {
        self.arenas[arena.0 as usize].write(offset.into(), bytes);
    }

    fn replace(&mut self, arena: ArenaNumber, offset: u32, bytes: &[u8]) {
        self.links += 1;
        let word = self.arenas[arena.0 as usize].long(offset & !7);
        let mut word_bytes = word.load(Ordering::Relaxed).to_le_bytes();
        let place = offset as usize & 7;
        word_bytes[place..place + bytes.len()].copy_from_slice(bytes);
        word.store(u64::from_le_bytes(word_bytes), Ordering::Release);
    }

    fn set_table(&mut self, entry: u16, address: RunAddr) {
        self.table.long(u32::from(entry) * 8).store(address.0, Ordering::Release);
    }
}

/// The header and the area of one thread.
#[derive(Clone, Copy, Debug)]
pub struct Shared {
    pub header: Range,
    pub area: Range,
}

impl Shared {
    pub fn new(chunks: u64, when_full: u32) -> Shared {
        let header = Range::aligned(header::BYTES, PAGE_BYTES);
        let bytes = ring::area_bytes(chunks);
        let area = Range::aligned(bytes, ring::CHUNK_STRIDE);
        area.long(area::HEADER).store(header.start, Ordering::Relaxed);
        area.long(area::SELF).store(area.start, Ordering::Relaxed);
        area.long(area::TIMEOUT + 8).store(5_000_000, Ordering::Relaxed);
        area.word(area::WHEN_FULL).store(when_full, Ordering::Relaxed);
        area.word(area::CHUNK_MASK).store(chunks as u32 - 1, Ordering::Relaxed);
        Shared { header, area }
    }

    /// Unmaps both.
    pub fn unmap(self) {
        self.header.unmap();
        self.area.unmap();
    }

    /// Address of the first number of the chunk that the thread fills.
    pub fn chunk_start(&self) -> u64 {
        let chunk = self.area.word(area::CHUNK).load(Ordering::Acquire);
        self.area.start + ring::chunk_at(u64::from(chunk))
    }
}

/// Waits until a word is no longer `value`, at most 10 ms.
pub fn futex_wait(word: &AtomicU32, value: u32) {
    let time = libc::timespec { tv_sec: 0, tv_nsec: 10_000_000 };
    // SAFETY: the word and the time are valid during the call.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAIT, value, &time) };
}

/// Wakes the thread that waits at a word.
pub fn futex_wake(word: &AtomicU32) {
    // SAFETY: the word is valid during the call.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAKE, 1) };
}
