//! Keeps the latest strays, and finds the stray that a new frame may continue: by the counter and
//! the counts that must follow the stray, or by the counter alone.
//!
//! In a flood of made-up frames, many arrive between two frames of a card that restarts or appears:
//! more than can wait as pending runs and be compared one by one. Invariant: the last
//! [`MAX_RECENT_STRAYS`] strays can be found, in a time that does not depend on what arrived.

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasher, Hasher, RandomState};

use hmtt_format::frame::COUNTER_MASK;

use super::pending_frame::PendingFrame;
use crate::decode::arrival::Arrival;
use crate::decode::sequence::WINDOW;

/// Maximum number of strays that are kept: 1.5 MiB of frames.
const MAX_RECENT_STRAYS: usize = 1024;

/// A hash that multiplies by a random factor. It is fast, and a sender who does not know the factor
/// cannot choose numbers that collide.
#[derive(Clone, Copy, Debug)]
struct RandomFactorHash {
    factor: u64,
    hash: u64,
}

impl Default for RandomFactorHash {
    fn default() -> Self {
        RandomFactorHash { factor: RandomState::new().hash_one(0) | 1, hash: 0 }
    }
}

impl BuildHasher for RandomFactorHash {
    type Hasher = RandomFactorHash;

    fn build_hasher(&self) -> RandomFactorHash {
        *self
    }
}

impl Hasher for RandomFactorHash {
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u64((*byte).into()));
    }

    fn write_u32(&mut self, number: u32) {
        self.write_u64(number.into());
    }

    fn write_isize(&mut self, number: isize) {
        self.write_u64(number as u64);
    }

    fn write_u64(&mut self, number: u64) {
        let product = u128::from(self.hash ^ number) * u128::from(self.factor);
        // Each half of the product alone depends on a part of the number only.
        self.hash = (product >> 64) as u64 ^ product as u64;
    }

    fn finish(&self) -> u64 {
        self.hash
    }
}

/// A key by which the index finds the last stray that has this key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Key {
    /// A stretch of [`WINDOW`] counters: its first counter divided by [`WINDOW`].
    Stretch(u64),
    /// A counter, and the counts of accesses and lost records that a frame with this counter must
    /// state to follow exactly.
    Next(u64, u64, u32),
}

#[derive(Debug)]
struct RecentStray {
    keys: [Option<Key>; 2],
    /// `None` after the frame was taken.
    frame: Option<PendingFrame>,
}

/// The latest strays, in the order of arrival, with an index.
#[derive(Debug, Default)]
pub(super) struct RecentStrays {
    frames: VecDeque<RecentStray>,
    /// Serial number of the first of `frames` among all strays so far.
    first: u64,
    /// Serial number of the last stray with each key.
    latest: HashMap<Key, u64, RandomFactorHash>,
}

impl RecentStrays {
    /// Keeps a frame. Returns the frame that is removed for it, if any.
    pub fn push(&mut self, counter: u64, frame: PendingFrame) -> Option<PendingFrame> {
        let is_full = self.frames.len() >= MAX_RECENT_STRAYS;
        let forgotten = if is_full { self.forget_first() } else { None };
        let next = frame
            .stored
            .summary
            .counts()
            .map(|(_, end)| Key::Next((counter + 1) & COUNTER_MASK, end.accesses, end.lost));
        let keys = [Some(Key::Stretch(counter / WINDOW)), next];
        let serial = self.first + self.frames.len() as u64;
        keys.iter().flatten().for_each(|key| _ = self.latest.insert(*key, serial));
        self.frames.push_back(RecentStray { keys, frame: Some(frame) });
        forgotten
    }

    fn forget_first(&mut self) -> Option<PendingFrame> {
        let RecentStray { keys, frame } = self.frames.pop_front()?;
        for key in keys.iter().flatten() {
            if self.latest.get(key) == Some(&self.first) {
                self.latest.remove(key);
            }
        }
        self.first += 1;
        frame
    }

    /// Removes and returns a stray near a frame for which `fits` holds. Checks at most four strays:
    /// the latest stray that the frame follows exactly, and the latest stray in the frame's stretch
    /// of counters and in each of the two adjacent stretches.
    pub fn take_near(
        &mut self,
        arrival: &Arrival<'_>,
        fits: impl Fn(&PendingFrame) -> bool,
    ) -> Option<PendingFrame> {
        let counter = arrival.frame.counter;
        let stretches = [counter, counter.wrapping_sub(WINDOW), counter.wrapping_add(WINDOW)];
        let stretches = stretches.map(|near| Some(Key::Stretch((near & COUNTER_MASK) / WINDOW)));
        let exact = arrival.frame.sync().map(|sync| Key::Next(counter, sync.accesses, sync.lost));
        std::iter::once(exact).chain(stretches).flatten().find_map(|key| {
            let number = self.latest.get(&key)?;
            let at = usize::try_from(number - self.first).ok()?;
            let stray = self.frames.get_mut(at)?;
            stray.frame.take_if(|frame| fits(frame))
        })
    }
}
