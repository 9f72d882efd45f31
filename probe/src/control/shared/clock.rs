//! Reads the time stamp counter together with the system's clocks, and measures its rate.

use std::sync::OnceLock;
use std::time::Duration;

use hmtt_files::tag_log::ClockPair;
use rustix::time::{ClockId, clock_gettime};

/// Number of attempts for a pair of readings. The attempt that took the least time is used.
const ATTEMPTS: u32 = 8;
/// Time over which the rate is first measured; the program is stopped for that time. The result is
/// within 50 parts per million. A more exact rate is computed at the end.
const CALIBRATION: Duration = Duration::from_millis(2);

fn nanoseconds(clock: ClockId) -> u64 {
    let time = clock_gettime(clock);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Reads the time stamp counter.
pub fn tsc() -> u64 {
    // SAFETY: every x86-64 processor has this instruction.
    unsafe { core::arch::x86_64::_rdtsc() }
}

/// Reads the time stamp counter after all earlier loads and stores are done.
pub fn tsc_behind() -> u64 {
    // SAFETY: every x86-64 processor has this instruction.
    unsafe { core::arch::x86_64::_mm_mfence() };
    // SAFETY: as above. The counter is not read before this instruction.
    unsafe { core::arch::x86_64::_mm_lfence() };
    tsc()
}

/// Reads all clocks at one moment, as closely as possible.
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

/// Ticks of the time stamp counter per second, from two moments; 0 if no time is between them.
pub fn rate(from: &ClockPair, to: &ClockPair) -> u64 {
    let ticks = u128::from(to.tsc.wrapping_sub(from.tsc)) * 1_000_000_000;
    let time = u128::from(to.monotonic_ns.wrapping_sub(from.monotonic_ns));
    ticks.checked_div(time).unwrap_or_default() as u64
}

/// Ticks of the time stamp counter per second. The first call measures the rate, later calls return
/// the same result.
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
    fn the_rate_is_ticks_per_second() {
        let at = |tsc, monotonic_ns| ClockPair { tsc, monotonic_ns, realtime_ns: 0 };
        assert_eq!(rate(&at(10, 0), &at(10 + 3_000_000, 1_000_000)), 3_000_000_000);
        assert_eq!(rate(&at(10, 5), &at(20, 5)), 0);
    }

    #[test]
    fn clocks_advance() {
        let (first, second) = (pair(), pair());
        assert!(first.tsc < second.tsc && first.monotonic_ns <= second.monotonic_ns);
    }
}
