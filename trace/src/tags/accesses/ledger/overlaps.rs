//! Tracks overlaps: stretches of time in which several threads have open functions, by the earliest
//! and the latest times of their starts and ends.
//!
//! Accesses in an overlap are not counted for any function, though functions stay open across it. A
//! function that stops in an overlap stopped to own accesses when the overlap began. If the latest
//! start of the overlap is not yet reached, the function is kept as a possible owner until it is.

use std::collections::VecDeque;

use super::Moment;

/// Progress of the overlaps, for one of the times of a change.
#[derive(Clone, Copy, Debug, Default)]
struct Progress {
    /// Number of overlaps that have begun.
    begun: u64,
    is_on: bool,
}

/// Overlaps, and the functions kept for them.
#[derive(Clone, Debug, Default)]
pub struct Overlaps {
    earliest: Progress,
    latest: Progress,
    /// Functions that stopped in an overlap: number of the overlap, and index of the function.
    kept: VecDeque<(u64, usize)>,
}

impl Overlaps {
    /// Starts or ends an overlap; returns kept functions that could be owners only until now.
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

    /// Whether an overlap is open, by one of the times of changes.
    pub const fn is_on(&self, moment: Moment) -> bool {
        match moment {
            Moment::Earliest => self.earliest.is_on,
            Moment::Latest => self.latest.is_on,
            Moment::Likeliest => false,
        }
    }

    /// Keeps a function that stops in an overlap, if the overlap's latest start is not reached.
    pub fn keep(&mut self, place: usize) -> bool {
        let is_waiting = self.latest.begun < self.earliest.begun;
        if is_waiting {
            self.kept.push_back((self.earliest.begun, place));
        }
        is_waiting
    }
}
