//! Extends the 48-bit clocks of frames to 64-bit clocks that do not wrap. (48 bits wrap after 2.7
//! days on a DDR4-2400 bus.)
//!
//! Invariant: a clock is extended correctly if it is less than half the 48-bit range before or
//! after the clock of the last frame. A forged frame can state any clock. Extended clocks are
//! therefore bounded by [`FARTHEST`], so that adding a frame's clock differences does not overflow.

use hmtt_format::record::CLOCK_MASK;
use hmtt_format::{Cycles, Event};

/// Bound of extended clocks, in clocks: beyond it, extension starts again from the 48-bit clock. No
/// card counts that far (121 years at 2.4 GHz), but each forged frame can add half the 48-bit
/// range.
const FARTHEST: u64 = 1 << 63;

/// Extends the clocks of one session. Holds the extended clock of the last frame.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct LongClock {
    frame: Option<u64>,
}

impl LongClock {
    /// Extends the clock of a frame's sync and records it as the reference for the clocks that
    /// follow.
    pub fn enter_frame(&mut self, clock: u64) -> Cycles {
        let clock = Cycles(clock);
        let extended =
            Some(self.extend(clock)).filter(|extended| extended.0 < FARTHEST).unwrap_or(clock);
        self.frame = Some(extended.0);
        extended
    }

    /// The extended clock that has the low 48 bits of `clock` and is nearest to the clock of the
    /// last frame. For example, if the last frame has the extended clock 2^48 - 10, clock 5 becomes
    /// 2^48 + 5.
    pub fn extend(&self, clock: Cycles) -> Cycles {
        let Some(frame) = self.frame else { return clock };
        let ahead = clock.0.wrapping_sub(frame) & CLOCK_MASK;
        if ahead <= CLOCK_MASK / 2 {
            Cycles(frame + ahead)
        } else {
            Cycles((frame + ahead).checked_sub(CLOCK_MASK + 1).unwrap_or(clock.0))
        }
    }

    /// The event with its clock extended; an event without a clock is not changed.
    pub fn extend_event(&self, mut event: Event) -> Event {
        if let Some(clock) = event.clock_mut() {
            *clock = self.extend(*clock);
        }
        event
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clocks_continue_beyond_their_wrap() {
        let mut clock = LongClock::default();
        assert_eq!(clock.extend(Cycles(7)), Cycles(7));
        assert_eq!(clock.enter_frame(CLOCK_MASK - 5), Cycles(CLOCK_MASK - 5));
        assert_eq!(clock.extend(Cycles(4)), Cycles(CLOCK_MASK + 5));
        assert_eq!(clock.extend(Cycles(CLOCK_MASK + 5)), Cycles(CLOCK_MASK + 5));
        assert_eq!(clock.enter_frame(10), Cycles(CLOCK_MASK + 11));
        assert_eq!(clock.extend(Cycles(CLOCK_MASK)), Cycles(CLOCK_MASK));
        assert_eq!(clock.enter_frame(CLOCK_MASK / 2), Cycles(CLOCK_MASK + 1 + CLOCK_MASK / 2));
    }

    /// Each frame states a clock almost half the range later than the frame before, as forged
    /// frames may.
    #[test]
    fn clocks_that_jump_ahead_without_end_do_not_overflow() {
        const JUMP: u64 = CLOCK_MASK / 2;
        let mut clock = LongClock::default();
        for frame in 0..2 * (u64::MAX / JUMP) {
            let stated = frame.wrapping_mul(JUMP) & CLOCK_MASK;
            let entered = clock.enter_frame(stated);
            assert!(entered.0 < FARTHEST && entered.0 & CLOCK_MASK == stated, "frame {frame}");
            assert_eq!(clock.extend(Cycles(stated)), entered);
            assert!(clock.extend(Cycles(stated + JUMP)).0 <= FARTHEST + CLOCK_MASK);
        }
    }

    #[test]
    fn a_clock_before_the_first_frame_stays_as_it_is() {
        let mut clock = LongClock::default();
        clock.enter_frame(1000);
        assert_eq!(clock.extend(Cycles(900)), Cycles(900));
    }
}
