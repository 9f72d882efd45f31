//! Maps a file that another process can change at any time, and accesses words of it.
//!
//! Invariant: an access outside the mapping panics. Offsets come from the controller's own layout,
//! never from values that the process may have written.
//!
//! Memory layout: [`Memory`] owns one mapping of `bytes` bytes at `start`, which is unmapped when
//! it is dropped. Words are accessed atomically; other bytes are only copied.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use super::untrusted::Untrusted;

/// Memory shared with a process.
#[derive(Debug)]
pub struct Memory {
    start: NonNull<u8>,
    bytes: u64,
}

// SAFETY: it is plain memory, whose words are only accessed atomically or by copies of bytes.
unsafe impl Send for Memory {}
// SAFETY: as above; the code expects that another process changes it at any time.
unsafe impl Sync for Memory {}

impl Memory {
    /// Maps the start of a file.
    ///
    /// # Errors
    /// The error of mmap(2).
    pub fn map(file: &File, bytes: u64) -> io::Result<Self> {
        Memory::map_at(file, bytes, 0)
    }

    /// Maps a part of a file. `offset`: whole pages.
    ///
    /// # Errors
    /// The error of mmap(2).
    pub fn map_at(file: &File, bytes: u64, offset: u64) -> io::Result<Self> {
        let offset = offset.try_into().map_err(|_| io::ErrorKind::InvalidInput)?;
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_SHARED | libc::MAP_NORESERVE;
        let (length, file) = (bytes as usize, file.as_raw_fd());
        // SAFETY: the kernel chooses an unused address.
        let start =
            unsafe { libc::mmap(std::ptr::null_mut(), length, protection, flags, file, offset) };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let start = NonNull::new(start.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Memory { start, bytes })
    }

    fn place(&self, offset: u64, bytes: u64, alignment: u64) -> *mut u8 {
        let fits = offset.checked_add(bytes).is_some_and(|end| end <= self.bytes);
        assert!(fits && offset.is_multiple_of(alignment), "{offset:x} is in the shared memory");
        // SAFETY: within the mapping, which lives as long as `self`.
        unsafe { self.start.as_ptr().add(offset as usize) }
    }

    /// A 32-bit word.
    pub fn word(&self, offset: u64) -> &AtomicU32 {
        let place = self.place(offset, 4, 4);
        // SAFETY: within the mapping, aligned, and only accessed atomically where it may change.
        unsafe { AtomicU32::from_ptr(place.cast()) }
    }

    /// A 64-bit word.
    pub fn long(&self, offset: u64) -> &AtomicU64 {
        let place = self.place(offset, 8, 8);
        // SAFETY: as above.
        unsafe { AtomicU64::from_ptr(place.cast()) }
    }

    /// Value of a 32-bit word.
    pub fn read(&self, offset: u64) -> Untrusted<u32> {
        Untrusted::new(self.word(offset).load(Ordering::SeqCst))
    }

    /// Value of a 64-bit word.
    pub fn read_long(&self, offset: u64) -> Untrusted<u64> {
        Untrusted::new(self.long(offset).load(Ordering::SeqCst))
    }

    /// Reads a 32-bit word from memory, not from a cache: flushes its cache line first.
    pub fn read_past_caches(&self, offset: u64) -> Untrusted<u32> {
        let place = self.place(offset, 4, 4);
        // SAFETY: within the mapping; flushing a cache line does not change its contents.
        unsafe { core::arch::x86_64::_mm_clflush(place) };
        // SAFETY: every x86-64 processor has this instruction.
        unsafe { core::arch::x86_64::_mm_mfence() };
        self.read(offset)
    }

    /// Sets a 32-bit word.
    pub fn write(&self, offset: u64, value: u32) {
        self.word(offset).store(value, Ordering::SeqCst);
    }

    /// Copies bytes from the memory. If the process changes bytes meanwhile, each copied byte is
    /// either old or new.
    pub fn copy_to(&self, offset: u64, bytes: &mut [u8]) {
        let from = self.place(offset, bytes.len() as u64, 1);
        // SAFETY: within the mapping; `bytes` is elsewhere.
        unsafe { std::ptr::copy_nonoverlapping(from, bytes.as_mut_ptr(), bytes.len()) };
    }

    /// Copies bytes to a part of the memory. The process must not access that part meanwhile.
    pub fn copy_from(&self, offset: u64, bytes: &[u8]) {
        let to = self.place(offset, bytes.len() as u64, 1);
        // SAFETY: within the mapping; `bytes` is elsewhere.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len()) };
    }

    /// Fills a part of the memory with zeros. The process must not access that part meanwhile.
    pub fn clear(&self, offset: u64, bytes: u64) {
        let to = self.place(offset, bytes, 1);
        // SAFETY: within the mapping.
        unsafe { std::ptr::write_bytes(to, 0, bytes as usize) };
    }

    /// Returns whole pages to the system; later accesses find zeros.
    pub fn release(&self, offset: u64, bytes: u64) {
        let start = self.place(offset, bytes, 1);
        // If the file system does not support this, the pages stay in use.
        // SAFETY: within the mapping.
        unsafe { libc::madvise(start.cast(), bytes as usize, libc::MADV_REMOVE) };
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: no reference to the mapping remains, because references borrow from `self`.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.bytes as usize) };
    }
}
