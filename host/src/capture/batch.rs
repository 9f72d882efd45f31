//! Frames that were captured together: bytes, owned or on loan from the ring, and where in them each
//! frame sits.

use std::time::Duration;

use super::mapping::Block;

/// A frame as captured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Captured<'a> {
    /// Arrival, since the epoch.
    pub time: Duration,
    /// Bytes on the wire, without FCS.
    pub original_len: u32,
    /// Bytes captured.
    pub bytes: &'a [u8],
}

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
    /// Takes the place of `own` where there is one.
    lent: Option<Block>,
    spans: Vec<Span>,
}

impl Batch {
    /// How many frames there are.
    pub fn len(&self) -> usize {
        self.spans.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.spans.is_empty()
    }

    /// The frames.
    pub fn frames(&self) -> impl Iterator<Item = Captured<'_>> {
        let bytes = self.bytes();
        self.spans.iter().map(|span| Captured {
            time: span.time,
            original_len: span.original_len,
            bytes: &bytes[span.at..span.at + span.len],
        })
    }

    /// Appends a frame to bytes that are owned.
    pub fn push(&mut self, time: Duration, original_len: u32, frame: &[u8]) {
        self.spans.push(Span { time, original_len, at: self.own.len(), len: frame.len() });
        self.own.extend_from_slice(frame);
    }

    /// Takes the frames of a block, which it is to `keep` until it is cleared or else copies.
    pub(super) fn take(&mut self, block: Block, keep: bool, walk: fn(&[u8], &mut Vec<Span>)) {
        if keep {
            self.lent = Some(block);
        } else {
            self.own.extend_from_slice(block.bytes());
        }
        let bytes = self.lent.as_ref().map_or(&self.own[..], Block::bytes);
        walk(bytes, &mut self.spans);
    }

    /// Becomes a copy of another batch.
    pub fn copy_from(&mut self, other: &Batch) {
        self.clear();
        self.own.extend_from_slice(other.bytes());
        self.spans.extend_from_slice(&other.spans);
    }

    /// Forgets the frames, keeps the memory it owns.
    pub fn clear(&mut self) {
        self.own.clear();
        self.lent = None;
        self.spans.clear();
    }

    fn bytes(&self) -> &[u8] {
        self.lent.as_ref().map_or(&self.own, Block::bytes)
    }
}
