//! Bytes that wait for a direct write, to memory that starts where such a write may.
//!
//! Invariant: the first of them is at a multiple of [`PAGE_BYTES`], however many come and go.

/// What direct writes come in multiples of, and their memory is aligned to.
pub(super) const PAGE_BYTES: usize = 4096;
/// Bytes staged before they are written: fewer, larger writes cost less.
pub(super) const DRAIN_BYTES: usize = 4 << 20;

/// Bytes with an aligned start.
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

    /// Moves to larger memory whose start is aligned anew.
    fn grow(&mut self, more: usize) {
        let room = (self.len() + more).max(DRAIN_BYTES).next_power_of_two() * 2;
        let mut memory: Vec<u8> = Vec::with_capacity(room + PAGE_BYTES);
        let start = memory.as_ptr().align_offset(PAGE_BYTES);
        memory.resize(start, 0);
        memory.extend_from_slice(self.bytes());
        (self.memory, self.start) = (memory, start);
    }

    /// Forgets the first `count` bytes; the rest moves to the aligned start.
    pub fn forget(&mut self, count: usize) {
        let length = self.len() - count;
        self.memory.copy_within(self.start + count.., self.start);
        self.memory.truncate(self.start + length);
    }
}
