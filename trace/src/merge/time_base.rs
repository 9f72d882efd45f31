//! Maps the clock of a session to the clock of the reference, and bounds the error of the map.
//!
//! A map is made from an offset that the user states. Without an offset, it is made from marks that
//! both cards recorded; without marks, from arrival times of frames.

use hmtt_format::Cycles;

use super::Options;
use super::arrivals::Line;
use super::marks::{MAX_DRIFT, MarkIndex, pair};
use super::survey::CardSession;

/// The basis on which a clock was related to the reference.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
#[serde(rename_all = "snake_case", tag = "by")]
pub enum ClockBasis {
    /// The session is the reference.
    Reference,
    /// Marks that both cards recorded.
    Marks {
        /// Number of marks that both cards recorded.
        #[serde(rename = "shared_marks")]
        shared: usize,
    },
    /// Arrival times of frames.
    Arrivals,
    /// An offset that the user stated.
    Offset {
        /// Number of clocks of the reference that are added.
        #[serde(rename = "offset_clocks")]
        clocks: i64,
    },
}

/// A map from clocks of a session to clocks of the reference.
#[derive(Clone, Debug)]
pub struct TimeBase {
    /// The basis of the map.
    pub basis: ClockBasis,
    /// Bound of the map's error in clocks of the reference, under the assumptions of the options;
    /// `None` for an offset that the user stated.
    pub error: Option<f64>,
    /// Points of the map, ascending: a clock of the session, and the clock of the reference at this
    /// time.
    points: Vec<(f64, f64)>,
    /// Clocks of the reference in one clock of the session, before the first point and after the
    /// last point.
    slope: f64,
}

/// The reference session, whose clocks are the times of the merged trace. The marks and arrivals of
/// all other sessions are compared with its marks and arrivals.
pub(super) struct Reference<'a> {
    session: &'a CardSession,
    marks: MarkIndex,
    arrivals: Option<Line>,
}

impl<'a> Reference<'a> {
    pub fn new(session: &'a CardSession) -> Self {
        let (marks, arrivals) = (MarkIndex::new(session.timed_marks()), session.arrivals.line());
        Reference { session, marks, arrivals }
    }
}

impl TimeBase {
    /// Relates a session to the reference. `None` if there is no offset and no shared mark, and one
    /// of the two sessions has no arrivals.
    pub(super) fn relate(
        reference: &Reference<'_>,
        session: &CardSession,
        offset: Option<i64>,
        options: &Options,
    ) -> Option<Self> {
        let nominal = session.period() / reference.session.period();
        let straight = |basis, error, offset| TimeBase {
            basis,
            error,
            points: vec![(0.0, offset)],
            slope: nominal,
        };
        if let Some(clocks) = offset {
            return Some(straight(ClockBasis::Offset { clocks }, None, clocks as f64));
        }
        if std::ptr::eq(reference.session, session) {
            return Some(straight(ClockBasis::Reference, Some(0.0), 0.0));
        }
        TimeBase::by_marks(reference, session, options)
            .or_else(|| TimeBase::by_arrivals(reference, session, options))
    }

    /// A map through the marks that both cards recorded; `None` without such marks.
    fn by_marks(
        reference: &Reference<'_>,
        session: &CardSession,
        options: &Options,
    ) -> Option<Self> {
        let pairs = pair(&reference.marks, &session.timed_marks());
        let (reference_period, period) = (reference.session.period(), session.period());
        let points = pairs.iter().map(|(a, b)| (b / period, a / reference_period)).collect();
        let range = (session.first, session.last);
        TimeBase::through(
            points,
            period / reference_period,
            range,
            options.skew_nanos / reference_period,
        )
    }

    /// A map through marks; `None` without marks. `points`: for each mark, the clock of the session
    /// and the clock of the reference, ascending. `nominal`: clocks of the reference in one clock
    /// of the session, by the stated periods. `range`: the first and the last clock of the session
    /// that will be mapped. `seen_within`: clocks of the reference by which the two times of a mark
    /// may differ.
    pub(crate) fn through(
        points: Vec<(f64, f64)>,
        nominal: f64,
        range: (u64, u64),
        seen_within: f64,
    ) -> Option<Self> {
        let (first, last) = (*points.first()?, *points.last()?);
        let whole = |from: (f64, f64), to: (f64, f64)| (to.1 - from.1) / (to.0 - from.0);
        let slope = if last.0 > first.0 { whole(first, last) } else { nominal };
        let rate_error = if last.0 > first.0 { rate_error(&points, slope) } else { MAX_DRIFT };
        let ahead = (first.0 - range.0 as f64).max(0.0);
        let behind = (range.1 as f64 - last.0).max(0.0);
        let error = seen_within + deviation(&points) + ahead.max(behind) * rate_error * nominal;
        let basis = ClockBasis::Marks { shared: points.len() };
        Some(TimeBase { basis, error: Some(error), points, slope })
    }

    /// A map through the arrival times of frames; `None` if one of the two sessions has no
    /// arrivals.
    fn by_arrivals(
        reference: &Reference<'_>,
        session: &CardSession,
        options: &Options,
    ) -> Option<Self> {
        let (to, from) = (reference.arrivals?, session.arrivals.line()?);
        let (reference_period, period) = (reference.session.period(), session.period());
        // The reference's time at clock 0 of the session.
        let apart = from.origin.as_nanos() as f64 - to.origin.as_nanos() as f64;
        let offset = (apart + from.above - to.above) / (1.0 + to.slope);
        let slope = (1.0 + from.slope) / (1.0 + to.slope);
        // The sum of the errors of both lines at a clock of the session. Each line takes the time
        // of its own card's clock.
        let latency = options.latency_nanos;
        let off = |clock: u64| {
            let moment = clock as f64 * period;
            from.uncertainty(moment, latency) + to.uncertainty(offset + moment * slope, latency)
        };
        let error = latency + off(session.first).max(off(session.last));
        Some(TimeBase {
            basis: ClockBasis::Arrivals,
            error: Some(error / reference_period),
            points: vec![(0.0, offset / reference_period)],
            slope: slope * period / reference_period,
        })
    }

    /// The clock of the reference at a clock of the session.
    pub fn map(&self, clock: u64) -> f64 {
        let clock = clock as f64;
        let after = self.points.partition_point(|point| point.0 <= clock);
        let from = self.points[after.saturating_sub(1)];
        let slope = match (after, self.points.get(after)) {
            (0, _) | (_, None) => self.slope,
            (_, Some(to)) => (to.1 - from.1) / (to.0 - from.0),
        };
        from.1 + (clock - from.0) * slope
    }

    /// The same as [`TimeBase::map`], rounded to a whole clock. Negative results become 0.
    pub(super) fn clock(&self, clock: Cycles) -> Cycles {
        Cycles(self.map(clock.0).round().max(0.0) as u64)
    }

    /// Clocks of the reference in one clock of the session, on average. This is exact enough for
    /// durations.
    pub fn rate(&self) -> f64 {
        self.slope
    }

    /// Clock of the reference at clock 0 of the session.
    pub fn offset(&self) -> f64 {
        self.map(0)
    }

    /// Adds a number of clocks of the reference to all results.
    pub(super) fn shift(&mut self, clocks: f64) {
        self.points.iter_mut().for_each(|point| point.1 += clocks);
    }
}

/// Largest distance of a mark from the line between the mark before it and the mark after it. It
/// estimates the error of the map between two marks.
fn deviation(points: &[(f64, f64)]) -> f64 {
    let off = |points: &[(f64, f64)]| {
        let (a, b, c) = (points[0], points[1], points[2]);
        (a.1 + (b.0 - a.0) * (c.1 - a.1) / (c.0 - a.0) - b.1).abs()
    };
    points.windows(3).map(off).fold(0.0, f64::max)
}

/// Largest relative difference between the rate of a quarter of the points and the rate `slope` of
/// all points. With fewer than 8 points, [`MAX_DRIFT`].
fn rate_error(points: &[(f64, f64)], slope: f64) -> f64 {
    let parts = points.chunks(points.len().div_ceil(4).max(2));
    let of_part = |part: &[(f64, f64)]| {
        let (from, to) = (part[0], part[part.len() - 1]);
        (to.0 > from.0).then(|| ((to.1 - from.1) / (to.0 - from.0) / slope - 1.0).abs())
    };
    let differing = parts.filter_map(of_part).fold(0.0, f64::max);
    if points.len() < 8 { MAX_DRIFT } else { differing }
}
