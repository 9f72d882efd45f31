//! Tracks overlaps: times in which several threads have open functions. Their starts and ends have
//! an earliest and a latest time.
//!
//! Accesses in an overlap are not counted for any function, although functions stay open across it.
//! So a function that stops in an overlap has owned no accesses since the start of the overlap.
//! Until the latest start of the overlap, it is kept as a possible owner.

use std::collections::VecDeque;

use super::Moment;

/// Progress of the overlaps by their earliest times, or by their latest times.
#[derive(Clone, Copy, Debug, Default)]
struct Progress {
    /// Number of overlaps that have begun.
    begun: u64,
    /// Whether the last overlap that has begun has not ended.
    is_on: bool,
}

/// The overlaps, and the functions that are kept for them.
#[derive(Clone, Debug, Default)]
pub struct Overlaps {
    earliest: Progress,
    latest: Progress,
    /// Functions that stopped in an overlap: the number of the overlap, and the index of the
    /// function in the ledger's shares.
    kept: VecDeque<(u64, usize)>,
}

impl Overlaps {
    /// Starts or ends an overlap, by one of its times. Removes and returns the kept functions that
    /// are possible owners only until now.
    pub fn step(&mut self, is_start: bool, moment: Moment) -> impl Iterator<Item = usize> {
        let is_latest = moment == Moment::Latest;
        let progress = if is_latest { &mut self.latest } else { &mut self.earliest };
        progress.begun += u64::from(is_start);
        progress.is_on = is_start;
        let begun = self.latest.begun;
        std::iter::from_fn(move || {
            let (_, place) = self.kept.front().copied().filter(|(stretch, _)| *stretch <= begun)?;
            self.kept.pop_front();
            Some(place)
        })
    }

    /// Whether an overlap is open, by its earliest or latest times. Always false for
    /// [`Moment::Likeliest`].
    pub const fn is_on(&self, moment: Moment) -> bool {
        match moment {
            Moment::Earliest => self.earliest.is_on,
            Moment::Latest => self.latest.is_on,
            Moment::Likeliest => false,
        }
    }

    /// Keeps a function that stops in an overlap, if the latest start of the overlap is still to
    /// come. Returns whether it was kept.
    pub fn keep(&mut self, place: usize) -> bool {
        let is_waiting = self.latest.begun < self.earliest.begun;
        if is_waiting {
            self.kept.push_back((self.earliest.begun, place));
        }
        is_waiting
    }
}
