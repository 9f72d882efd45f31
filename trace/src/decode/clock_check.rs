//! Compares the clocks that data frames state with the clocks at which the frames before them end.
//!
//! A data frame begins at the clock at which the previous data frame ended. It begins later in two
//! cases: the card has skipped at least [`SILENT_CLOCKS`] clocks without sending a frame, or the
//! report of a start lies between the two frames. If nothing between the two frames is missing, any
//! other difference shows a damaged frame. Either the clock that the frame states is wrong, or
//! altered records make the previous frame end at a wrong clock. The frame after both shows which
//! clock is wrong.

use std::cmp::Ordering;

use hmtt_format::record::CLOCK_MASK;

/// Shortest silence, in clocks, that the card skips without sending a frame.
const SILENT_CLOCKS: u64 = 1 << 24;
/// Greatest difference of two 48-bit clocks that is taken for positive. A greater difference is
/// taken for negative.
const FARTHEST_AHEAD: u64 = CLOCK_MASK / 2;

/// The end of a data frame that another data frame follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ClockBefore {
    /// Clock after the frame's records, modulo 2^48.
    pub clock: u64,
    /// Whether a report lies between the two data frames. A card that starts sends a report, and
    /// its next data frame begins at a later clock.
    pub reported: bool,
}

impl ClockBefore {
    /// Whether the following data frame can state the clock `next`.
    fn leads_to(self, next: u64) -> bool {
        if self.reported {
            is_reached(self.clock, next)
        } else {
            succession(self.clock, next) != Succession::No
        }
    }
}

/// Clocks of a data frame and of the data frame directly before it, modulo 2^48. Nothing between
/// the two is missing.
#[derive(Clone, Copy, Debug)]
pub(super) struct FrameClocks {
    pub before: ClockBefore,
    /// Clock that the frame states.
    pub stated: u64,
    /// Clock at which the frame ends.
    pub end: u64,
}

/// What the next frame with counts shows about the clock at which a frame ends.
#[derive(Clone, Copy, Debug)]
pub(super) enum NextClock {
    /// A data frame that states this clock follows, with nothing missing in between.
    Follows(u64),
    /// The frame ended at this clock or earlier. A report, or a frame after a gap, states the
    /// clock.
    Bound(u64),
}

/// Which clock is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WrongClock {
    /// No clock, as far as the frames show.
    Neither,
    /// The clock that the frame states.
    Stated,
    /// The clock at which the previous frame ends.
    Before,
    /// One of the two clocks. The next frame does not show which.
    Either,
}

/// Whether `clock` is not later than `by`. Both are modulo 2^48.
fn is_reached(clock: u64, by: u64) -> bool {
    by.wrapping_sub(clock) & CLOCK_MASK <= FARTHEST_AHEAD
}

/// How well one clock follows another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Succession {
    No,
    /// The second clock is later by at least a silence.
    Possible,
    Exact,
}

/// How well a data frame that states the clock `next` follows a data frame that ended at `clock`.
fn succession(clock: u64, next: u64) -> Succession {
    match next.wrapping_sub(clock) & CLOCK_MASK {
        0 => Succession::Exact,
        SILENT_CLOCKS..=FARTHEST_AHEAD => Succession::Possible,
        _ => Succession::No,
    }
}

impl FrameClocks {
    /// Decides which clock is wrong. `next`: the clock of the next frame with counts, if there is
    /// one.
    ///
    /// Example: the previous frame ends at clock 100, and this frame states clock 90 and ends at
    /// 150. If the next data frame states 150, it confirms this frame, so the previous frame ends
    /// at a wrong clock ([`WrongClock::Before`]). If the next data frame states 160, this frame
    /// began at 100 and states a wrong clock ([`WrongClock::Stated`]).
    pub fn check(self, next: Option<NextClock>) -> WrongClock {
        let FrameClocks { before, stated, end } = self;
        let own_end = end;
        // The clock at which the frame ends if it begins where the previous frame ends.
        let other_end = before.clock.wrapping_add(end.wrapping_sub(stated)) & CLOCK_MASK;
        let leads_on = |end: u64| match next {
            Some(NextClock::Follows(clock)) => succession(end, clock),
            Some(NextClock::Bound(clock)) if !is_reached(end, clock) => Succession::No,
            Some(NextClock::Bound(_)) | None => Succession::Possible,
        };
        let (own, other) = (leads_on(own_end), leads_on(other_end));
        if before.leads_to(stated) {
            let is_stated_wrong = own == Succession::No && other != Succession::No;
            // If neither end is possible, the next frame is compared with this one in turn.
            return if is_stated_wrong { WrongClock::Stated } else { WrongClock::Neither };
        }
        match other.cmp(&own) {
            Ordering::Greater => WrongClock::Stated,
            Ordering::Less => WrongClock::Before,
            Ordering::Equal => WrongClock::Either,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A frame of 500 clocks after one that ends at clock 7.
    fn check_after(reported: bool, stated: u64, next: Option<NextClock>) -> WrongClock {
        let before = ClockBefore { clock: 7, reported };
        FrameClocks { before, stated, end: (stated + 500) & CLOCK_MASK }.check(next)
    }

    fn check(stated: u64, next: Option<NextClock>) -> WrongClock {
        check_after(false, stated, next)
    }

    #[test]
    fn the_next_frame_shows_which_clock_is_wrong() {
        use NextClock::{Bound, Follows};
        use WrongClock::{Before, Either, Neither, Stated};
        assert_eq!(check(7, Some(Follows(507))), Neither);
        let silent = 7 + SILENT_CLOCKS;
        for next in [Some(Follows(silent + 500)), Some(Bound(silent + 501)), None] {
            assert_eq!(check(silent, next), Neither);
        }
        // The stated clock was altered upwards so far that a silence would explain the difference.
        assert_eq!(check(silent, Some(Follows(507))), Stated);
        assert_eq!(check(silent, Some(Bound(600))), Stated);
        assert_eq!(check(5, Some(Follows(507))), Stated);
        assert_eq!(check(5, Some(Follows(505))), Before);
        // An end of the frame that needs a silence before the next frame is less likely than an end
        // at exactly the clock that the next frame states.
        assert_eq!(check(5, Some(Follows(600 + SILENT_CLOCKS))), Either);
        assert_eq!(check(CLOCK_MASK - SILENT_CLOCKS, Some(Follows(507))), Stated);
        assert_eq!(check(5, Some(Follows(509))), Either);
        assert_eq!(check(5, Some(Bound(600))), Either);
        assert_eq!(check(5, None), Either);
    }

    #[test]
    fn a_report_bounds_the_clock_of_the_frame_after_it() {
        use NextClock::Follows;
        assert_eq!(check_after(true, 9, Some(Follows(509))), WrongClock::Neither);
        assert_eq!(check_after(true, 9, Some(Follows(507))), WrongClock::Stated);
        assert_eq!(check_after(true, 5, Some(Follows(507))), WrongClock::Stated);
    }
}
