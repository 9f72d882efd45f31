//! Computes reuse distances in bounded memory. Distances are exact until there are more than a
//! given number of lines. From then on only a sample of the lines is measured, which becomes
//! smaller as lines are added.
//!
//! Each time there are too many lines, a hash chooses half of the lines, which are left out from
//! then on (Waldspurger et al., FAST 2015, with a fixed number of lines). Each touch is weighted by
//! the sampling rate at which it was counted, so exact touches stay exact. For example, with at
//! most 100 lines, the 101st line lowers the rate from 1 to 1/2; touches before it count once,
//! later ones of sampled lines twice. [`Reuses::sampling_rate`] is the last and smallest rate; it
//! is 1 if all distances are exact.
//!
//! Memory: 42 to 74 bytes for each measured line, and up to 24 bytes more while half of the lines
//! are left out. The bound does not hold if an author of a trace chooses addresses by their hash,
//! so that no line is left out. [`Analysis::append`] is exact if both pieces are exact; otherwise
//! the lines of the later piece count as new, as after a merge. [`Analysis::merge`] adds counts.

use serde::{Deserialize, Serialize};

use super::batch::UNITS_AT_ONCE;
use super::reuse::{Distances, Reuses, Touches, unit_log2};
use super::sample::{hash, sample};
use super::{Analysis, Batch, LINE_LOG2};

/// Reuse distances of at most a given number of lines at once.
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
    /// Touches that were counted at earlier sampling rates, and touches of merged memories, each
    /// with the threshold of the hash at which they were counted.
    earlier: Vec<(u32, Touches)>,
}

impl Bounded {
    /// Distances of lines of 64 bytes. At most `most` lines are measured at once.
    pub fn lines(most: usize) -> Self {
        let (now, earlier) = (Distances::new(u32::MAX), Vec::new());
        Bounded { unit_log2: LINE_LOG2, most: most.max(1), now, earlier }
    }

    /// Whether `other` has the same unit, so that it can be appended or merged.
    pub(super) fn is_like(&self, other: &Bounded) -> bool {
        self.unit_log2 == other.unit_log2
    }

    /// Touches the sampled lines among `lines`, which has at most [`UNITS_AT_ONCE`] elements.
    fn touch(&mut self, lines: &[u64]) {
        let mut sampled = [0; UNITS_AT_ONCE];
        let sampled = sample(lines, self.now.threshold, &mut sampled);
        if self.now.lines() + sampled.len() <= self.most {
            return self.now.touch(sampled);
        }
        for line in sampled {
            // An earlier line of this loop may have halved the sample.
            if hash(*line) >= self.now.threshold {
                continue;
            }
            self.now.touch(&[*line]);
            if self.now.lines() > self.most {
                self.leave_out();
            }
        }
    }

    /// Leaves half of the lines out, and stores the touches so far with the old threshold.
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

    /// All touches, with the thresholds at which they were counted.
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
        let is_exact = |bounded: &Self| {
            bounded.earlier.is_empty() && bounded.now.threshold == Distances::full()
        };
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
        let parts: Vec<_> = self.all().collect();
        Reuses::new(&parts, self.unit_log2)
    }
}
