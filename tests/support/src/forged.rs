//! Generates forged frames: frames with a card's addresses from a hostile sender on the wire.
//!
//! The generator is seeded, so that a failure can be reproduced. It depends on the wire format
//! only.

use hmtt_format::FORMAT_VERSION;
use hmtt_format::frame::{
    ACCESSES_MASK, COUNTER_MASK, FrameKind, Heartbeat, LOST_MASK, MAX_FRAME_BYTES, PayloadHeader,
    Sync, encode,
};
use hmtt_format::record::{CLOCK_MASK, Half};

use crate::random::Xorshift;

/// Kind of forged frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Forgery {
    /// Every field is random, as in a flood by an attacker who knows the format.
    Random,
    /// Heartbeats with random counters.
    Heartbeats,
    /// Frames of another version, with random counters.
    Unreadable,
    /// End frames with random counters and counts.
    Ends,
    /// The same counter in every frame; every other field is random.
    OneCounter,
    /// The first frames of one session, repeated.
    Restarts,
    /// Frames whose counters increase by a million (2^20).
    Jumps,
    /// Three frames that continue each other, then three such frames of another session.
    Sessions,
    /// Frames of another card, which has no errors.
    Card,
}

impl Forgery {
    /// All kinds of forgery.
    pub const ALL: [Forgery; 9] = [
        Forgery::Random,
        Forgery::Heartbeats,
        Forgery::Unreadable,
        Forgery::Ends,
        Forgery::OneCounter,
        Forgery::Restarts,
        Forgery::Jumps,
        Forgery::Sessions,
        Forgery::Card,
    ];
    /// Kinds in which no frame continues another one, so that nothing confirms them.
    pub const LONE: [Forgery; 5] = [
        Forgery::Random,
        Forgery::Heartbeats,
        Forgery::Unreadable,
        Forgery::Ends,
        Forgery::OneCounter,
    ];
}

/// Generator of frames of one kind of forgery.
#[derive(Debug)]
pub struct Forger {
    forgery: Forgery,
    random: Xorshift,
    sent: u64,
    counter: u64,
    sync: Sync,
}

/// Number of frames in a session of [`Forgery::Sessions`].
const SESSION_FRAMES: u64 = 3;
const RESTART_FRAMES: u64 = 16;
const JUMP: u64 = 1 << 20;

impl Forger {
    /// Creates a generator. `seed`: not 0.
    pub fn new(forgery: Forgery, seed: u64) -> Self {
        let sync = Sync { clock: 0, unit_log2: 6, segment: 0, accesses: 0, lost: 0 };
        let mut forger = Forger { forgery, random: Xorshift::new(seed), sent: 0, counter: 0, sync };
        forger.restart();
        forger
    }

    fn restart(&mut self) {
        self.counter = self.random.number() & COUNTER_MASK;
        self.sync.clock = self.random.number() & CLOCK_MASK;
        self.sync.accesses = self.random.number() & ACCESSES_MASK;
        self.sync.lost = self.random.number() as u32 & LOST_MASK;
    }

    /// Advances the state to the next frame.
    fn advance(&mut self) {
        match self.forgery {
            Forgery::Random | Forgery::Heartbeats | Forgery::Unreadable | Forgery::Ends => {
                self.restart();
            }
            Forgery::OneCounter => {
                let counter = self.counter;
                self.restart();
                self.counter = counter;
            }
            Forgery::Restarts => {
                self.counter = self.sent % RESTART_FRAMES;
                (self.sync.accesses, self.sync.lost) = (self.counter, 0);
                self.sync.clock = 100 + self.counter * 100;
            }
            Forgery::Jumps => self.continue_session(JUMP),
            Forgery::Sessions if self.sent.is_multiple_of(SESSION_FRAMES) => self.restart(),
            Forgery::Sessions | Forgery::Card => self.continue_session(1),
        }
        self.sent += 1;
    }

    fn continue_session(&mut self, frames: u64) {
        self.counter = (self.counter + frames) & COUNTER_MASK;
        self.sync.accesses = (self.sync.accesses + frames) & ACCESSES_MASK;
        self.sync.clock = (self.sync.clock + frames) & CLOCK_MASK;
    }

    /// Builds the next frame in `buffer`. Returns its length.
    pub fn next(&mut self, buffer: &mut [u8; MAX_FRAME_BYTES]) -> usize {
        self.advance();
        let access = Half::Access { direction: hmtt_format::Direction::Read, delta: 1, number: 7 };
        let halves = u64::from(access.encode()) << 32 | u64::from(Half::Skip(0).encode());
        let [first, second] = self.sync.encode();
        let transmit_clocks = self.random.number() & CLOCK_MASK;
        let beat = Heartbeat { running: true, losses: 0, transmit_clocks }.encode();
        let (kind, words) = match self.forgery {
            Forgery::Heartbeats => (FrameKind::Heartbeat, beat.to_vec()),
            Forgery::Ends => (FrameKind::End, vec![first, second, halves]),
            _ => (FrameKind::Data, vec![first, second, halves]),
        };
        let other = u8::from(self.forgery == Forgery::Unreadable);
        let header = PayloadHeader {
            version: FORMAT_VERSION + other,
            kind: kind as u8,
            words: words.len() as u8,
            lost: if kind == FrameKind::Heartbeat { 0 } else { self.sync.lost as u16 },
        };
        encode(buffer, self.counter, header, &words)
    }

    /// Builds the next frame.
    pub fn frame(&mut self) -> Vec<u8> {
        let mut buffer = [0; MAX_FRAME_BYTES];
        let length = self.next(&mut buffer);
        buffer[..length].to_vec()
    }
}

/// Inserts forged frames before each good frame. `turns`: the numbers of forged frames to insert,
/// used cyclically. Returns all frames and the number of forged frames.
///
/// # Panics
/// If there are no turns.
pub fn mix(good: &[Vec<u8>], forger: &mut Forger, turns: &[usize]) -> (Vec<Vec<u8>>, u64) {
    let (mut wire, mut forged) = (Vec::new(), 0);
    for (at, frame) in good.iter().enumerate() {
        // A receiver accepts the first frame on a wire without confirmation, so it must be a good
        // one.
        let count = if at == 0 { 0 } else { turns[at % turns.len()] };
        wire.extend((0..count).map(|_| forger.frame()));
        forged += count as u64;
        wire.push(frame.clone());
    }
    (wire, forged)
}
