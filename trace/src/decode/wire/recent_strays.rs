//! Frames that were nobody's lately, found again by their counters when another one may go on from them.
//!
//! Beside a flood of made-up frames many come between two of a card that restarts, or that appears: more
//! than can wait and be compared one by one. Invariant: the last [`MAX_RECENT_STRAYS`] frames are found, and
//! finding one takes the same time whatever came.

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasher, Hasher, RandomState};

use hmtt_format::frame::COUNTER_MASK;

use super::pending_run::PendingFrame;
use crate::decode::sequence::WINDOW;

/// Most frames kept: at most 1.5 MiB of them.
const MAX_RECENT_STRAYS: usize = 1024;

/// Spreads numbers by a random factor: quick, and nobody can choose numbers that collide without knowing it.
#[derive(Clone, Copy, Debug)]
struct Spread {
    factor: u64,
    hash: u64,
}

impl Default for Spread {
    fn default() -> Self {
        Spread { factor: RandomState::new().hash_one(0) | 1, hash: 0 }
    }
}

impl BuildHasher for Spread {
    type Hasher = Spread;

    fn build_hasher(&self) -> Spread {
        *self
    }
}

impl Hasher for Spread {
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u64((*byte).into()));
    }

    fn write_u64(&mut self, number: u64) {
        let product = u128::from(self.hash ^ number) * u128::from(self.factor);
        // Each half alone depends on a part of the number only.
        self.hash = (product >> 64) as u64 ^ product as u64;
    }

    fn finish(&self) -> u64 {
        self.hash
    }
}

#[derive(Debug)]
struct RecentStray {
    counter: u64,
    /// Nothing once it was taken.
    frame: Option<PendingFrame>,
}

/// Frames that were nobody's lately.
#[derive(Debug, Default)]
pub(super) struct RecentStrays {
    frames: VecDeque<RecentStray>,
    /// Number of the first of `frames`, of all that ever came.
    first: u64,
    /// The last frame of each stretch of [`WINDOW`] counters, by its number.
    latest: HashMap<u64, u64, Spread>,
}

impl RecentStrays {
    /// Keeps a frame. One that is forgotten for it comes back.
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

    /// Takes out the latest frame whose counter is near, if another one may go on from it: the frame before
    /// it in the same stretch of counters, or in one beside it.
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
