//! Frames that were captured together, owned: one buffer, and where in it each frame sits.

use std::time::Duration;

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
    pub(super) bytes: Vec<u8>,
    pub(super) spans: Vec<Span>,
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
        self.spans.iter().map(|span| Captured {
            time: span.time,
            original_len: span.original_len,
            bytes: &self.bytes[span.at..span.at + span.len],
        })
    }

    /// Appends a frame.
    pub fn push(&mut self, time: Duration, original_len: u32, frame: &[u8]) {
        self.spans.push(Span { time, original_len, at: self.bytes.len(), len: frame.len() });
        self.bytes.extend_from_slice(frame);
    }

    /// Forgets the frames, keeps the memory.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.spans.clear();
    }
}
