//! The ring's memory, shared with the kernel: whose block it is, a copy of it, giving it back.
//!
//! Layout and protocol are those of the parent module. Invariant: a block is read only between
//! [`Mapping::is_ours`] and [`Mapping::give_back`], and only up to its end.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

use super::{BLOCK_BYTES, BLOCK_LENGTH, BLOCK_STATUS};

/// The shared mapping.
pub(super) struct Mapping {
    start: NonNull<u8>,
    bytes: usize,
}

// SAFETY: the mapping is owned by this value alone and stays where it is; the kernel's side of the
// sharing is ordered by `block_status` whatever thread we are on.
unsafe impl Send for Mapping {}

impl Mapping {
    pub(super) fn new(socket: &OwnedFd, bytes: usize) -> io::Result<Self> {
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_SHARED | libc::MAP_POPULATE;
        // SAFETY: a new mapping of `bytes` bytes wherever the kernel likes touches no memory in use.
        let start = unsafe {
            libc::mmap(std::ptr::null_mut(), bytes, protection, flags, socket.as_raw_fd(), 0)
        };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let start = NonNull::new(start.cast()).ok_or_else(|| io::Error::other("mapped at 0"))?;
        Ok(Mapping { start, bytes })
    }

    fn block(&self, block: usize) -> NonNull<u8> {
        assert!((block + 1) * BLOCK_BYTES <= self.bytes, "block {block} is not in the ring");
        // SAFETY: the whole block is within the mapping, checked above.
        unsafe { self.start.add(block * BLOCK_BYTES) }
    }

    fn status(&self, block: usize) -> &AtomicU32 {
        // SAFETY: block_status lies within the block and is aligned (mapping and blocks are page
        // aligned, its offset is a multiple of 4). Both sides access it atomically only, and the
        // mapping lives as long as the borrow of `self`.
        unsafe { AtomicU32::from_ptr(self.block(block).add(BLOCK_STATUS).cast().as_ptr()) }
    }

    pub(super) fn is_ours(&self, block: usize) -> bool {
        self.status(block).load(Ordering::Acquire) & libc::TP_STATUS_USER != 0
    }

    /// Copies a block that is ours, up to the length its header states.
    pub(super) fn copy_block(&self, block: usize, into: &mut Vec<u8>) {
        let start = self.block(block);
        // SAFETY: the block is ours, so the kernel does not write to it; the field lies within it
        // and is aligned.
        let length = unsafe { start.add(BLOCK_LENGTH).cast::<u32>().read() } as usize;
        // SAFETY: as above, and no more than the block is read.
        let bytes = unsafe { std::slice::from_raw_parts(start.as_ptr(), length.min(BLOCK_BYTES)) };
        into.extend_from_slice(bytes);
    }

    pub(super) fn give_back(&self, block: usize) {
        self.status(block).store(libc::TP_STATUS_KERNEL, Ordering::Release);
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: exactly what was mapped; no borrow of it outlives `self`.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.bytes) };
    }
}
