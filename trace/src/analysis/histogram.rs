//! Counts numbers in buckets whose limits are powers of two.
//!
//! Bucket 0 counts the number 0, and bucket n the numbers from 2^(n-1) to 2^n - 1. For example,
//! bucket 3 counts the numbers 4 to 7. So the buckets 0 to n together count exactly the numbers
//! below 2^n.

use serde::{Deserialize, Serialize};

/// Counts in each bucket, up to the last one in use.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Vec<u64>", into = "Vec<u64>")]
pub struct Histogram {
    counts: Vec<u64>,
}

/// Maximum number of buckets: enough for all numbers below 2^64.
const MOST_BUCKETS: usize = u64::BITS as usize + 1;

impl TryFrom<Vec<u64>> for Histogram {
    type Error = &'static str;

    /// Takes the count of each bucket, from a serialised state.
    fn try_from(counts: Vec<u64>) -> Result<Self, Self::Error> {
        let error = "a histogram has more buckets than there are";
        if counts.len() > MOST_BUCKETS { Err(error) } else { Ok(Histogram { counts }) }
    }
}

impl From<Histogram> for Vec<u64> {
    fn from(histogram: Histogram) -> Self {
        histogram.counts
    }
}

/// Index of the bucket that counts a number, from 0 to 64.
pub fn bucket(number: u64) -> usize {
    (u64::BITS - number.leading_zeros()) as usize
}

/// Lowest and highest number that a bucket counts.
pub fn limits(bucket: usize) -> (u64, u64) {
    match bucket {
        0 => (0, 0),
        _ => (1 << (bucket - 1), u64::MAX >> (64 - bucket)),
    }
}

impl Histogram {
    /// Counts a number once.
    #[inline]
    pub fn add(&mut self, number: u64) {
        self.add_many(number, 1);
    }

    /// Counts a number `times` times. A count stops at 2^64 - 1.
    #[inline]
    pub fn add_many(&mut self, number: u64, times: u64) {
        let bucket = bucket(number);
        if self.counts.len() <= bucket && times > 0 {
            self.counts.resize(bucket + 1, 0);
        }
        if let Some(count) = self.counts.get_mut(bucket) {
            *count = count.saturating_add(times);
        }
    }

    /// Adds the counts of another histogram.
    pub fn merge(&mut self, other: &Histogram) {
        if self.counts.len() < other.counts.len() {
            self.counts.resize(other.counts.len(), 0);
        }
        for (count, more) in self.counts.iter_mut().zip(&other.counts) {
            *count = count.saturating_add(*more);
        }
    }

    /// The count of each bucket, from 0 on.
    pub fn counts(&self) -> &[u64] {
        &self.counts
    }

    /// The sum of all counts.
    pub fn total(&self) -> u64 {
        self.counts.iter().fold(0, |sum, count| sum.saturating_add(*count))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_number_is_in_the_bucket_with_its_limits() {
        for number in (0..2000).chain([u64::MAX, 1 << 63, (1 << 63) - 1]) {
            let mut histogram = Histogram::default();
            histogram.add(number);
            let bucket = histogram.counts().iter().position(|count| *count == 1).unwrap();
            let (least, most) = limits(bucket);
            assert!(least <= number && number <= most && histogram.total() == 1, "{number}");
        }
    }
}
