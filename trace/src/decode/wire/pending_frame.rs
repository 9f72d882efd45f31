//! Holds one frame of a pending run or of the latest strays, and compares it with another frame.

use hmtt_format::frame::COUNTER_MASK;

use crate::decode::agreement::{confirmation, confirmation_of_heartbeats};
use crate::decode::arrival::{Arrival, StoredFrame};
use crate::decode::card_trace::CardTrace;
use crate::decode::counts_after::may_be_near;
use crate::decode::evidence::Fit;
use crate::decode::fingerprint::are_alike;

/// A frame that waits in a pending run or among the latest strays.
#[derive(Debug)]
pub(super) struct PendingFrame {
    pub stored: StoredFrame,
    /// Serial number of the frame on its wire, in the order of arrival.
    pub serial: u64,
}

impl PendingFrame {
    pub fn new(arrival: &Arrival<'_>, serial: u64) -> Self {
        PendingFrame { stored: StoredFrame::new(arrival), serial }
    }

    /// Whether another frame continues this one.
    pub fn leads_to(&self, other: &Arrival<'_>) -> bool {
        if !self.may_be_near(other) {
            return false;
        }
        let mut trace = CardTrace::default();
        trace.count(&self.stored.arrival());
        trace.fit(other).is_some_and(Fit::continues)
    }

    /// Whether another frame may fit a trace that consists of this frame alone. The check is cheap:
    /// `false` is certain, `true` is not.
    pub fn may_be_near(&self, other: &Arrival<'_>) -> bool {
        let both = self.stored.summary.counts().zip(other.summary().counts());
        both.is_none_or(|(own, other)| may_be_near(own, other))
            || are_alike(self.stored.bytes(), other.bytes)
    }

    /// Bits by which this frame and another one confirm each other: 0 if one of them could not
    /// directly follow the other.
    pub fn confirmation(&self, other: &Arrival<'_>) -> u32 {
        let own = self.stored.arrival();
        let (first, next) = match other.frame.counter.wrapping_sub(own.frame.counter) & COUNTER_MASK
        {
            1 => (&own, other),
            COUNTER_MASK => (other, &own),
            _ => return 0,
        };
        let heartbeat = |arrival: &Arrival<'_>| arrival.frame.body.ok()?.heartbeat();
        match (first.summary().counts(), next.frame.sync()) {
            (Some((_, end)), Some(sync)) => confirmation(end, sync),
            _ => heartbeat(first)
                .zip(heartbeat(next))
                .map_or(0, |(first, next)| confirmation_of_heartbeats(first, next)),
        }
    }
}
