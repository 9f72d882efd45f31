//! Converts the ticks of a log to times.
//!
//! The log has pairs of readings. A pair states the processor's counter and the wall clock at one
//! moment. Between two pairs, times are interpolated. Before the first pair and after the last one,
//! they are extrapolated with the frequency of the counter.

use std::path::Path;

use hmtt::tags::nanoseconds;
use hmtt_files::tag_log::{ClockPair, Content};

use crate::error::DatasetError;

/// Relates the ticks of a log to time.
#[derive(Clone, Debug, Default)]
pub struct LogClock {
    /// Time at which the log begins, in nanoseconds since the Unix epoch.
    pub start_ns: u64,
    is_timed: bool,
    tsc_hz: u64,
    /// Pairs of readings, ordered by the counter.
    readings: Vec<ClockPair>,
}

impl LogClock {
    /// Reads the pairs of readings of a log.
    ///
    /// # Errors
    /// The log cannot be read.
    pub fn read(path: &Path) -> Result<Self, DatasetError> {
        let (mut reader, _) = super::open(path)?;
        let header = *reader.header();
        let mut readings = Vec::new();
        while let Some(chunk) = reader.next_chunk().map_err(DatasetError::log(path))? {
            if let Content::Clocks(clocks) = chunk.content {
                readings.push(clocks);
            }
        }
        readings.sort_by_key(|clocks| clocks.tsc);
        readings.dedup_by_key(|clocks| clocks.tsc);
        let (start_ns, is_timed, tsc_hz) = (header.start_ns, header.is_timed, header.tsc_hz);
        Ok(LogClock { start_ns, is_timed, tsc_hz, readings })
    }

    /// Time of a tick, in nanoseconds since the Unix epoch. `None` if the log has no times, no
    /// frequency, or no readings. Example: with readings of 5000 ns at tick 1000 and 6100 ns at
    /// tick 2000, tick 1500 is at 5550 ns.
    pub fn time_ns(&self, tsc: u64) -> Option<u64> {
        if !self.is_timed || self.tsc_hz == 0 {
            return None;
        }
        let behind = self.readings.partition_point(|clocks| clocks.tsc <= tsc);
        let before = behind.checked_sub(1).map(|place| &self.readings[place]);
        let after = |clocks: &ClockPair| nanoseconds(tsc - clocks.tsc, self.tsc_hz);
        Some(match (before, self.readings.get(behind)) {
            (Some(earlier), Some(later)) => {
                let ticks = i128::from(later.tsc - earlier.tsc);
                let ns = i128::from(later.realtime_ns) - i128::from(earlier.realtime_ns);
                let since = ns * i128::from(tsc - earlier.tsc) / ticks;
                u64::try_from(i128::from(earlier.realtime_ns) + since).unwrap_or(0)
            }
            (Some(earlier), None) => earlier.realtime_ns.saturating_add(after(earlier)),
            (None, Some(later)) => {
                let ns = nanoseconds(later.tsc - tsc, self.tsc_hz);
                later.realtime_ns.saturating_sub(ns)
            }
            (None, None) => return None,
        })
    }

    /// Duration of some ticks in nanoseconds. `None` if the log has no times, or no frequency.
    pub fn duration_ns(&self, ticks: u64) -> Option<u64> {
        (self.is_timed && self.tsc_hz != 0).then(|| nanoseconds(ticks, self.tsc_hz))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_interpolated_between_readings() {
        let reading = |tsc, realtime_ns| ClockPair { tsc, monotonic_ns: 0, realtime_ns };
        let readings = vec![reading(1000, 5_000), reading(2000, 6_100), reading(3000, 6_000)];
        let clock = LogClock { start_ns: 7, is_timed: true, tsc_hz: 1_000_000_000, readings };
        let times = [900, 1000, 1500, 2000, 2500, 3000, 3200].map(|tsc| clock.time_ns(tsc));
        let expected = [4_900, 5_000, 5_550, 6_100, 6_050, 6_000, 6_200].map(Some);
        assert_eq!(times, expected);
        let untimed = LogClock { is_timed: false, ..clock.clone() };
        assert_eq!((untimed.time_ns(1000), untimed.duration_ns(5)), (None, None));
        let none = LogClock { readings: Vec::new(), ..clock };
        assert_eq!((none.time_ns(1000), none.duration_ns(5)), (None, Some(5)));
    }
}
