//! Keeps the latest strays, and finds one by its counter when another frame may continue it.
//!
//! In a flood of made-up frames, many arrive between two frames of a card that restarts or appears: more than can wait
//! as pending runs and be compared one by one. Invariant: the last [`MAX_RECENT_STRAYS`] strays can be found, in a time
//! that does not depend on what arrived.

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasher, Hasher, RandomState};

use hmtt_format::frame::COUNTER_MASK;

use super::pending_run::PendingFrame;
use crate::decode::sequence::WINDOW;

/// Most strays that are kept: 1.5 MiB of frames.
const MAX_RECENT_STRAYS: usize = 1024;

/// A hash that multiplies by a random factor. It is fast, and a sender who does not know the factor cannot choose numbers
/// that collide.
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

    fn write_u64(&mut self, number: u64) {
        let product = u128::from(self.hash ^ number) * u128::from(self.factor);
        // Each half of the product alone depends on a part of the number only.
        self.hash = (product >> 64) as u64 ^ product as u64;
    }

    fn finish(&self) -> u64 {
        self.hash
    }
}

#[derive(Debug)]
struct RecentStray {
    counter: u64,
    /// `None` after the frame was taken.
    frame: Option<PendingFrame>,
}

/// The latest strays, in the order of arrival, with an index by counter.
#[derive(Debug, Default)]
pub(super) struct RecentStrays {
    frames: VecDeque<RecentStray>,
    /// Serial number of the first of `frames` among all strays so far.
    first: u64,
    /// Serial number of the last stray in each stretch of [`WINDOW`] counters, by the number of the stretch.
    latest: HashMap<u64, u64, RandomFactorHash>,
}

impl RecentStrays {
    /// Keeps a frame. Returns the frame that is removed for it, if any.
    pub fn push(&mut self, counter: u64, frame: PendingFrame) -> Option<PendingFrame> {
        let is_full = self.frames.len() >= MAX_RECENT_STRAYS;
        let forgotten = if is_full { self.forget_first() } else { None };
        self.latest.insert(counter / WINDOW, self.first + self.frames.len() as u64);
        self.frames.push_back(RecentStray { counter, frame: Some(frame) });
        forgotten
    }

    fn forget_first(&mut self) -> Option<PendingFrame> {
        let RecentStray { counter, frame } = self.frames.pop_front()?;
        let stretch = counter / WINDOW;
        if self.latest.get(&stretch) == Some(&self.first) {
            self.latest.remove(&stretch);
        }
        self.first += 1;
        frame
    }

    /// Removes and returns a stray with a counter near `counter` for which `fits` holds. Checks the latest stray of the same
    /// stretch of counters and of the two adjacent ones.
    pub fn take_near(
        &mut self,
        counter: u64,
        fits: impl Fn(&PendingFrame) -> bool,
    ) -> Option<PendingFrame> {
        let stretches = [counter, counter.wrapping_sub(WINDOW), counter.wrapping_add(WINDOW)];
        stretches.into_iter().find_map(|near| {
            let number = self.latest.get(&((near & COUNTER_MASK) / WINDOW))?;
            let at = usize::try_from(number - self.first).ok()?;
            let stray = self.frames.get_mut(at)?;
            stray.frame.take_if(|frame| fits(frame))
        })
    }
}
