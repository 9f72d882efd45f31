//! Relates the clock of a session to the clock of the receiver, for the table of runs.

use std::time::Duration;

use hmtt::merge::{Arrivals, Options};

/// A linear relation. The receiver's time at a clock is `zero_time_ns + clock * clock_ns`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Relation {
    /// Receiver's time at clock 0, in nanoseconds since the Unix epoch.
    pub zero_time_ns: i64,
    /// Nanoseconds that pass on the receiver's clock during one clock of the session.
    pub clock_ns: f64,
    /// Bound of the error between the first and the last clock, in nanoseconds. The bound assumes
    /// that the fastest frames take at most a millisecond to arrive.
    pub error_ns: f64,
}

/// First and last clock of a session, and the arrivals of its frames.
#[derive(Clone, Debug, Default)]
pub struct SessionClock {
    tck_ps: Option<u32>,
    arrivals: Arrivals,
    clocks: Option<(u64, u64)>,
}

impl SessionClock {
    /// Sets the period of the clock in picoseconds. If the period has changed, earlier arrivals are
    /// dropped.
    pub fn set_period(&mut self, tck_ps: u32) {
        if self.tck_ps != Some(tck_ps) {
            self.tck_ps = Some(tck_ps);
            self.arrivals = Arrivals::default();
        }
    }

    /// Extends the range of the session's clocks to this clock.
    pub fn see(&mut self, clock: u64) {
        let (first, last) = self.clocks.unwrap_or((clock, clock));
        self.clocks = Some((first.min(clock), last.max(clock)));
    }

    /// Adds the arrival of a frame. `clock`: highest clock in the frame.
    pub fn arrive(&mut self, clock: u64, arrival: Duration) {
        if let Some(tck_ps) = self.tck_ps {
            self.arrivals.add(clock as f64 * f64::from(tck_ps) / 1e3, arrival);
        }
    }

    /// First and last clock; `None` if no clock was added.
    pub fn clocks(&self) -> Option<(u64, u64)> {
        self.clocks
    }

    /// The relation. `None` if no report has stated the period, or if no frame has arrived since
    /// the period was last changed.
    pub fn relation(&self) -> Option<Relation> {
        let period = f64::from(self.tck_ps?) / 1e3;
        let line = self.arrivals.line()?;
        let (first, last) = self.clocks?;
        let latency = Options::default().latency_nanos;
        let off = |clock: u64| line.uncertainty(clock as f64 * period, latency);
        let origin = i64::try_from(line.origin.as_nanos()).ok()?;
        Some(Relation {
            zero_time_ns: origin.saturating_add(line.above.round() as i64),
            clock_ns: period * (1.0 + line.slope),
            error_ns: latency + off(first).max(off(last)),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_drifts_is_related_within_its_bound() {
        let (begin, drift) = (1_700_000_000_000_000_000_u64, 20e-6);
        let time = |clock: u64| begin as f64 + clock as f64 * 10.0 * (1.0 + drift);
        let mut session = SessionClock::default();
        assert_eq!(session.relation(), None);
        session.set_period(10_000);
        for frame in 0..20_000_u64 {
            let clock = 50_000 + frame * 1000;
            let late = [5_000, 300_000, 90_000][frame as usize % 3];
            session.see(clock);
            session.arrive(clock, Duration::from_nanos(time(clock) as u64 + late));
        }
        let Relation { zero_time_ns, clock_ns, error_ns } = session.relation().unwrap();
        for clock in [50_000, 20_049_000] {
            let related_time = (zero_time_ns - begin as i64) as f64 + clock as f64 * clock_ns;
            let off = related_time - (time(clock) - begin as f64);
            assert!(off.abs() <= error_ns, "{off} ns, bound {error_ns} ns");
        }
        assert!(error_ns < 2e6, "{error_ns}");
    }
}
