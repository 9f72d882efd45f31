//! Estimated reuse distances: those of a fixed part of all lines, chosen by a hash of their numbers.
//!
//! A distance among sampled lines, divided by the sampling rate, estimates the distance among all. As a hot line may be
//! sampled or not, the number of sampled touches differs from the expected one; the difference is added to the touches of
//! distance 0 (SHARDS-adj: Waldspurger et al., FAST 2015). Distances below one divided by the rate are not resolved.
//!
//! Memory is that of [`Reuse`](super::reuse::Reuse) for the sampled lines. [`Analysis::append`] and [`Analysis::merge`] are as
//! exact as there: the same lines are sampled in every piece.

use serde::{Deserialize, Serialize};

use super::reuse::{Distances, Reuses};
use super::sample::hash;
use super::{Analysis, Batch, LINE_LOG2};

/// Lines of which it is looked at once whether they are sampled.
const CHUNK: usize = 256;

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
    /// Samples this part of all lines of 64 bytes, from 2^-24 to 1.
    pub fn lines(rate: f64) -> Self {
        Shards::new(LINE_LOG2, rate)
    }

    /// Samples this part, from 2^-24 to 1, of all units of 2^`unit_log2` bytes, at least those of a line.
    pub fn new(unit_log2: u32, rate: f64) -> Self {
        let threshold = (rate * f64::from(Distances::full())).round() as u32;
        Shards { unit_log2: unit_log2.clamp(LINE_LOG2, 63), distances: Distances::new(threshold) }
    }

    /// Touches the sampled ones of some lines.
    fn sample(&mut self, addresses: &[u64]) {
        let (log2, threshold) = (self.unit_log2, self.distances.threshold);
        for chunk in addresses.chunks(CHUNK) {
            // Without branches: those on a hash cannot be predicted, if the rate is high.
            let (mut sampled, mut count) = ([0; CHUNK], 0);
            for address in chunk {
                let line = address >> log2;
                sampled[count & (CHUNK - 1)] = line;
                count += usize::from(hash(line) < threshold);
            }
            sampled[..count].iter().for_each(|line| self.distances.touch(*line));
        }
    }
}

impl Analysis for Shards {
    type Result = Reuses;

    fn add(&mut self, batch: &Batch<'_>) {
        if batch.sizes().is_none() {
            self.distances.count(batch.len() as u64);
            return self.sample(batch.addresses());
        }
        let mut count = 0;
        batch.each_unit(self.unit_log2, |unit| {
            count += 1;
            if hash(unit) < self.distances.threshold {
                self.distances.touch(unit);
            }
        });
        self.distances.count(count);
    }

    /// Both have the same rate and unit.
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
