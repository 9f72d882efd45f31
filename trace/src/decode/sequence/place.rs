//! Determines where a frame belongs in its session, from its counter and the frames before it.

use hmtt_format::frame::{COUNTER_BITS, COUNTER_MASK};

use super::{FARTHEST_DETOUR, FIRST_FRAMES, Sequencer, WINDOW, first_place};
use crate::decode::arrival::{Arrival, StoredFrame};

/// Maximum length of a gap, in frames, that does not count as a long gap (`Reach::LongGap`). The
/// first frame of a session (counter 0) that is further ahead is from a restarted card.
pub(in crate::decode) const FARTHEST_GAP: u64 = 1 << 20;

/// Bound of a session's unwrapped counters. No card sends that many frames, but each forged frame
/// can advance the counter by half the 40-bit range.
const FARTHEST_COUNTER: u64 = 1 << 63;

/// The place of a frame in its session.
#[derive(Clone, Copy, Debug)]
pub(in crate::decode) enum Place {
    /// The frame has this unwrapped counter, which is still to be passed on.
    Ahead(u64),
    /// The frame is a copy of one that arrived before.
    Duplicate,
    /// The frame has been reported missing.
    Late,
    /// Another frame waits at this unwrapped counter.
    Taken(u64),
    /// The frame belongs to another session or to another card.
    Restart,
}

impl Sequencer {
    /// The unwrapped counter that has these low 40 bits and is nearest to the next expected one.
    /// For example, if 2^40 + 5 is expected, counter 7 becomes 2^40 + 7, and counter 2^40 - 1 is
    /// not changed.
    pub(super) fn unwrapped(&self, counter: u64) -> u64 {
        let ahead = counter.wrapping_sub(self.next) & COUNTER_MASK;
        let half = 1 << (COUNTER_BITS - 1);
        if ahead < half { self.next + ahead } else { self.next + ahead - (1 << COUNTER_BITS) }
    }

    /// Whether a counter is so close to the counters of earlier frames that its frame may fit
    /// between or after these frames. Only the counter is checked. A frame that is not close has
    /// the place [`Place::Restart`], or [`Place::Ahead`] by [`WINDOW`] or more.
    pub(in crate::decode) fn is_close(&self, counter: u64) -> bool {
        if !self.open {
            return false;
        }
        let counter = self.unwrapped(counter);
        let oldest = if self.started { self.next } else { self.newest };
        counter + FARTHEST_DETOUR >= oldest && counter < self.newest + WINDOW
    }

    /// Number of frames missing between the newest frame and a counter; `None` if the counter is
    /// not ahead of the newest frame, or if no session is open.
    pub(in crate::decode) fn missing_up_to(&self, counter: u64) -> Option<u64> {
        self.open.then(|| self.unwrapped(counter).checked_sub(self.newest + 1))?
    }

    /// Determines the place of a frame from its counter. Its fingerprint distinguishes a copy from
    /// another frame with the same counter.
    pub(in crate::decode) fn place(&self, arrival: &Arrival<'_>) -> Place {
        let frame = &arrival.frame;
        if !self.open {
            return Place::Ahead(first_place(frame));
        }
        let counter = self.unwrapped(frame.counter);
        let oldest = if self.started { self.next } else { self.newest };
        let behind = counter < self.next;
        if counter + FARTHEST_DETOUR < oldest
            || counter >= FARTHEST_COUNTER
            || frame.counter < FIRST_FRAMES && counter + WINDOW + FIRST_FRAMES < oldest
            || !self.started && counter + WINDOW < oldest
            || frame.opens_session() && behind && self.ended
            || frame.opens_session() && counter > self.next + FARTHEST_GAP
        {
            return Place::Restart;
        }
        let seen = if behind {
            let at = self.passed.binary_search_by_key(&counter, |(passed, _)| *passed).ok();
            at.map(|at| self.passed[at].1)
        } else {
            self.waiting(counter).map(StoredFrame::fingerprint)
        };
        match seen {
            Some(seen) if seen == arrival.fingerprint() => Place::Duplicate,
            Some(_) if behind => Place::Restart,
            Some(_) => Place::Taken(counter),
            None if behind && self.started => Place::Late,
            None => Place::Ahead(counter),
        }
    }
}
