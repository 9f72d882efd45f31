//! Relates a card's clock to the receiver's clock: fits a line to the arrival times of frames.
//!
//! A frame arrives after its last record was made, so its point is on or above the line that
//! relates the two clocks. The points of the fastest frames are closest to the line. So the line is
//! chosen among the edges of the lower convex hull of the points: the edge with the least sum of
//! distances to all points.

use std::time::Duration;

use super::marks::MAX_DRIFT;

/// Number of points from which on points are removed: of each two adjacent points, only the lower
/// one is kept.
const MAX_POINTS: usize = 4096;

/// Arrivals of frames as points, in nanoseconds. The first coordinate is the time of a frame's last
/// record by the card's clock. The second coordinate is the arrival time of the frame by the
/// receiver's clock, counted from the first arrival, minus the first coordinate.
#[derive(Clone, Debug, Default)]
pub struct Arrivals {
    /// The first arrival time, since the Unix epoch.
    origin: Option<Duration>,
    points: Vec<(f64, f64)>,
    /// Number of adjacent frames that become one point.
    each: usize,
    /// The frames of the next point: their number so far, and their lowest point.
    waiting: Option<(usize, (f64, f64))>,
}

/// A line from a card's time to the receiver's time, in nanoseconds: receiver = origin + time +
/// above + slope * time.
#[derive(Clone, Copy, Debug)]
pub struct Line {
    /// Receiver's time that counts as 0, since the Unix epoch.
    pub origin: Duration,
    /// Receiver's time at the card's time 0, since the origin.
    pub above: f64,
    /// Nanoseconds that the receiver's clock gains in each nanosecond of the card's clock.
    pub slope: f64,
    /// The card's times between which the line was fitted, in nanoseconds: the ends of the hull's
    /// edge.
    pub edge: (f64, f64),
}

impl Line {
    /// Largest error of the line at card time `at`, if the latencies of the fastest frames differ
    /// by at most `latency`. It is 0 between the ends of [`edge`](Self::edge), and grows with the
    /// distance from them. All values are in nanoseconds.
    pub fn uncertainty(&self, at: f64, latency: f64) -> f64 {
        let (from, to) = self.edge;
        let outside = (from - at).max(at - to).max(0.0);
        let rate = if to > from { (latency / (to - from)).min(MAX_DRIFT) } else { MAX_DRIFT };
        outside * rate
    }
}

impl Arrivals {
    /// Adds a frame. `clock`: the card's time of the frame's last record, in nanoseconds.
    /// `arrival`: the frame's arrival time since the Unix epoch.
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
                pair.iter().copied().min_by(|first, second| first.1.total_cmp(&second.1))
            };
            self.points = self.points.chunks(2).filter_map(lower).collect();
            self.each *= 2;
        }
    }

    /// Of all lines that are on or below all points, the line with the least sum of distances to
    /// the points. `None` without points.
    pub fn line(&self) -> Option<Line> {
        let origin = self.origin?;
        let mut points: Vec<_> =
            self.points.iter().copied().chain(self.waiting.map(|(_, point)| point)).collect();
        points.sort_by(|first, second| first.0.total_cmp(&second.0));
        let hull = lower_hull(&points);
        let mean = points.iter().map(|point| point.0).sum::<f64>() / points.len() as f64;
        // The sum of the distances is least for the edge that contains the mean of the card's
        // times.
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

/// The lower convex hull of points in ascending order (Andrew's monotone chain).
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
    fn the_line_runs_below_all_frames_and_touches_the_fastest() {
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
    fn one_frame_determines_a_line_of_slope_zero() {
        let mut arrivals = Arrivals::default();
        assert!(arrivals.line().is_none());
        arrivals.add(500.0, Duration::from_nanos(2000));
        let line = arrivals.line().unwrap();
        assert_eq!((line.above, line.slope), (-500.0, 0.0));
    }
}
