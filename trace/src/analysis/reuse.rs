//! Computes reuse distances: how many other lines were accessed between two accesses to a line.
//!
//! Each access is one touch of every line (or page) that it has bytes of. The distance of a touch
//! is the exact distance in an LRU stack. For example, if the lines A, B, B, C, A are touched, the
//! second touch of A has the distance 2, because of B and C. Memory is linear in the number of
//! distinct lines: 42 to 74 bytes for each line.
//!
//! [`Analysis::append`] is exact: a piece keeps the order of the first touches and of the last
//! touches of its lines. So if both pieces touch a line, the first touch in the later piece gets
//! its distance when the pieces are joined (Niu et al., PARDA, 2012). [`Analysis::merge`] adds the
//! counts of another memory; no distance crosses memories. Threads share one stack, in the order of
//! the accesses in the source.

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize};

use super::histogram::{Histogram, limits};
use super::sample::HASH_LOG2;
use super::stack::Stack;
use super::{Analysis, Batch, Detail, LINE_LOG2, PAGE_LOG2, PageRun};

/// Counts of touches.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Touches {
    /// All touches, sampled or not.
    pub all: u64,
    /// First touches of lines.
    pub first: u64,
    /// Other touches, by distance.
    pub distances: Histogram,
}

impl Touches {
    pub fn add(&mut self, other: &Touches) {
        self.all = self.all.saturating_add(other.all);
        self.first = self.first.saturating_add(other.first);
        self.distances.merge(&other.distances);
    }
}

/// The touches of a piece, and the state that joins it to the pieces before and after it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Distances {
    stack: Stack,
    /// Lines in the order of their first touches.
    #[serde(deserialize_with = "lines")]
    firsts: Vec<u64>,
    own: Touches,
    /// Sums over merged memories.
    others: Touches,
    /// Lines whose hash is lower than this threshold are sampled. 2^[`HASH_LOG2`] samples all
    /// lines.
    #[serde(deserialize_with = "threshold")]
    pub threshold: u32,
}

impl Distances {
    pub const fn full() -> u32 {
        1 << HASH_LOG2
    }

    pub fn new(threshold: u32) -> Self {
        let threshold = threshold.clamp(1, Self::full());
        let (own, others) = Default::default();
        Distances { stack: Stack::default(), firsts: Vec::new(), own, others, threshold }
    }

    /// Counts touches, sampled or not.
    pub fn count(&mut self, touches: u64) {
        self.own.all = self.own.all.saturating_add(touches);
    }

    /// Touches sampled lines. A distance among sampled lines, divided by the sampling rate, is
    /// counted as the estimate for all lines.
    #[inline]
    pub fn touch(&mut self, lines: &[u64]) {
        let Distances { stack, firsts, own, threshold, .. } = self;
        let threshold = u64::from((*threshold).max(1));
        stack.touch_all(lines, |line, distance| match distance {
            None => {
                own.first = own.first.saturating_add(1);
                firsts.push(line);
            }
            Some(distance) if threshold == 1 << HASH_LOG2 => own.distances.add(distance),
            Some(distance) => own.distances.add((distance << HASH_LOG2) / threshold),
        });
    }

    /// Touches one unit `touches` times, without another unit in between. `is_sampled`: whether the
    /// unit is sampled.
    pub fn touch_run(&mut self, unit: u64, touches: u64, is_sampled: bool) {
        if is_sampled && touches > 0 {
            self.touch(&[unit]);
            self.own.distances.add_many(0, touches - 1);
        }
        self.count(touches);
    }

    pub fn append(&mut self, later: &Distances) {
        // `firsts` lists the lines of the later piece by first touch. A first touch has a distance
        // if this piece has touched its line. The lines that the later piece has touched before
        // this first touch are exactly the earlier lines in the list.
        self.touch(&later.firsts);
        self.stack.touch_all(&later.stack.order(), |_, _| {});
        self.own.all = self.own.all.saturating_add(later.own.all);
        self.own.distances.merge(&later.own.distances);
        self.others.add(&later.others);
    }

    pub fn merge(&mut self, other: &Distances) {
        self.others.add(&other.touches());
    }

    /// Number of the lines that were touched.
    pub fn lines(&self) -> usize {
        self.stack.len()
    }

    /// Samples fewer lines from here on: `threshold` is lower, and `keep` returns whether a line
    /// stays. Returns the touches up to here.
    pub fn restrict(&mut self, threshold: u32, keep: impl Fn(u64) -> bool) -> Touches {
        self.stack.retain(&keep);
        self.firsts.retain(|line| keep(*line));
        self.firsts.shrink_to_fit();
        self.threshold = threshold.clamp(1, Self::full());
        std::mem::take(&mut self.own)
    }

    /// The result for all memories.
    pub fn result(&self, unit_log2: u32) -> Reuses {
        Reuses::new(&[(self.threshold, self.touches())], unit_log2)
    }

    /// Sums over all memories.
    pub fn touches(&self) -> Touches {
        let mut sum = self.own.clone();
        sum.add(&self.others);
        sum
    }
}

/// Reads log2 of the bytes of a unit, which is at least a line.
pub(super) fn unit_log2<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u32, D::Error> {
    let log2 = u32::deserialize(deserializer)?;
    if !(LINE_LOG2..u64::BITS).contains(&log2) {
        return Err(D::Error::custom("a unit is of 2^6 to 2^63 bytes"));
    }
    Ok(log2)
}

/// The detail that distances in units of 2^`unit_log2` bytes need.
pub(super) fn needs(unit_log2: u32) -> Detail {
    if unit_log2 >= PAGE_LOG2 { Detail::Page } else { Detail::Address }
}

/// Reads how many hash values are sampled.
fn threshold<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u32, D::Error> {
    let threshold = u32::deserialize(deserializer)?;
    if !(1..=Distances::full()).contains(&threshold) {
        return Err(D::Error::custom("1 to 2^24 hash values are sampled"));
    }
    Ok(threshold)
}

/// Reads lines, and rejects the number that tables use for free places, which no line has.
fn lines<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u64>, D::Error> {
    let lines = Vec::<u64>::deserialize(deserializer)?;
    if lines.contains(&u64::MAX) {
        return Err(D::Error::custom("a line has a number that no line has"));
    }
    Ok(lines)
}

/// Touches with distances in a range.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Bucket {
    /// Shortest distance, in lines or pages.
    pub distance_at_least: u64,
    /// Longest distance, in lines or pages.
    pub distance_at_most: u64,
    /// Touches with such distances; an estimate if lines were sampled.
    pub touches: f64,
}

/// Distances of touches, with their sums.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Reuses {
    /// Bytes of a line or page.
    pub unit_bytes: u64,
    /// Touches of lines or pages.
    pub touches: u64,
    /// Touches whose line was not touched before, which is the number of distinct lines; an
    /// estimate if lines were sampled.
    pub first_touches: f64,
    /// The part of lines that was sampled; 1 if distances are exact.
    pub sampling_rate: f64,
    /// Touches of sampled lines.
    pub sampled_touches: u64,
    /// Number that was added to the touches of distance 0, because fewer touches were sampled than
    /// expected; negative if more were sampled.
    pub adjustment: f64,
    /// Touches by distance, without first touches. The limits of the ranges are powers of two.
    pub distances: Vec<Bucket>,
}

impl Reuses {
    pub(super) fn new(parts: &[(u32, Touches)], unit_log2: u32) -> Self {
        let rate = |threshold: u32| f64::from(threshold) / f64::from(Distances::full());
        let rates = parts.iter().map(|(threshold, _)| rate(*threshold));
        let touches = parts.iter().fold(0u64, |sum, (_, touches)| sum.saturating_add(touches.all));
        let sum = |count: &dyn Fn(&Touches) -> u64| {
            parts.iter().map(|(threshold, part)| count(part) as f64 / rate(*threshold)).sum::<f64>()
        };
        let sampled = |part: &Touches| part.first.saturating_add(part.distances.total());
        let adjustment = touches as f64 - sum(&sampled);
        // The bucket of distance 0 takes the adjustment even if no touch is in it.
        let most = parts.iter().map(|(_, part)| part.distances.counts().len()).max().unwrap_or(0);
        let bucket = |number: usize| {
            let (distance_at_least, distance_at_most) = limits(number);
            let count = |part: &Touches| part.distances.counts().get(number).copied().unwrap_or(0);
            let more = if number == 0 { adjustment } else { 0.0 };
            Bucket { distance_at_least, distance_at_most, touches: sum(&count) + more }
        };
        Reuses {
            unit_bytes: 1 << unit_log2,
            touches,
            first_touches: sum(&|part| part.first),
            sampling_rate: rates.fold(1.0, f64::min),
            sampled_touches: parts
                .iter()
                .map(|(_, part)| sampled(part))
                .fold(0, u64::saturating_add),
            adjustment,
            distances: (0..most.max(usize::from(touches > 0))).map(bucket).collect(),
        }
    }
}

/// Exact reuse distances.
///
/// ```
/// use hmtt::analysis::{Analysis, Batch, reuse::Reuse};
///
/// let mut reuse = Reuse::lines();
/// reuse.add(&Batch::new(&[0x00, 0x40, 0x80, 0x00], &[false; 4]));
/// let found = reuse.result();
/// assert_eq!((found.touches, found.first_touches), (4, 3.0));
/// let last = found.distances.last().unwrap();
/// assert_eq!((last.distance_at_least, last.distance_at_most, last.touches), (2, 3, 1.0));
/// ```
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Reuse {
    #[serde(deserialize_with = "unit_log2")]
    unit_log2: u32,
    distances: Distances,
}

impl Reuse {
    /// Distances in lines of 64 bytes.
    pub fn lines() -> Self {
        Reuse::new(LINE_LOG2)
    }

    /// Distances in units of 2^`unit_log2` bytes, at least 64.
    pub fn new(unit_log2: u32) -> Self {
        Reuse { unit_log2: unit_log2.clamp(LINE_LOG2, 63), distances: Distances::new(u32::MAX) }
    }

    /// Whether both have the same unit and the same sampling threshold.
    pub(super) fn is_like(&self, other: &Reuse) -> bool {
        self.unit_log2 == other.unit_log2 && self.distances.threshold == other.distances.threshold
    }
}

impl Analysis for Reuse {
    type Result = Reuses;

    fn add(&mut self, batch: &Batch<'_>) {
        batch.each_units(self.unit_log2, |units| {
            self.distances.touch(units);
            self.distances.count(units.len() as u64);
        });
    }

    fn needs(&self) -> Detail {
        needs(self.unit_log2)
    }

    fn page_run(&mut self, run: &PageRun) {
        match self.needs() {
            Detail::Page => {
                let page = run.address >> self.unit_log2;
                self.distances.touch_run(page, run.accesses(), true);
            }
            _ => self.gap(&run.as_gap()),
        }
    }

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
