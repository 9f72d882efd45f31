//! The ring's memory, shared with the kernel: blocks that are ours, lent out and given back.
//!
//! Layout and protocol are those of [`super::ring`]. Invariant: a block is read only while a
//! [`Block`] stands for it, there is at most one for each, and it is given back when that is dropped.

use std::io;
use std::mem::offset_of;
use std::os::fd::{AsRawFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};

use libc::{tpacket_block_desc, tpacket_hdr_v1};

/// Bytes of a block; the largest frame is a small part of it, so little is left unused.
pub const BLOCK_BYTES: usize = 1 << 20;
pub(super) const BLOCK_HEADER: usize = offset_of!(tpacket_block_desc, hdr);
const BLOCK_STATUS: usize = BLOCK_HEADER + offset_of!(tpacket_hdr_v1, block_status);
const BLOCK_LENGTH: usize = BLOCK_HEADER + offset_of!(tpacket_hdr_v1, blk_len);

/// The shared mapping.
#[derive(Debug)]
pub(super) struct Mapping {
    start: NonNull<u8>,
    /// Of each block, whether a [`Block`] stands for it.
    lent: Vec<AtomicBool>,
    lent_blocks: AtomicUsize,
}

// SAFETY: the mapping is owned by this value alone and stays where it is; the kernel's side of the
// sharing is ordered by `block_status` whatever thread we are on.
unsafe impl Send for Mapping {}
// SAFETY: what is shared between threads is atomic, but the bytes of blocks, and of those each is
// reached through its one `Block` alone.
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
        // SAFETY: a new mapping of `bytes` bytes wherever the kernel likes touches no memory in use.
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

    /// Lends a block, if the kernel has filled it and it is not on loan already.
    pub(super) fn lend(self: &Arc<Self>, number: usize) -> Option<Block> {
        // In this order: see `Block::drop`.
        if self.lent[number].load(Ordering::Acquire)
            || self.status(number).load(Ordering::Acquire) & libc::TP_STATUS_USER == 0
            || self.lent[number].swap(true, Ordering::Acquire)
        {
            return None;
        }
        self.lent_blocks.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the block is ours, so the kernel does not write to it; the field lies within it
        // and is aligned.
        let length = unsafe { self.block(number).add(BLOCK_LENGTH).cast::<u32>().read() } as usize;
        Some(Block { mapping: Arc::clone(self), number, length: length.min(BLOCK_BYTES) })
    }

    /// Blocks on loan.
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
        // SAFETY: exactly what was mapped; no borrow of it outlives `self`.
        unsafe { libc::munmap(self.start.as_ptr().cast(), bytes) };
    }
}

impl Block {
    /// What the kernel wrote, up to the length its header states.
    pub(super) fn bytes(&self) -> &[u8] {
        let start = self.mapping.block(self.number);
        // SAFETY: the block is ours until it is given back, which is when `self` is dropped, so nobody
        // writes to it; no more than the block is read, and the mapping lives as long as `self`.
        unsafe { std::slice::from_raw_parts(start.as_ptr(), self.length) }
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        let Block { mapping, number, .. } = self;
        // In this order: were it off loan first, it would seem ours to be lent again.
        mapping.status(*number).store(libc::TP_STATUS_KERNEL, Ordering::Release);
        mapping.lent_blocks.fetch_sub(1, Ordering::Relaxed);
        mapping.lent[*number].store(false, Ordering::Release);
    }
}
