//! Computes miss-ratio curves: the share of touches that miss in a fully associative LRU cache of
//! each size.
//!
//! A touch hits in a cache of n lines if its distance is below n. With sizes that are powers of
//! two, the buckets of a histogram give the curve exactly. First touches miss in every cache.
//! Memory, [`Analysis::append`] and [`Analysis::merge`] are as described for [`Reuse`] and
//! [`Shards`]. After a merge the curve counts the misses of one such cache for each memory.

use serde::{Deserialize, Serialize};

use super::bounded::Bounded;
use super::reuse::{Reuse, Reuses};
use super::shards::Shards;
use super::{Analysis, Batch, Detail, PageRun};

/// A cache on a curve.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Point {
    /// Lines or pages of the cache: a power of two.
    pub lines: u64,
    /// Bytes of the cache.
    pub cache_bytes: u64,
    /// Share of all touches that miss, from 0 to 1.
    pub miss_ratio: f64,
    /// Touches that miss; an estimate if lines were sampled.
    pub misses: f64,
}

/// A miss-ratio curve.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Curve {
    /// Bytes of a line or page.
    pub unit_bytes: u64,
    /// Touches of lines or pages.
    pub touches: u64,
    /// The part of lines that was sampled; 1 if the curve is exact.
    pub sampling_rate: f64,
    /// Touches of sampled lines.
    pub sampled_touches: u64,
    /// Caches from the smallest one that is resolved to the one in which only first touches miss.
    pub points: Vec<Point>,
}

impl Curve {
    /// The curve of distances. Caches of fewer than 1/`sampling_rate` lines are not resolved and
    /// have no point.
    pub fn new(reuses: &Reuses) -> Self {
        let touches = reuses.touches as f64;
        let least = (1.0 / reuses.sampling_rate).ceil();
        let (mut points, mut hits) = (Vec::new(), 0.0);
        for bucket in &reuses.distances {
            hits += bucket.touches;
            let lines = bucket.distance_at_most.saturating_add(1);
            if lines as f64 >= least {
                let cache_bytes = lines.saturating_mul(reuses.unit_bytes);
                let misses = (touches - hits).clamp(0.0, touches);
                let miss_ratio = (1.0 - hits / touches).clamp(0.0, 1.0);
                points.push(Point { lines, cache_bytes, miss_ratio, misses });
            }
        }
        let Reuses { unit_bytes, touches, sampling_rate, sampled_touches, .. } = *reuses;
        Curve { unit_bytes, touches, sampling_rate, sampled_touches, points }
    }

    /// The miss ratio of a cache of `lines` lines, a power of two; `None` if it is not resolved.
    pub fn at(&self, lines: u64) -> Option<f64> {
        self.point(lines).map(|point| point.miss_ratio)
    }

    /// A cache of `lines` lines, a power of two; `None` if it is not resolved. A cache larger than
    /// the last one on the curve has as many misses as the last one.
    pub fn point(&self, lines: u64) -> Option<Point> {
        let exact = self.points.iter().find(|point| point.lines == lines);
        let last = self.points.last().filter(|last| last.lines < lines);
        let cache_bytes = lines.saturating_mul(self.unit_bytes);
        exact.or(last).map(|point| Point { lines, cache_bytes, ..*point })
    }
}

/// The miss-ratio curve of exact or sampled distances.
///
/// ```
/// use hmtt::analysis::{Analysis, Batch, mrc::Mrc, reuse::Reuse};
///
/// let mut mrc = Mrc::Exact(Reuse::lines());
/// let addresses: Vec<u64> = (0..800).map(|number| number % 8 * 64).collect();
/// mrc.add(&Batch::new(&addresses, &vec![false; 800]));
/// let curve = mrc.result();
/// assert_eq!(curve.at(4), Some(1.0));
/// assert!((curve.at(8).unwrap() - 0.01).abs() < 1e-9);
/// ```
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mrc {
    /// Exact distances.
    Exact(Reuse),
    /// Distances of sampled lines.
    Sampled(Shards),
    /// Exact distances up to a given number of lines, then distances of sampled lines.
    Bounded(Bounded),
}

impl Mrc {
    /// Whether both curves are of one kind, with the same unit and rate, so that they can be
    /// appended or merged.
    pub fn is_of_kind(&self, other: &Mrc) -> bool {
        match (self, other) {
            (Mrc::Exact(own), Mrc::Exact(other)) => own.is_like(other),
            (Mrc::Sampled(own), Mrc::Sampled(other)) => own.is_like(other),
            (Mrc::Bounded(own), Mrc::Bounded(other)) => own.is_like(other),
            _ => false,
        }
    }

    /// The distances from which the curve is computed.
    pub fn distances(&self) -> Reuses {
        match self {
            Mrc::Exact(reuse) => reuse.result(),
            Mrc::Sampled(shards) => shards.result(),
            Mrc::Bounded(bounded) => bounded.result(),
        }
    }
}

impl Analysis for Mrc {
    type Result = Curve;

    fn add(&mut self, batch: &Batch<'_>) {
        match self {
            Mrc::Exact(reuse) => reuse.add(batch),
            Mrc::Sampled(shards) => shards.add(batch),
            Mrc::Bounded(bounded) => bounded.add(batch),
        }
    }

    fn needs(&self) -> Detail {
        match self {
            Mrc::Exact(reuse) => reuse.needs(),
            Mrc::Sampled(shards) => shards.needs(),
            Mrc::Bounded(bounded) => bounded.needs(),
        }
    }

    fn page_run(&mut self, run: &PageRun) {
        match self {
            Mrc::Exact(reuse) => reuse.page_run(run),
            Mrc::Sampled(shards) => shards.page_run(run),
            Mrc::Bounded(bounded) => bounded.page_run(run),
        }
    }

    /// Both have to be of one kind; otherwise nothing is added.
    fn append(&mut self, later: Self) {
        match (self, later) {
            (Mrc::Exact(own), Mrc::Exact(later)) => own.append(later),
            (Mrc::Sampled(own), Mrc::Sampled(later)) => own.append(later),
            (Mrc::Bounded(own), Mrc::Bounded(later)) => own.append(later),
            _ => debug_assert!(false, "distances of different kinds"),
        }
    }

    /// Both have to be of one kind; otherwise nothing is added.
    fn merge(&mut self, other: Self) {
        match (self, other) {
            (Mrc::Exact(own), Mrc::Exact(other)) => own.merge(other),
            (Mrc::Sampled(own), Mrc::Sampled(other)) => own.merge(other),
            (Mrc::Bounded(own), Mrc::Bounded(other)) => own.merge(other),
            _ => debug_assert!(false, "distances of different kinds"),
        }
    }

    fn result(&self) -> Curve {
        Curve::new(&self.distances())
    }
}
