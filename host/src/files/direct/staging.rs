//! Buffers bytes for direct writes in page-aligned memory.
//!
//! Invariant: the first buffered byte is always at an address that is a multiple of [`PAGE_BYTES`].

/// Unit of the length of direct writes, and alignment of their memory, in bytes.
pub(super) const PAGE_BYTES: usize = 4096;
/// Number of staged bytes from which on a write is due. Few large writes cost less than many small
/// writes.
pub(super) const DRAIN_BYTES: usize = 4 << 20;

/// A byte buffer whose start is aligned.
#[derive(Debug, Default)]
pub(super) struct Staging {
    memory: Vec<u8>,
    start: usize,
}

impl Staging {
    pub fn bytes(&self) -> &[u8] {
        &self.memory[self.start..]
    }

    pub fn len(&self) -> usize {
        self.memory.len() - self.start
    }

    pub fn append(&mut self, bytes: &[u8]) {
        if self.memory.capacity() - self.memory.len() < bytes.len() {
            self.grow(bytes.len());
        }
        self.memory.extend_from_slice(bytes);
    }

    /// Moves the bytes to a larger allocation, and aligns their start.
    fn grow(&mut self, more: usize) {
        let capacity = (self.len() + more).max(DRAIN_BYTES).next_power_of_two() * 2;
        let mut memory: Vec<u8> = Vec::with_capacity(capacity + PAGE_BYTES);
        let start = memory.as_ptr().align_offset(PAGE_BYTES);
        memory.resize(start, 0);
        memory.extend_from_slice(self.bytes());
        (self.memory, self.start) = (memory, start);
    }

    /// Removes the first `count` bytes and moves the rest to the aligned start.
    pub fn forget(&mut self, count: usize) {
        let length = self.len() - count;
        self.memory.copy_within(self.start + count.., self.start);
        self.memory.truncate(self.start + length);
    }
}
