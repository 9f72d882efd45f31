//! Detects steps of the wall clock during a capture, by comparing it with a clock that is never
//! set.
//!
//! Arrival times are read from the wall clock, so their differences are valid only between two
//! steps. Slewing (NTP) changes both clocks alike; a step changes the difference between them: the
//! clock was set, or a leap second was inserted. `CLOCK_BOOTTIME` is compared because it advances
//! while the machine sleeps, as the wall clock does.

use std::time::{Duration, SystemTime};

use rustix::time::{ClockId, clock_gettime};
use serde::Serialize;

/// Number of steps that are listed individually.
const LISTED_STEPS: usize = 100;
/// Error of a reading, in addition to the time between the reads of the two clocks.
const SLACK_NANOS: i128 = 1_000;
/// Smallest step that is searched for in arrival times: frames of different receive queues overtake
/// each other by up to this time.
const LEAST_SEEN_NANOS: i128 = 1_000_000;

/// A step of the wall clock.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct ClockStep {
    /// Seconds by which the clock was set forward; negative if it was set back.
    pub step_seconds: f64,
    /// Last reading before the step, in seconds since the Unix epoch.
    pub time_seconds: f64,
    /// Frames captured when the step was noticed.
    pub captured_frames: u64,
    /// Number of the first frame that has an earlier arrival time than its predecessor on the same
    /// interface; frames are counted from 1 over all interfaces. `None` if there is none, because
    /// the clock was set forward, or back by less than the time between two frames.
    pub first_frame: Option<u64>,
}

/// The steps of a capture.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ClockSteps {
    /// Number of steps.
    pub count: u64,
    /// The first 100 steps.
    pub listed: Vec<ClockStep>,
}

/// A reading of both clocks: bounds of the difference between the wall clock and the clock that is
/// never set, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Reading {
    wall: i128,
    least: i128,
    most: i128,
}

impl Reading {
    fn new(before: i128, wall: i128, after: i128) -> Self {
        Reading { wall, least: wall - after, most: wall - before }
    }

    fn now() -> Self {
        let steady = || {
            let time = clock_gettime(ClockId::Boottime);
            i128::from(time.tv_sec) * 1_000_000_000 + i128::from(time.tv_nsec)
        };
        let before = steady();
        let wall = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        let wall = wall.map_or_else(
            |early| -(early.duration().as_nanos() as i128),
            |time| time.as_nanos() as i128,
        );
        Reading::new(before, wall, steady())
    }

    /// Nanoseconds by which the wall clock was set since an earlier reading; `None` if the bounds
    /// overlap.
    fn step_since(&self, earlier: &Reading) -> Option<i128> {
        let back = self.most + SLACK_NANOS < earlier.least;
        let forward = self.least > earlier.most + SLACK_NANOS;
        (back || forward).then(|| (self.least + self.most - earlier.least - earlier.most) / 2)
    }
}

/// Monitors the wall clock during a capture.
#[derive(Debug)]
pub(super) struct ClockMonitor {
    last: Reading,
    steps: ClockSteps,
    /// Nanoseconds by which the clock was set back, as long as no arrival time has shown this step.
    unseen: Option<i128>,
    /// Arrival time of the last frame of each interface.
    arrivals: Vec<Duration>,
}

impl ClockMonitor {
    /// Starts with a first reading.
    pub fn new(interfaces: usize) -> Self {
        ClockMonitor {
            last: Reading::now(),
            steps: ClockSteps::default(),
            unseen: None,
            arrivals: vec![Duration::ZERO; interfaces],
        }
    }

    /// Reads the clocks. Must be called before new frames are passed to [`ClockMonitor::frame`], so
    /// that a step is known before the frames that follow it.
    pub fn check(&mut self, captured: u64) {
        self.compare(Reading::now(), captured);
    }

    fn compare(&mut self, now: Reading, captured: u64) {
        // The thread was interrupted between the reads: this reading is less precise than the last
        // one.
        if now.most - now.least > 2 * (self.last.most - self.last.least) + LEAST_SEEN_NANOS {
            return;
        }
        if let Some(nanos) = now.step_since(&self.last) {
            self.steps.count += 1;
            self.unseen = (nanos <= -LEAST_SEEN_NANOS).then_some(-nanos);
            let seconds = nanos as f64 / 1e9;
            let time = self.last.wall as f64 / 1e9;
            if self.steps.listed.len() < LISTED_STEPS {
                let step = ClockStep {
                    step_seconds: seconds,
                    time_seconds: time,
                    captured_frames: captured,
                    first_frame: None,
                };
                self.steps.listed.push(step);
            }
        }
        self.last = now;
    }

    /// Records the arrival of a frame. `number`: its number over all interfaces.
    #[inline]
    pub fn frame(&mut self, link: usize, arrival: Duration, number: u64) {
        let before = std::mem::replace(&mut self.arrivals[link], arrival);
        if arrival >= before {
            return;
        }
        let Some(step) = self.unseen else { return };
        // The time that passed between the two frames reduces the difference.
        if (before - arrival).as_nanos() as i128 >= LEAST_SEEN_NANOS.min(step) {
            self.unseen = None;
            if self.steps.count as usize == self.steps.listed.len()
                && let Some(last) = self.steps.listed.last_mut()
            {
                last.first_frame = Some(number);
            }
        }
    }

    /// Steps so far.
    pub fn steps(&self) -> ClockSteps {
        self.steps.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: i128 = 1_000_000_000;

    /// Both clocks read within `width`, with the wall clock ahead by `ahead`.
    fn reading(steady: i128, ahead: i128, width: i128) -> Reading {
        Reading::new(steady, steady + ahead + width / 2, steady + width)
    }

    fn watch() -> ClockMonitor {
        let mut watch = ClockMonitor::new(2);
        watch.last = reading(0, 1000 * SECOND, 200);
        watch
    }

    #[test]
    fn a_step_back_is_found_with_the_frame_that_shows_it() {
        let mut watch = watch();
        watch.frame(0, Duration::from_secs(1000), 1);
        watch.frame(1, Duration::from_secs(1001), 2);
        watch.compare(reading(SECOND, 1000 * SECOND, 300), 2);
        watch.compare(reading(2 * SECOND, 400 * SECOND, 100), 2);
        watch.frame(0, Duration::from_millis(1_001_500), 3);
        watch.frame(1, Duration::from_secs(402), 4);
        watch.frame(0, Duration::from_secs(403), 5);
        let steps = watch.steps();
        assert_eq!((steps.count, steps.listed.len()), (1, 1));
        let step = steps.listed[0];
        assert!((step.step_seconds + 600.0).abs() < 1e-6, "{step:?}");
        assert!((step.time_seconds - 1001.0).abs() < 1e-6, "{step:?}");
        assert_eq!((step.captured_frames, step.first_frame), (2, Some(4)));
    }

    #[test]
    fn a_step_forward_is_found_and_no_frame_shows_it() {
        let mut watch = watch();
        watch.compare(reading(SECOND, 1005 * SECOND, 100), 7);
        watch.frame(0, Duration::from_secs(2000), 8);
        watch.frame(0, Duration::from_secs(1999), 9);
        let steps = watch.steps();
        assert_eq!((steps.count, steps.listed[0].first_frame), (1, None));
        assert!((steps.listed[0].step_seconds - 5.0).abs() < 1e-6);
    }

    #[test]
    fn imprecise_readings_are_no_step() {
        let mut watch = watch();
        for width in [10, 50_000, 900_000, 3_000_000, 20] {
            watch.compare(reading(SECOND, 1000 * SECOND, width), 0);
        }
        assert_eq!(watch.steps(), ClockSteps::default());
    }

    #[test]
    fn the_list_of_steps_is_bounded_and_their_count_is_not() {
        let mut watch = watch();
        for step in 0..500 {
            watch.compare(reading(SECOND, (1000 - step % 2) * SECOND, 100), 0);
        }
        assert_eq!((watch.steps().count, watch.steps().listed.len()), (499, LISTED_STEPS));
    }

    #[test]
    fn a_clock_that_is_not_set_has_no_steps() {
        let mut watch = ClockMonitor::new(1);
        (0..100_000).for_each(|_| watch.check(0));
        assert_eq!(watch.steps(), ClockSteps::default());
    }
}
