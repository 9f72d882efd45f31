//! Measures how long threads execute code of the cache: each pause moves the stored start time of
//! the thread's current chunk forward, by the duration of the pause.
//!
//! A thread that begins a chunk at 1000 and pauses from 1200 to 1600 has executed 300 ticks at
//! 1700: the start has moved to 1400.
//!
//! Times are values of the time stamp counter. Invariant: the program can write the fields, too.
//! Whatever they contain, only the measured times depend on them.

use super::Area;
use crate::layout::area;

impl Area<'_> {
    /// Sets the start of the first chunk of a thread that is about to enter the cache.
    pub fn begin_time(self, now: u64) {
        self.set(area::SINCE, now);
    }

    /// When the pause of a stopped thread in the cache began: at its system call or its request.
    /// `now` if it is in neither. Never later than `now`.
    pub fn paused_at(self, now: u64) -> u64 {
        let called_at = self.get(area::CALLED_AT).any();
        let at = match called_at {
            _ if self.is_asking() => self.get(area::PAUSED_AT).any(),
            0 => now,
            called_at => called_at,
        };
        at.min(now)
    }

    /// Ends the pause of a stopped thread, which began at `paused_at`.
    pub fn end_pause(self, paused_at: u64, now: u64) {
        let pause = now.saturating_sub(paused_at);
        self.set(area::SINCE, self.get(area::SINCE).any().saturating_add(pause));
        self.set(area::CALLED_AT, 0);
    }

    /// Ticks from the start of the thread's current chunk to the time `at`, without pauses; at
    /// least 0.
    pub fn ticks_until(self, at: u64) -> u64 {
        at.saturating_sub(self.get(area::SINCE).any())
    }

    /// Ticks in which a full chunk was filled, without pauses; 0 if the field has an impossible
    /// value.
    pub fn ticks_of(self, chunk: u64) -> u64 {
        let ticks = self.get(area::CHUNK_TICKS + 8 * chunk as u32).any();
        i64::try_from(ticks).map_or(0, i64::cast_unsigned)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;

    use super::super::test_areas;
    use super::*;

    #[test]
    fn pauses_are_not_part_of_a_chunks_time() {
        let areas = test_areas();
        let thread_area = areas.area(1);
        thread_area.prepare();
        thread_area.begin_time(1000);
        assert_eq!((thread_area.paused_at(1500), thread_area.ticks_until(1500)), (1500, 500));
        // A system call that has not returned.
        thread_area.set(area::CALLED_AT, 1200);
        let paused_at = thread_area.paused_at(1500);
        assert_eq!((paused_at, thread_area.ticks_until(paused_at)), (1200, 200));
        thread_area.end_pause(paused_at, 1600);
        assert_eq!((thread_area.paused_at(1700), thread_area.ticks_until(1700)), (1700, 300));
        // A request.
        thread_area.set(area::PAUSED_AT, 1800);
        thread_area.word(area::ASK).store(area::ASKING, Ordering::SeqCst);
        assert_eq!(thread_area.paused_at(2000), 1800);
    }

    #[test]
    fn forged_times_are_bounded() {
        let areas = test_areas();
        let thread_area = areas.area(1);
        for forged in [u64::MAX, 1 << 63, 5] {
            for field in [area::CALLED_AT, area::PAUSED_AT, area::SINCE, area::CHUNK_TICKS] {
                thread_area.set(field, forged);
            }
            assert!(thread_area.paused_at(100) <= 100 && thread_area.ticks_until(100) <= 100);
            assert!(thread_area.ticks_of(0) <= 5);
            thread_area.end_pause(forged, 100);
        }
    }
}
