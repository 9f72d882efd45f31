//! Maps the ring's memory, which the kernel shares, and lends its blocks.
//!
//! The memory layout and the protocol are described in [`super::ring`]. Invariant: the bytes of a
//! block are read only through a [`Block`]. There is at most one [`Block`] for each block of the
//! ring, and dropping it returns the block to the kernel.

use std::io;
use std::mem::offset_of;
use std::os::fd::{AsRawFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};

use libc::{tpacket_block_desc, tpacket_hdr_v1};

/// Bytes of a block. The largest frame is a small part of a block, so little of a block stays
/// unused.
pub const BLOCK_BYTES: usize = 1 << 20;
pub(super) const BLOCK_HEADER: usize = offset_of!(tpacket_block_desc, hdr);
const BLOCK_STATUS: usize = BLOCK_HEADER + offset_of!(tpacket_hdr_v1, block_status);
const BLOCK_LENGTH: usize = BLOCK_HEADER + offset_of!(tpacket_hdr_v1, blk_len);

/// The shared mapping.
#[derive(Debug)]
pub(super) struct Mapping {
    start: NonNull<u8>,
    /// For each block, whether a [`Block`] exists.
    lent: Vec<AtomicBool>,
    lent_blocks: AtomicUsize,
}

// SAFETY: this value alone owns the mapping, whose address does not change. Accesses of the kernel
// are ordered by `block_status`, whatever thread runs.
unsafe impl Send for Mapping {}
// SAFETY: threads share only atomics and the bytes of blocks, and the bytes of a block are read
// only through its one `Block`.
unsafe impl Sync for Mapping {}

/// A block that the kernel filled, on loan until it is dropped.
#[derive(Debug)]
pub(super) struct Block {
    mapping: Arc<Mapping>,
    number: usize,
    length: usize,
}

impl Mapping {
    pub(super) fn new(socket: &OwnedFd, blocks: usize) -> io::Result<Self> {
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_SHARED | libc::MAP_POPULATE;
        let bytes = blocks * BLOCK_BYTES;
        // SAFETY: the kernel chooses the address of the new mapping, so it touches no memory in
        // use.
        let start = unsafe {
            libc::mmap(std::ptr::null_mut(), bytes, protection, flags, socket.as_raw_fd(), 0)
        };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let start = NonNull::new(start.cast()).ok_or_else(|| io::Error::other("mapped at 0"))?;
        let lent = std::iter::repeat_with(AtomicBool::default).take(blocks).collect();
        Ok(Mapping { start, lent, lent_blocks: AtomicUsize::new(0) })
    }

    /// Lends a block if the kernel has filled it and it is not on loan.
    pub(super) fn lend(self: &Arc<Self>, number: usize) -> Option<Block> {
        // The order of these loads matters: see `Block::drop`.
        if self.lent[number].load(Ordering::Acquire)
            || self.status(number).load(Ordering::Acquire) & libc::TP_STATUS_USER == 0
            || self.lent[number].swap(true, Ordering::Acquire)
        {
            return None;
        }
        self.lent_blocks.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the status word shows that user space owns the block, so the kernel does not
        // write to it. The field lies within the block and is aligned.
        let length = unsafe { self.block(number).add(BLOCK_LENGTH).cast::<u32>().read() } as usize;
        Some(Block { mapping: Arc::clone(self), number, length: length.min(BLOCK_BYTES) })
    }

    /// Number of blocks on loan.
    pub(super) fn lent(&self) -> usize {
        self.lent_blocks.load(Ordering::Relaxed)
    }

    fn block(&self, number: usize) -> NonNull<u8> {
        assert!(number < self.lent.len(), "block {number} is not in the ring");
        // SAFETY: the whole block is within the mapping, checked above.
        unsafe { self.start.add(number * BLOCK_BYTES) }
    }

    fn status(&self, number: usize) -> &AtomicU32 {
        // SAFETY: block_status lies within the block and is aligned (mapping and blocks are page
        // aligned, its offset is a multiple of 4). Both sides access it atomically only, and the
        // mapping lives as long as the borrow of `self`.
        unsafe { AtomicU32::from_ptr(self.block(number).add(BLOCK_STATUS).cast().as_ptr()) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        let bytes = self.lent.len() * BLOCK_BYTES;
        // SAFETY: the address and the length are those of the mapping; no borrow of it outlives
        // `self`.
        unsafe { libc::munmap(self.start.as_ptr().cast(), bytes) };
    }
}

impl Block {
    /// Bytes that the kernel wrote, up to the length that the block's header states.
    pub(super) fn bytes(&self) -> &[u8] {
        let start = self.mapping.block(self.number);
        // SAFETY: user space owns the block until `self` is dropped, so nobody writes to it. The
        // length is at most the block's length, and the mapping lives as long as `self`.
        unsafe { std::slice::from_raw_parts(start.as_ptr(), self.length) }
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        let Block { mapping, number, .. } = self;
        // The status is stored first. If `lent` were cleared first, `lend` could see a block that
        // is not on loan and still has the user's status, and lend it a second time.
        mapping.status(*number).store(libc::TP_STATUS_KERNEL, Ordering::Release);
        mapping.lent_blocks.fetch_sub(1, Ordering::Relaxed);
        mapping.lent[*number].store(false, Ordering::Release);
    }
}
