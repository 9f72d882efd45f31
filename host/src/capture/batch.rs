//! Holds frames that were captured together: their bytes, which are owned or on loan from the ring,
//! and the position of each frame in them.

use std::time::Duration;

use super::mapping::Block;

/// A captured frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Captured<'a> {
    /// Arrival time, since the Unix epoch.
    pub time: Duration,
    /// Length on the wire in bytes, without FCS.
    pub original_len: u32,
    /// Captured bytes, from the destination address on.
    pub bytes: &'a [u8],
}

/// Position of a frame in the bytes of a batch.
#[derive(Clone, Copy, Debug)]
pub(super) struct Span {
    pub time: Duration,
    pub original_len: u32,
    pub at: usize,
    pub len: usize,
}

/// Frames in arrival order.
#[derive(Debug, Default)]
pub struct Batch {
    own: Vec<u8>,
    /// Block of the ring that holds the frames; replaces `own`.
    lent: Option<Block>,
    spans: Vec<Span>,
}

impl Batch {
    /// Number of frames.
    pub fn len(&self) -> usize {
        self.spans.len()
    }

    /// Whether the batch has no frames.
    pub fn is_empty(&self) -> bool {
        self.spans.is_empty()
    }

    /// Frames in arrival order.
    pub fn frames(&self) -> impl Iterator<Item = Captured<'_>> {
        let bytes = self.bytes();
        self.spans.iter().map(|span| Captured {
            time: span.time,
            original_len: span.original_len,
            bytes: &bytes[span.at..span.at + span.len],
        })
    }

    /// Appends a copy of a frame.
    pub fn push(&mut self, time: Duration, original_len: u32, frame: &[u8]) {
        self.spans.push(Span { time, original_len, at: self.own.len(), len: frame.len() });
        self.own.extend_from_slice(frame);
    }

    /// Adds the frames of a block. With `keep` the batch holds the block until the batch is
    /// cleared. Without `keep` it copies the block's bytes and returns the block to the kernel.
    pub(super) fn take(&mut self, block: Block, keep: bool, walk: fn(&[u8], &mut Vec<Span>)) {
        if keep {
            self.lent = Some(block);
        } else {
            self.own.extend_from_slice(block.bytes());
        }
        let bytes = self.lent.as_ref().map_or(&self.own[..], Block::bytes);
        walk(bytes, &mut self.spans);
    }

    /// Replaces the content by a copy of another batch.
    pub fn copy_from(&mut self, other: &Batch) {
        self.clear();
        self.own.extend_from_slice(other.bytes());
        self.spans.extend_from_slice(&other.spans);
    }

    /// Removes all frames, and keeps the allocated memory.
    pub fn clear(&mut self) {
        self.own.clear();
        self.lent = None;
        self.spans.clear();
    }

    fn bytes(&self) -> &[u8] {
        self.lent.as_ref().map_or(&self.own, Block::bytes)
    }
}
