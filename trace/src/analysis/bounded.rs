//! Reuse distances in bounded memory: exact ones, until there are more than a number of lines; then
//! of a part of all lines that becomes smaller.
//!
//! Each time there are more lines, half of them, chosen by a hash, are left out from there on
//! (Waldspurger et al., FAST 2015, with a fixed number of lines). Touches count with the part of
//! lines that was looked at when they were made, so the exact ones stay exact.
//! [`Reuses::sampling_rate`] is the last and smallest part; it is 1 if all is exact.
//!
//! Memory: 42 to 74 bytes for each of the lines, and up to 24 more for the moment in which half of
//! them are left out. Addresses that were chosen by their hash so that none is left out can exceed
//! it. [`Analysis::append`] is exact while both pieces are; otherwise lines of the later piece are
//! as new as those of another memory. [`Analysis::merge`] adds counts.

use serde::{Deserialize, Serialize};

use super::batch::UNITS_AT_ONCE;
use super::reuse::{Distances, Reuses, Touches, unit_log2};
use super::sample::{hash, sample};
use super::{Analysis, Batch, LINE_LOG2};

/// Reuse distances of at most some lines at once.
///
/// ```
/// use hmtt::analysis::{Analysis, Batch, bounded::Bounded};
///
/// let mut reuse = Bounded::lines(100);
/// let addresses: Vec<u64> = (0..6400).map(|number| number % 64 << 6).collect();
/// reuse.add(&Batch::new(&addresses, &[false; 6400]));
/// assert_eq!(reuse.result().sampling_rate, 1.0);
/// let addresses: Vec<u64> = (0..6400).map(|number| number % 640 << 6).collect();
/// reuse.add(&Batch::new(&addresses, &[false; 6400]));
/// assert!(reuse.result().sampling_rate <= 0.25);
/// ```
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Bounded {
    #[serde(deserialize_with = "unit_log2")]
    unit_log2: u32,
    most: usize,
    now: Distances,
    /// Touches that were counted when other parts of all lines were looked at, and those of merged
    /// memories; each with its threshold.
    earlier: Vec<(u32, Touches)>,
}

impl Bounded {
    /// Distances of lines, of which at most as many as `most` are looked at.
    pub fn lines(most: usize) -> Self {
        let (now, earlier) = (Distances::new(u32::MAX), Vec::new());
        Bounded { unit_log2: LINE_LOG2, most: most.max(1), now, earlier }
    }

    /// Whether both have the same unit.
    pub(super) fn is_like(&self, other: &Bounded) -> bool {
        self.unit_log2 == other.unit_log2
    }

    /// Touches the lines that are looked at; at most [`UNITS_AT_ONCE`].
    fn touch(&mut self, lines: &[u64]) {
        let mut sampled = [0; UNITS_AT_ONCE];
        let sampled = sample(lines, self.now.threshold, &mut sampled);
        if self.now.lines() + sampled.len() <= self.most {
            return self.now.touch(sampled);
        }
        for line in sampled {
            // Others may have been left out since.
            if hash(*line) >= self.now.threshold {
                continue;
            }
            self.now.touch(&[*line]);
            if self.now.lines() > self.most {
                self.leave_out();
            }
        }
    }

    /// Leaves half of the lines out.
    #[cold]
    fn leave_out(&mut self) {
        if self.now.threshold > 1 {
            let half = self.now.threshold / 2;
            let counted = (self.now.threshold, self.now.restrict(half, |line| hash(line) < half));
            self.count(counted);
        }
    }

    fn count(&mut self, (threshold, touches): (u32, Touches)) {
        match self.earlier.iter_mut().find(|(other, _)| *other == threshold) {
            Some((_, sum)) => sum.add(&touches),
            None => self.earlier.push((threshold, touches)),
        }
    }

    /// All counts, with the thresholds of their parts.
    fn all(&self) -> impl Iterator<Item = (u32, Touches)> {
        let now = (self.now.threshold, self.now.touches());
        self.earlier.iter().cloned().chain([now])
    }
}

impl Analysis for Bounded {
    type Result = Reuses;

    fn add(&mut self, batch: &Batch<'_>) {
        let mut count = 0;
        batch.each_units(self.unit_log2, |units| {
            count += units.len() as u64;
            self.touch(units);
        });
        self.now.count(count);
    }

    fn append(&mut self, later: Self) {
        let is_exact = |of: &Self| of.earlier.is_empty() && of.now.threshold == Distances::full();
        if !is_exact(self) || !is_exact(&later) {
            return self.merge(later);
        }
        self.now.append(&later.now);
        while self.now.lines() > self.most && self.now.threshold > 1 {
            self.leave_out();
        }
    }

    fn merge(&mut self, other: Self) {
        other.all().for_each(|counted| self.count(counted));
    }

    fn result(&self) -> Reuses {
        let all: Vec<_> = self.all().collect();
        Reuses::new(&all, self.unit_log2)
    }
}
