//! Arrival times of frames to a line from a card's clock to the wall's.
//!
//! A frame arrives after the last of its records: it lies on or above the line of the records' own
//! times. The quickest frames lie closest, so the line sought touches the points from below.

use std::time::Duration;

use super::marks::MAX_DRIFT;

/// Points kept; of more, the lower one of each two neighbours.
const MAX_POINTS: usize = 4096;

/// Moments of a card's clock and how much later, by the wall's clock, frames had arrived. In
/// nanoseconds.
#[derive(Clone, Debug, Default)]
pub(super) struct Arrivals {
    origin: Option<Duration>,
    points: Vec<(f64, f64)>,
    /// Neighbours that become one point.
    each: usize,
    waiting: Option<(usize, (f64, f64))>,
}

/// A line from a card's time to the wall's: wall = origin + time + above + slope * time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Line {
    pub origin: Duration,
    pub above: f64,
    pub slope: f64,
    /// The part of the card's time in which frames came that were as quick as any.
    pub edge: (f64, f64),
}

impl Line {
    /// How far the line may be off at a moment outside the part it was drawn through, if the quickest
    /// frames are `latency` apart at most.
    pub fn uncertainty(&self, at: f64, latency: f64) -> f64 {
        let (from, to) = self.edge;
        let outside = (from - at).max(at - to).max(0.0);
        let rate = if to > from { (latency / (to - from)).min(MAX_DRIFT) } else { MAX_DRIFT };
        outside * rate
    }
}

impl Arrivals {
    /// Takes note of a frame whose last record is of the moment `clock`.
    pub fn add(&mut self, clock: f64, arrival: Duration) {
        let origin = *self.origin.get_or_insert(arrival);
        let wall = arrival.as_nanos() as f64 - origin.as_nanos() as f64;
        let point = (clock, wall - clock);
        self.each = self.each.max(1);
        let (count, lowest) = match self.waiting {
            Some((count, lowest)) => (count + 1, if lowest.1 <= point.1 { lowest } else { point }),
            None => (1, point),
        };
        if count < self.each {
            self.waiting = Some((count, lowest));
            return;
        }
        self.waiting = None;
        self.points.push(lowest);
        if self.points.len() >= MAX_POINTS {
            let lower = |pair: &[(f64, f64)]| {
                pair.iter().copied().min_by(|one, other| one.1.total_cmp(&other.1))
            };
            self.points = self.points.chunks(2).filter_map(lower).collect();
            self.each *= 2;
        }
    }

    /// The line below all points that comes closest to them; `None` without points.
    pub fn line(&self) -> Option<Line> {
        let origin = self.origin?;
        let mut points: Vec<_> =
            self.points.iter().copied().chain(self.waiting.map(|(_, point)| point)).collect();
        points.sort_by(|one, other| one.0.total_cmp(&other.0));
        let hull = lower_hull(&points);
        let mean = points.iter().map(|point| point.0).sum::<f64>() / points.len() as f64;
        // The sum of the distances is least for the edge over the mean.
        let edge = hull.windows(2).find(|edge| edge[1].0 >= mean && edge[1].0 > edge[0].0);
        let (start, end) = match edge {
            Some(edge) => (edge[0], edge[1]),
            None => (*hull.first()?, *hull.first()?),
        };
        let slope = if end.0 > start.0 { (end.1 - start.1) / (end.0 - start.0) } else { 0.0 };
        let above = start.1 - slope * start.0;
        Some(Line { origin, above, slope, edge: (start.0, end.0) })
    }
}

/// The lower convex hull of points that ascend (Andrew's monotone chain).
fn lower_hull(points: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let mut hull: Vec<(f64, f64)> = Vec::new();
    for &point in points {
        while let [.., a, b] = hull[..]
            && (b.0 - a.0) * (point.1 - a.1) <= (b.1 - a.1) * (point.0 - a.0)
        {
            hull.pop();
        }
        hull.push(point);
    }
    hull
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_runs_below_all_frames_and_touches_the_quickest() {
        let mut arrivals = Arrivals::default();
        let (drift, late) = (30e-6, [900.0, 20.0, 3000.0, 55.0, 10.0]);
        let begin = 1_700_000_000_000_000_000.0;
        for frame in 0..50_000_u64 {
            let clock = frame as f64 * 12_300.0;
            let wall = begin + clock * (1.0 + drift) + late[frame as usize % 5];
            arrivals.add(clock, Duration::from_nanos(wall as u64));
        }
        let line = arrivals.line().unwrap();
        assert!((line.slope - drift).abs() < 1e-8, "{}", line.slope);
        let at = 300e6;
        let wall = line.origin.as_nanos() as f64 - begin + at + line.above + line.slope * at;
        assert!((wall - at * (1.0 + drift) - 10.0).abs() < 600.0, "{wall}");
    }

    #[test]
    fn one_frame_is_a_line_too() {
        let mut arrivals = Arrivals::default();
        assert!(arrivals.line().is_none());
        arrivals.add(500.0, Duration::from_nanos(2000));
        let line = arrivals.line().unwrap();
        assert_eq!((line.above, line.slope), (-500.0, 0.0));
    }
}
