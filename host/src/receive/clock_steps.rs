//! The wall clock beside one that is never set, to when it was set, and by how much.
//!
//! Arrival times are the wall clock's. Their differences are true only between two steps of it. Slewing (NTP)
//! moves both clocks alike; what changes the distance between them is a step: somebody set the clock, or a
//! leap second was inserted. `CLOCK_BOOTTIME` goes on while the machine sleeps, as the wall clock does.

use std::time::{Duration, SystemTime};

use rustix::time::{ClockId, clock_gettime};
use serde::Serialize;

/// Steps that are listed one by one.
const LISTED_STEPS: usize = 100;
/// What reading the clocks may be off by, beyond the time between the readings.
const SLACK_NANOS: i128 = 1_000;
/// Smaller steps do not show in arrival times: frames of several receive queues overtake each other by as much.
const LEAST_SEEN_NANOS: i128 = 1_000_000;

/// A step of the wall clock.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct ClockStep {
    /// Seconds by which it was set forward; below 0: back.
    pub seconds: f64,
    /// What it showed when it was last looked at before the step, in seconds since the epoch.
    pub time: f64,
    /// Frames captured when the step was noticed.
    pub captured: u64,
    /// The frame, counted from 1 over all interfaces, that is the first to have arrived earlier than the one
    /// before it on its interface. `None`: none, for the clock was set forward, or by less than the time
    /// between two frames.
    pub first_frame: Option<u64>,
}

/// The steps of a capture.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ClockSteps {
    /// How many.
    pub count: u64,
    /// The first of them.
    pub listed: Vec<ClockStep>,
}

/// One look at both clocks: how far the wall clock was ahead, at least and at most, in nanoseconds.
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

    /// By how much the wall clock was surely set since an earlier reading.
    fn step_since(&self, earlier: &Reading) -> Option<i128> {
        let back = self.most + SLACK_NANOS < earlier.least;
        let forward = self.least > earlier.most + SLACK_NANOS;
        (back || forward).then(|| (self.least + self.most - earlier.least - earlier.most) / 2)
    }
}

/// Watches the clock during a capture.
#[derive(Debug)]
pub(super) struct ClockWatch {
    last: Reading,
    steps: ClockSteps,
    /// The clock was set back by so many nanoseconds, and no frame has shown it yet.
    unseen: Option<i128>,
    /// Of each interface, when its last frame arrived.
    arrivals: Vec<Duration>,
}

impl ClockWatch {
    /// Starts with the time as it is.
    pub fn new(interfaces: usize) -> Self {
        ClockWatch {
            last: Reading::now(),
            steps: ClockSteps::default(),
            unseen: None,
            arrivals: vec![Duration::ZERO; interfaces],
        }
    }

    /// Looks at the clocks; to be called before the frames that have come are passed to
    /// [`ClockWatch::frame`], so that a step is known before the frames after it are seen.
    pub fn look(&mut self, captured: u64) {
        self.read(Reading::now(), captured);
    }

    fn read(&mut self, now: Reading, captured: u64) {
        // A thread that was interrupted between the readings knows less than before.
        if now.most - now.least > 2 * (self.last.most - self.last.least) + LEAST_SEEN_NANOS {
            return;
        }
        if let Some(nanos) = now.step_since(&self.last) {
            self.steps.count += 1;
            self.unseen = (nanos <= -LEAST_SEEN_NANOS).then_some(-nanos);
            let seconds = nanos as f64 / 1e9;
            let time = self.last.wall as f64 / 1e9;
            if self.steps.listed.len() < LISTED_STEPS {
                let step = ClockStep { seconds, time, captured, first_frame: None };
                self.steps.listed.push(step);
            }
        }
        self.last = now;
    }

    /// Takes note of a frame, the one of this number over all interfaces.
    #[inline]
    pub fn frame(&mut self, link: usize, arrival: Duration, number: u64) {
        let before = std::mem::replace(&mut self.arrivals[link], arrival);
        if arrival >= before {
            return;
        }
        let Some(step) = self.unseen else { return };
        // Whatever time passed between the two frames made the difference smaller.
        if (before - arrival).as_nanos() as i128 >= LEAST_SEEN_NANOS.min(step) {
            self.unseen = None;
            if self.steps.count as usize == self.steps.listed.len()
                && let Some(last) = self.steps.listed.last_mut()
            {
                last.first_frame = Some(number);
            }
        }
    }

    /// The steps so far.
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

    fn watch() -> ClockWatch {
        let mut watch = ClockWatch::new(2);
        watch.last = reading(0, 1000 * SECOND, 200);
        watch
    }

    #[test]
    fn a_step_back_is_found_with_the_frame_that_shows_it() {
        let mut watch = watch();
        watch.frame(0, Duration::from_secs(1000), 1);
        watch.frame(1, Duration::from_secs(1001), 2);
        watch.read(reading(SECOND, 1000 * SECOND, 300), 2);
        watch.read(reading(2 * SECOND, 400 * SECOND, 100), 2);
        watch.frame(0, Duration::from_millis(1_001_500), 3);
        watch.frame(1, Duration::from_secs(402), 4);
        watch.frame(0, Duration::from_secs(403), 5);
        let steps = watch.steps();
        assert_eq!((steps.count, steps.listed.len()), (1, 1));
        let step = steps.listed[0];
        assert!((step.seconds + 600.0).abs() < 1e-6, "{step:?}");
        assert!((step.time - 1001.0).abs() < 1e-6, "{step:?}");
        assert_eq!((step.captured, step.first_frame), (2, Some(4)));
    }

    #[test]
    fn a_step_forward_is_found_and_no_frame_shows_it() {
        let mut watch = watch();
        watch.read(reading(SECOND, 1005 * SECOND, 100), 7);
        watch.frame(0, Duration::from_secs(2000), 8);
        watch.frame(0, Duration::from_secs(1999), 9);
        let steps = watch.steps();
        assert_eq!((steps.count, steps.listed[0].first_frame), (1, None));
        assert!((steps.listed[0].seconds - 5.0).abs() < 1e-6);
    }

    #[test]
    fn readings_that_took_long_are_no_step() {
        let mut watch = watch();
        for width in [10, 50_000, 900_000, 3_000_000, 20] {
            watch.read(reading(SECOND, 1000 * SECOND, width), 0);
        }
        assert_eq!(watch.steps(), ClockSteps::default());
    }

    #[test]
    fn the_list_of_steps_is_bounded_and_their_count_is_not() {
        let mut watch = watch();
        for step in 0..500 {
            watch.read(reading(SECOND, (1000 - step % 2) * SECOND, 100), 0);
        }
        assert_eq!((watch.steps().count, watch.steps().listed.len()), (499, LISTED_STEPS));
    }

    #[test]
    fn a_clock_that_nobody_sets_has_no_steps() {
        let mut watch = ClockWatch::new(1);
        (0..100_000).for_each(|_| watch.look(0));
        assert_eq!(watch.steps(), ClockSteps::default());
    }
}
