//! Stretches in which several threads have open functions, at the earliest and at the latest.
//!
//! What comes in them is nobody's function's, though functions stay open across them. A function that stops within such
//! a stretch has not been the owner since the stretch began, which may not have been at the latest by then: it is kept
//! until it has.

use std::collections::VecDeque;

use super::Moment;

/// How far the changes of one moment have come.
#[derive(Clone, Copy, Debug, Default)]
struct Progress {
    /// Stretches that have begun.
    begun: u64,
    is_on: bool,
}

/// The stretches, and what waits for them.
#[derive(Clone, Debug, Default)]
pub struct Several {
    earliest: Progress,
    latest: Progress,
    /// Places of functions that stopped within a stretch, and its number.
    kept: VecDeque<(u64, usize)>,
}

impl Several {
    /// A stretch begins or ends; functions come back that were kept and may have been owners until now.
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

    /// Whether the changes of a moment are within a stretch.
    pub const fn is_on(&self, moment: Moment) -> bool {
        match moment {
            Moment::Earliest => self.earliest.is_on,
            Moment::Latest => self.latest.is_on,
            Moment::Likeliest => false,
        }
    }

    /// Keeps a function that stops within the stretch at the earliest, if that has not begun at the latest.
    pub fn keep(&mut self, place: usize) -> bool {
        let is_waiting = self.latest.begun < self.earliest.begun;
        if is_waiting {
            self.kept.push_back((self.earliest.begun, place));
        }
        is_waiting
    }
}
