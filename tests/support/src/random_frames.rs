//! Generates frames from recorded frames of another card, by changing some bytes at random. A
//! sender that knows nothing of cards would make such frames.
//!
//! The generator is seeded, so that a failure can be reproduced. Except with [`Change::Counter`],
//! the frames have the counters of the recorded frames. A card that was just switched on sends the
//! same counters.

use hmtt_format::frame::{Heartbeat, MAC_HEADER_BYTES, WORDS_AT};
use hmtt_format::record::CLOCK_MASK;

use crate::random::Xorshift;

/// The change of a recorded frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// The first 56 bytes of the payload are random.
    Payload,
    /// The first 56 bytes of the payload are random except its header, so most frames can be read.
    Words,
    /// The same as [`Change::Words`], but each frame is sent three times.
    Repeated,
    /// The same as [`Change::Words`], with random counters.
    Counter,
    /// The payload is all zeros.
    Zeros,
    /// The payload is all zeros except its header.
    ZeroWords,
    /// The payload is all ones.
    Ones,
    /// The frame is cut at random.
    Cut,
    /// The frame is a heartbeat with a random clock.
    Heartbeat,
    /// One of the first 320 bits of the payload is flipped. Many of these frames continue each
    /// other.
    Bit,
    /// Up to eight bytes of the payload are random. Many of these frames continue each other.
    Bytes,
}

impl Change {
    /// Changes after which no frame confirms another one.
    pub const LONE: [Change; 9] = [
        Change::Payload,
        Change::Words,
        Change::Repeated,
        Change::Counter,
        Change::Zeros,
        Change::ZeroWords,
        Change::Ones,
        Change::Cut,
        Change::Heartbeat,
    ];
}

/// Maximum number of bytes of the payload that are made random.
const RANDOM_BYTES: usize = 56;
const REPEATS: u64 = 3;
/// Position of the counter in a frame: the last bytes of the source address.
const COUNTER: std::ops::Range<usize> = 7..12;

/// A generator of changed frames.
#[derive(Debug)]
pub struct RandomFrames {
    recorded: Vec<Vec<u8>>,
    change: Change,
    random: Xorshift,
    sent: u64,
    last: Vec<u8>,
}

impl RandomFrames {
    /// Creates a generator from the frames of a card. `seed`: not 0.
    ///
    /// # Panics
    /// If there are no frames.
    pub fn new(recorded: Vec<Vec<u8>>, change: Change, seed: u64) -> Self {
        assert!(!recorded.is_empty());
        let random = Xorshift::new(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        RandomFrames { recorded, change, random, sent: 0, last: Vec::new() }
    }

    fn fill(&mut self, bytes: &mut [u8]) {
        bytes.iter_mut().for_each(|byte| *byte = self.random.byte());
    }

    /// Builds the next frame.
    pub fn frame(&mut self) -> Vec<u8> {
        self.sent += 1;
        if self.change != Change::Repeated || self.sent % REPEATS == 1 {
            let at = self.random.below(self.recorded.len());
            let mut frame = self.recorded[at].clone();
            self.change(&mut frame);
            self.last = frame;
        }
        self.last.clone()
    }

    fn change(&mut self, frame: &mut Vec<u8>) {
        let length = frame.len();
        let end = length.min(MAC_HEADER_BYTES + RANDOM_BYTES);
        match self.change {
            Change::Payload => self.fill(&mut frame[MAC_HEADER_BYTES..end]),
            Change::Words | Change::Repeated => self.fill(&mut frame[WORDS_AT..end]),
            Change::Counter => {
                self.fill(&mut frame[WORDS_AT..end]);
                self.fill(&mut frame[COUNTER]);
            }
            Change::Zeros => frame[MAC_HEADER_BYTES..].fill(0),
            Change::ZeroWords => frame[WORDS_AT..].fill(0),
            Change::Ones => frame[MAC_HEADER_BYTES..].fill(0xff),
            Change::Cut => {
                let kept = MAC_HEADER_BYTES + self.random.below(length - MAC_HEADER_BYTES);
                frame.truncate(kept);
            }
            Change::Heartbeat => {
                let transmit_clocks = self.random.number() & CLOCK_MASK;
                let beat = Heartbeat { running: true, losses: 0, transmit_clocks }.encode();
                frame[MAC_HEADER_BYTES..WORDS_AT].copy_from_slice(&[0x33, 2, 0, 0]);
                let words = beat.map(u64::to_be_bytes).concat();
                frame[WORDS_AT..WORDS_AT + words.len()].copy_from_slice(&words);
            }
            Change::Bit => {
                let at = (MAC_HEADER_BYTES + self.random.below(40)).min(length - 1);
                frame[at] ^= 1 << self.random.below(8);
            }
            Change::Bytes => {
                for _ in 0..8 {
                    let at = MAC_HEADER_BYTES + self.random.below(length - MAC_HEADER_BYTES);
                    frame[at] = self.random.byte();
                }
            }
        }
    }

    /// Inserts `count` changed frames before each good frame but the first. Returns all frames and
    /// the number of changed ones.
    pub fn mix(&mut self, good: &[Vec<u8>], count: usize) -> (Vec<Vec<u8>>, u64) {
        let mut wire = Vec::new();
        for (at, frame) in good.iter().enumerate() {
            if at != 0 {
                wire.extend((0..count).map(|_| self.frame()));
            }
            wire.push(frame.clone());
        }
        let changed = (wire.len() - good.len()) as u64;
        (wire, changed)
    }
}
