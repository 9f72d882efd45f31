//! What relates a strand's clock to the reference's, to a map between them and its error bound.

use hmtt_format::Cycles;

use super::Options;
use super::arrivals::Line;
use super::marks::{Index, MAX_DRIFT, pair};
use super::survey::Strand;

/// What a map was made from.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
#[serde(rename_all = "snake_case", tag = "by")]
pub enum How {
    /// It is the reference.
    Reference,
    /// Marks that both cards saw.
    Marks {
        /// How many.
        shared: usize,
    },
    /// Arrival times of frames.
    Arrivals,
    /// An offset that was told, in clocks.
    Offset {
        /// What is added.
        clocks: i64,
    },
}

/// A map from a strand's clocks to those of the reference.
#[derive(Clone, Debug)]
pub struct TimeBase {
    /// What it was made from.
    pub how: How,
    /// Clocks the map may be wrong by, in clocks of the reference, under the stated assumptions;
    /// `None` for an offset that was told.
    pub error: Option<f64>,
    /// Points of the map, ascending: clocks of the strand, of the reference.
    knots: Vec<(f64, f64)>,
    /// Clocks of the reference in one of the strand, on the whole: before the first point and behind
    /// the last.
    slope: f64,
}

/// The strand whose clock is that of all others, and what they are compared with: made once for all of them.
pub(super) struct Reference<'a> {
    strand: &'a Strand,
    marks: Index,
    arrivals: Option<Line>,
}

impl<'a> Reference<'a> {
    pub fn new(strand: &'a Strand) -> Self {
        let (marks, arrivals) = (Index::new(strand.timed_marks()), strand.arrivals.line());
        Reference { strand, marks, arrivals }
    }
}

impl TimeBase {
    /// Relates a strand to the reference; `None` when nothing does. Marks come before arrivals.
    pub(super) fn relate(
        reference: &Reference<'_>,
        strand: &Strand,
        offset: Option<i64>,
        options: &Options,
    ) -> Option<Self> {
        let nominal = strand.period() / reference.strand.period();
        let straight = |how, error, offset| TimeBase {
            how,
            error,
            knots: vec![(0.0, offset)],
            slope: nominal,
        };
        if let Some(clocks) = offset {
            return Some(straight(How::Offset { clocks }, None, clocks as f64));
        }
        if std::ptr::eq(reference.strand, strand) {
            return Some(straight(How::Reference, Some(0.0), 0.0));
        }
        TimeBase::by_marks(reference, strand, options)
            .or_else(|| TimeBase::by_arrivals(reference, strand, options))
    }

    fn by_marks(reference: &Reference<'_>, strand: &Strand, options: &Options) -> Option<Self> {
        let pairs = pair(&reference.marks, &strand.timed_marks());
        let (one, other) = (reference.strand.period(), strand.period());
        let knots = pairs.iter().map(|(a, b)| (b / other, a / one)).collect();
        let range = (strand.first, strand.last);
        TimeBase::through(knots, other / one, range, options.skew_nanos / one)
    }

    /// A map through moments of marks on both clocks, ascending; `None` without any. `nominal`: clocks of
    /// the reference in one of the strand, as told; `range`: the strand's clocks that are mapped;
    /// `seen_within`: clocks of the reference by which a mark's two moments may differ.
    pub(crate) fn through(
        knots: Vec<(f64, f64)>,
        nominal: f64,
        range: (u64, u64),
        seen_within: f64,
    ) -> Option<Self> {
        let (first, last) = (*knots.first()?, *knots.last()?);
        let whole = |from: (f64, f64), to: (f64, f64)| (to.1 - from.1) / (to.0 - from.0);
        let slope = if last.0 > first.0 { whole(first, last) } else { nominal };
        let rate_error = if last.0 > first.0 { rate_error(&knots, slope) } else { MAX_DRIFT };
        let ahead = (first.0 - range.0 as f64).max(0.0);
        let behind = (range.1 as f64 - last.0).max(0.0);
        let error = seen_within + deviation(&knots) + ahead.max(behind) * rate_error * nominal;
        let how = How::Marks { shared: knots.len() };
        Some(TimeBase { how, error: Some(error), knots, slope })
    }

    fn by_arrivals(reference: &Reference<'_>, strand: &Strand, options: &Options) -> Option<Self> {
        let (to, from) = (reference.arrivals?, strand.arrivals.line()?);
        let (one, other) = (reference.strand.period(), strand.period());
        // The wall's clock when the strand's is 0, seen from the reference's origin.
        let apart = from.origin.as_nanos() as f64 - to.origin.as_nanos() as f64;
        let offset = (apart + from.above - to.above) / (1.0 + to.slope);
        let slope = (1.0 + from.slope) / (1.0 + to.slope);
        // What the lines may be off where the two strands begin and end, each seen by its own clock.
        let latency = options.latency_nanos;
        let off = |clock: u64| {
            let moment = clock as f64 * other;
            from.uncertainty(moment, latency) + to.uncertainty(offset + moment * slope, latency)
        };
        let error = latency + off(strand.first).max(off(strand.last));
        Some(TimeBase {
            how: How::Arrivals,
            error: Some(error / one),
            knots: vec![(0.0, offset / one)],
            slope: slope * other / one,
        })
    }

    /// The reference's clock at a clock of the strand.
    pub fn map(&self, clock: u64) -> f64 {
        let clock = clock as f64;
        let after = self.knots.partition_point(|knot| knot.0 <= clock);
        let from = self.knots[after.saturating_sub(1)];
        let slope = match (after, self.knots.get(after)) {
            (0, _) | (_, None) => self.slope,
            (_, Some(to)) => (to.1 - from.1) / (to.0 - from.0),
        };
        from.1 + (clock - from.0) * slope
    }

    /// As [`TimeBase::map`], to a whole clock.
    pub(super) fn clock(&self, clock: Cycles) -> Cycles {
        Cycles(self.map(clock.0).round().max(0.0) as u64)
    }

    /// Clocks of the reference in one of the strand, near enough for lengths.
    pub fn rate(&self) -> f64 {
        self.slope
    }

    /// What is added to clock 0.
    pub fn offset(&self) -> f64 {
        self.map(0)
    }

    pub(super) fn shift(&mut self, clocks: f64) {
        self.knots.iter_mut().for_each(|knot| knot.1 += clocks);
    }
}

/// How far a mark is, at most, from the line between its neighbours: what the map may be off between
/// two marks.
fn deviation(knots: &[(f64, f64)]) -> f64 {
    let off = |knots: &[(f64, f64)]| {
        let (a, b, c) = (knots[0], knots[1], knots[2]);
        (a.1 + (b.0 - a.0) * (c.1 - a.1) / (c.0 - a.0) - b.1).abs()
    };
    knots.windows(3).map(off).fold(0.0, f64::max)
}

/// How much the rate of a part differs from that of the whole, at most, as a share.
fn rate_error(knots: &[(f64, f64)], slope: f64) -> f64 {
    let parts = knots.chunks(knots.len().div_ceil(4).max(2));
    let of_part = |part: &[(f64, f64)]| {
        let (from, to) = (part[0], part[part.len() - 1]);
        (to.0 > from.0).then(|| ((to.1 - from.1) / (to.0 - from.0) / slope - 1.0).abs())
    };
    let differing = parts.filter_map(of_part).fold(0.0, f64::max);
    if knots.len() < 8 { MAX_DRIFT } else { differing }
}
