//! Estimates reuse distances from a fixed share of all lines, which is chosen by a hash of their
//! numbers.
//!
//! A distance among sampled lines, divided by the sampling rate, estimates the distance among all
//! lines. For example, a distance of 3 at a rate of 0.01 stands for 300 lines. As a hot line may be
//! sampled or not, the number of sampled touches differs from the expected one; the difference is
//! added to the touches of distance 0 (SHARDS-adj: Waldspurger et al., FAST 2015). Distances below
//! 1/rate are not resolved.
//!
//! Memory is as in [`Reuse`](super::reuse::Reuse), for the sampled lines alone.
//! [`Analysis::append`] and [`Analysis::merge`] are as exact as in `Reuse`, because the same lines
//! are sampled in every piece.

use serde::{Deserialize, Serialize};

use super::batch::UNITS_AT_ONCE;
use super::reuse::{Distances, Reuses, needs};
use super::sample::{hash, sample};
use super::{Analysis, Batch, Detail, LINE_LOG2, PageRun};

/// Reuse distances of a sample of the lines.
///
/// ```
/// use hmtt::analysis::{Analysis, Batch, shards::Shards};
///
/// let mut shards = Shards::lines(0.25);
/// let addresses: Vec<u64> = (0..20_000).map(|number| number % 10_000 * 64).collect();
/// shards.add(&Batch::new(&addresses, &vec![false; 20_000]));
/// let found = shards.result();
/// assert_eq!((found.touches, found.sampling_rate), (20_000, 0.25));
/// assert!((9_000.0..11_000.0).contains(&found.first_touches));
/// ```
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Shards {
    #[serde(deserialize_with = "super::reuse::unit_log2")]
    unit_log2: u32,
    distances: Distances,
}

impl Shards {
    /// Samples a share of all lines of 64 bytes. `rate`: the share, from 2^-24 to 1.
    pub fn lines(rate: f64) -> Self {
        Shards::new(LINE_LOG2, rate)
    }

    /// Samples a share of all units of 2^`unit_log2` bytes, at least 64. `rate`: the share, from
    /// 2^-24 to 1.
    pub fn new(unit_log2: u32, rate: f64) -> Self {
        let threshold = (rate * f64::from(Distances::full())).round() as u32;
        Shards { unit_log2: unit_log2.clamp(LINE_LOG2, 63), distances: Distances::new(threshold) }
    }

    /// Whether both have the same rate and unit.
    pub(super) fn is_like(&self, other: &Shards) -> bool {
        self.unit_log2 == other.unit_log2 && self.distances.threshold == other.distances.threshold
    }
}

impl Analysis for Shards {
    type Result = Reuses;

    fn add(&mut self, batch: &Batch<'_>) {
        let mut sampled = [0; UNITS_AT_ONCE];
        batch.each_units(self.unit_log2, |units| {
            self.distances.touch(sample(units, self.distances.threshold, &mut sampled));
            self.distances.count(units.len() as u64);
        });
    }

    fn needs(&self) -> Detail {
        needs(self.unit_log2)
    }

    fn page_run(&mut self, run: &PageRun) {
        if self.needs() != Detail::Page {
            return self.gap(&run.as_gap());
        }
        let page = run.address >> self.unit_log2;
        let is_sampled = hash(page) < self.distances.threshold;
        self.distances.touch_run(page, run.accesses(), is_sampled);
    }

    /// Both have to have the same rate and unit.
    fn append(&mut self, later: Self) {
        self.distances.append(&later.distances);
    }

    fn merge(&mut self, other: Self) {
        self.distances.merge(&other.distances);
    }

    fn result(&self) -> Reuses {
        self.distances.result(self.unit_log2)
    }
}
