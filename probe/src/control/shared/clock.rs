//! The time stamp counter beside the clocks of the system.

use std::sync::OnceLock;
use std::time::Duration;

use hmtt_format::tag_log::ClockPair;
use rustix::time::{ClockId, clock_gettime};

/// How often the clocks are read for one pair: the time it takes varies.
const ATTEMPTS: u32 = 8;
/// How long the counter is watched before its rate is said for the first time; the program waits. Within
/// 50 parts in a million, and said once more at the end.
const CALIBRATION: Duration = Duration::from_millis(2);

fn nanoseconds(clock: ClockId) -> u64 {
    let time = clock_gettime(clock);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// The time stamp counter.
pub fn tsc() -> u64 {
    // SAFETY: every x86-64 processor has it.
    unsafe { core::arch::x86_64::_rdtsc() }
}

/// The time stamp counter once everything before is done.
pub fn tsc_behind() -> u64 {
    // SAFETY: every x86-64 processor has it.
    unsafe { core::arch::x86_64::_mm_mfence() };
    // SAFETY: as above. The counter is not read before it.
    unsafe { core::arch::x86_64::_mm_lfence() };
    tsc()
}

/// One moment on all clocks, as closely as possible.
pub fn pair() -> ClockPair {
    let attempt = |_| {
        let before = tsc();
        let monotonic_ns = nanoseconds(ClockId::Monotonic);
        let ticks = tsc() - before;
        let realtime_ns = nanoseconds(ClockId::Realtime);
        (ticks, ClockPair { tsc: before + ticks / 2, monotonic_ns, realtime_ns })
    };
    let closest = (0..ATTEMPTS).map(attempt).min_by_key(|(ticks, _)| *ticks);
    closest.map_or_else(ClockPair::default, |(_, pair)| pair)
}

/// Ticks in a second, from two moments; 0 if they are one.
pub fn rate(from: &ClockPair, to: &ClockPair) -> u64 {
    let ticks = u128::from(to.tsc.wrapping_sub(from.tsc)) * 1_000_000_000;
    let time = u128::from(to.monotonic_ns.wrapping_sub(from.monotonic_ns));
    ticks.checked_div(time).unwrap_or_default() as u64
}

/// Ticks in a second, measured for a moment, once.
pub fn measure() -> u64 {
    static RATE: OnceLock<u64> = OnceLock::new();
    *RATE.get_or_init(|| {
        let before = pair();
        std::thread::sleep(CALIBRATION);
        rate(&before, &pair())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_ticks_by_seconds() {
        let at = |tsc, monotonic_ns| ClockPair { tsc, monotonic_ns, realtime_ns: 0 };
        assert_eq!(rate(&at(10, 0), &at(10 + 3_000_000, 1_000_000)), 3_000_000_000);
        assert_eq!(rate(&at(10, 5), &at(20, 5)), 0);
    }

    #[test]
    fn clocks_go_on() {
        let (first, second) = (pair(), pair());
        assert!(first.tsc < second.tsc && first.monotonic_ns <= second.monotonic_ns);
    }
}
