//! Holds a captured frame with the results of parsing, summarising and hashing it.
//!
//! Invariant: a frame is parsed, summarised and hashed at most once, however often it waits and
//! however many traces it is compared with: a `StoredFrame` keeps the results with the bytes.

use std::cell::OnceCell;

use super::counts_after::FrameSummary;
use super::fingerprint::fingerprint;
use super::frame::{Frame, FrameLayout, Origin};

/// A card's frame that was captured and parsed.
#[derive(Clone, Debug)]
pub struct Arrival<'a> {
    /// The place of the frame in its capture.
    pub origin: Origin,
    /// The bytes of the frame, from the destination address on.
    pub bytes: &'a [u8],
    /// The parsed frame.
    pub frame: Frame<'a>,
    fingerprint: OnceCell<u64>,
    summary: OnceCell<FrameSummary>,
}

impl<'a> Arrival<'a> {
    /// Parses a captured frame; `None` if no card sent it.
    pub fn parse(origin: Origin, bytes: &'a [u8]) -> Option<Self> {
        let frame = Frame::parse(bytes)?;
        let (fingerprint, summary) = (OnceCell::new(), OnceCell::new());
        Some(Arrival { origin, bytes, frame, fingerprint, summary })
    }

    /// The fingerprint of the frame, by which a copy is recognised.
    pub(super) fn fingerprint(&self) -> u64 {
        *self.fingerprint.get_or_init(|| fingerprint(self.bytes))
    }

    /// What the frame states about its place in its session.
    pub(super) fn summary(&self) -> FrameSummary {
        *self.summary.get_or_init(|| FrameSummary::new(&self.frame))
    }
}

/// A frame that waits, with its bytes.
#[derive(Clone, Debug)]
pub(super) struct StoredFrame {
    pub origin: Origin,
    pub summary: FrameSummary,
    bytes: Vec<u8>,
    layout: FrameLayout,
    fingerprint: OnceCell<u64>,
}

impl StoredFrame {
    pub fn new(arrival: &Arrival<'_>) -> Self {
        StoredFrame {
            origin: arrival.origin,
            summary: arrival.summary(),
            bytes: arrival.bytes.to_vec(),
            layout: FrameLayout::new(&arrival.frame),
            fingerprint: arrival.fingerprint.clone(),
        }
    }

    /// Replaces the frame by another one; the memory of its bytes is used again.
    pub fn replace(&mut self, arrival: &Arrival<'_>) {
        self.origin = arrival.origin;
        self.summary = arrival.summary();
        self.bytes.clear();
        self.bytes.extend_from_slice(arrival.bytes);
        self.layout = FrameLayout::new(&arrival.frame);
        self.fingerprint = arrival.fingerprint.clone();
    }

    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Counter of the frame, modulo 2^40.
    pub fn counter(&self) -> u64 {
        self.layout.counter()
    }

    pub fn is_readable(&self) -> bool {
        !matches!(self.summary, FrameSummary::Unreadable)
    }

    pub fn fingerprint(&self) -> u64 {
        *self.fingerprint.get_or_init(|| fingerprint(&self.bytes))
    }

    /// The frame as it arrived.
    pub fn arrival(&self) -> Arrival<'_> {
        Arrival {
            origin: self.origin,
            bytes: &self.bytes,
            frame: self.layout.frame(&self.bytes),
            fingerprint: self.fingerprint.clone(),
            summary: OnceCell::from(self.summary),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hmtt_test_support::card::Card;

    #[test]
    fn a_stored_frame_equals_the_frame_that_arrived() {
        for (bytes, cut) in
            Card::new().session(3, 9).0.iter().flat_map(|bytes| [(bytes, 0), (bytes, 20)])
        {
            let bytes = &bytes[..bytes.len() - cut];
            let arrival = Arrival::parse(Origin { packet: 7, ..Origin::default() }, bytes).unwrap();
            let mut stored = StoredFrame::new(&arrival);
            for _ in 0..2 {
                let again = stored.arrival();
                assert_eq!((again.origin, again.bytes), (arrival.origin, arrival.bytes));
                assert_eq!(again.frame, arrival.frame);
                assert_eq!(again.fingerprint(), arrival.fingerprint());
                stored.replace(&arrival);
            }
        }
    }
}
