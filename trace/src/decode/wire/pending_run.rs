//! Holds a run of frames that continue each other but continue no card's trace, until their sender
//! is known.

mod sender;

use std::cell::OnceCell;

use hmtt_format::frame::{COUNTER_MASK, FrameKind, Sync};

use super::card_activity::{CardActivity, LONG_USED};
use super::pending_frame::PendingFrame;
use crate::decode::agreement::{Agreement, CONFIRMED};
use crate::decode::arrival::Arrival;
use crate::decode::card_trace::CardTrace;
use crate::decode::compare::Comparison;
use crate::decode::counts_after::{FrameSummary, apart};
use crate::decode::evidence::{Fit, Reach};
use crate::decode::fingerprint::are_alike;
use crate::decode::sequence::{FARTHEST_DETOUR, FARTHEST_GAP, FIRST_FRAMES, WINDOW};

/// Number of readable frames at which a run is decided: after as many frames of a card, an earlier
/// frame on the same wire counts as late. A run becomes longer only while late frames of a card are
/// awaited.
const MAX_FRAMES: usize = LONG_USED as usize;

/// Maximum number of unreadable frames in a run.
const MAX_UNREADABLE: usize = 8;

/// How well a frame fits a run.
#[derive(Clone, Copy, Debug)]
pub(super) struct RunFit {
    pub fit: Fit,
    /// Whether the frame states exactly the counts after the run's last frame, whatever its
    /// counter. Always `false` for a frame with [`Fit::Next`].
    pub counts_exactly: bool,
}

/// A run of frames that continue each other.
#[derive(Debug, Default)]
pub(super) struct PendingRun {
    frames: Vec<PendingFrame>,
    /// A trace of these frames alone, with which further frames are compared. It is built only when
    /// a frame arrives that is near and not exactly the next, because most strays stay single or
    /// form a short run.
    trace: OnceCell<Box<CardTrace>>,
    /// Whether each frame exactly followed the one before, so that the last frame alone determines
    /// the next.
    in_order: bool,
    /// Bits by which the frames confirm each other.
    confirmation: u32,
    /// Number of frames with counts, without copies and without the first frame with counts. It is
    /// counted until the run is confirmed. 0 means that no two frames with counts continue each
    /// other.
    links: usize,
    /// Number of frames that cannot be read.
    unreadable: usize,
    /// Activity of each card since the run began, by card number.
    cards: Vec<CardActivity>,
    /// Counter of the first frame, modulo 2^40.
    counter: u64,
    /// The highest counter of the frames, modulo 2^40.
    newest: u64,
    /// Whether several cards could have lost frames before the first frame.
    fits_several: bool,
    /// Sync of the first frame.
    opening: Sync,
}

impl PendingRun {
    /// Begins a run with one frame. `compared`: the comparison of the frame with each card;
    /// `serial`: the frame's serial number on its wire. Earlier frames of this run are forgotten;
    /// their memory is reused.
    pub fn begin(&mut self, compared: &[Comparison], arrival: &Arrival<'_>, serial: u64) {
        let counter = arrival.frame.counter;
        self.trace = OnceCell::new();
        self.cards.clear();
        self.cards.extend(compared.iter().map(CardActivity::new));
        self.in_order = counter != 0 && arrival.summary().counts().is_some();
        (self.counter, self.newest) = (counter, counter);
        (self.confirmation, self.links, self.unreadable) = (0, 0, 0);
        self.fits_several = compared.iter().filter(|card| card.continues()).count() > 1;
        self.opening = arrival.frame.sync().unwrap_or_default();
        self.frames.truncate(1);
        match self.frames.first_mut() {
            Some(first) => {
                first.stored.replace(arrival);
                first.serial = serial;
            }
            None => self.frames.push(PendingFrame::new(arrival, serial)),
        }
    }

    /// Removes and returns the frame of a run with only one frame; `None` for a longer run.
    pub fn take_alone(&mut self) -> Option<PendingFrame> {
        self.is_alone().then(|| self.frames.pop())?
    }

    /// Keeps a frame, so that the next [`PendingRun::begin`] reuses its memory.
    pub fn use_memory(&mut self, frame: PendingFrame) {
        self.frames.push(frame);
    }

    /// Appends a frame that continues the run. `compared`: the comparison of the frame with each
    /// card; `serial`: the frame's serial number on its wire.
    pub fn push(&mut self, compared: &[Comparison], arrival: &Arrival<'_>, serial: u64) {
        let counter = arrival.frame.counter;
        if self.first_with_counts().is_none() && arrival.frame.sync().is_some() {
            let compared = self.cards.iter_mut().zip(compared);
            compared.for_each(|(activity, first)| activity.note_first_counts(first));
        }
        self.confirm(arrival);
        self.unreadable += usize::from(arrival.frame.body.is_err());
        self.in_order = self.next_in_order(arrival).is_some();
        if !self.in_order {
            self.trace();
        }
        let ahead = counter.wrapping_sub(self.newest) & COUNTER_MASK;
        if ahead <= COUNTER_MASK / 2 {
            self.newest = counter;
        }
        self.frames.push(PendingFrame::new(arrival, serial));
        if let Some(trace) = self.trace.get_mut() {
            trace.count(arrival);
        }
    }

    /// Adds the bits by which a frame and the frames with the adjacent counters confirm each other.
    /// A copy of a frame of the run confirms nothing, even if its counter differs.
    fn confirm(&mut self, arrival: &Arrival<'_>) {
        let (counter, bytes) = (arrival.frame.counter, arrival.bytes);
        let is_copy = |frame: &PendingFrame| {
            frame.stored.counter() == counter || are_alike(frame.stored.bytes(), bytes)
        };
        if self.is_confirmed() || self.frames.iter().any(is_copy) {
            return;
        }
        let continues = arrival.frame.sync().is_some() && self.first_with_counts().is_some();
        self.links += usize::from(continues);
        let bits = self.frames.iter().map(|frame| frame.confirmation(arrival));
        self.confirmation += bits.sum::<u32>();
    }

    /// The first frame that has counts: a heartbeat has none.
    fn first_with_counts(&self) -> Option<&PendingFrame> {
        self.frames.iter().find(|frame| frame.stored.summary.counts().is_some())
    }

    /// Whether several frames with counts continue each other.
    pub fn is_linked(&self) -> bool {
        self.links != 0
    }

    /// A measure for comparing runs that are not confirmed. The run that is least likely a card's
    /// has the least value.
    pub fn likelihood(&self) -> (u32, usize) {
        (self.confirmation, self.links)
    }

    /// Whether the frames confirm each other, so that they were not made up at random.
    pub fn is_confirmed(&self) -> bool {
        self.confirmation >= CONFIRMED
    }

    /// How well a frame continues the run; `None` if it does not.
    pub fn fit(&self, arrival: &Arrival<'_>) -> Option<RunFit> {
        let counter = arrival.frame.counter;
        // Unreadable frames confirm nothing, and would fill a run that is not confirmed.
        let has_space = self.is_confirmed() && self.unreadable < MAX_UNREADABLE;
        if arrival.frame.body.is_err() && !has_space {
            return None;
        }
        let ahead = counter.wrapping_sub(self.newest) & COUNTER_MASK;
        let behind = self.newest.wrapping_sub(counter) & COUNTER_MASK;
        let is_close = ahead <= WINDOW || behind <= FARTHEST_DETOUR + WINDOW;
        let may_be = match &self.frames[..] {
            // In a run of a single frame, no earlier frame shows which of two frames with the same
            // counter fits better. So at this counter only a copy fits.
            [first] if ahead == 0 && self.counter != 0 => {
                are_alike(first.stored.bytes(), arrival.bytes)
            }
            [first] => is_close && first.may_be_near(arrival),
            _ => is_close,
        };
        if !may_be {
            return None;
        }
        if let Some(fit) = self.next_in_order(arrival) {
            return Some(RunFit { fit, counts_exactly: false });
        }
        let compared = self.trace().compare(arrival);
        let is_first = self.first_with_counts().is_none();
        let fit = if is_first { compared.fit_after_heartbeats() } else { compared.fit }?;
        let counts_exactly = compared.counts_exactly() && !matches!(fit, Fit::Next(_));
        Some(RunFit { fit, counts_exactly })
    }

    /// The result of [`CardTrace::fit`] for a frame that exactly follows the last frame of a run in
    /// order, found without a trace. `None` for all other frames, and for counter 0, with which a
    /// session may begin.
    fn next_in_order(&self, arrival: &Arrival<'_>) -> Option<Fit> {
        let follows = self.newest.wrapping_add(1) & COUNTER_MASK == arrival.frame.counter;
        if !(self.in_order && follows && arrival.frame.counter != 0) {
            return None;
        }
        let (_, end) = self.frames.last()?.stored.summary.counts()?;
        let (sync, _) = arrival.summary().counts()?;
        end.leads_to(sync, 0).filter(|_| end.is_exactly(sync))?;
        let is_data = arrival.frame.kind() == Some(FrameKind::Data);
        Some(Fit::Next(if is_data { apart(sync.clock, end.clock) } else { 0 }))
    }

    /// The comparison of the first frame with a card's trace; `None` for a run without frames.
    fn compare_first(&self, trace: &CardTrace) -> Option<Comparison> {
        Some(trace.compare(&self.frames.first()?.stored.arrival()))
    }

    /// Whether a card's trace still expects the counter of the first frame.
    pub fn fills_place(&self, trace: &CardTrace) -> bool {
        self.compare_first(trace).is_some_and(|first| first.is_awaited())
    }

    /// Whether a card's trace would drop these frames as late although they are not from its past.
    /// `was_new`: whether no frame with counts was decoded in the trace before the run.
    pub fn is_falsely_late(&self, trace: &CardTrace, was_new: bool) -> bool {
        let more = was_new && self.frames.len() > 1;
        let late = |first: Comparison| first.is_falsely_late() || more && first.is_late();
        self.compare_first(trace).is_some_and(late)
    }

    pub fn trace(&self) -> &CardTrace {
        self.trace.get_or_init(|| {
            let mut trace = Box::<CardTrace>::default();
            for frame in &self.frames {
                trace.count(&frame.stored.arrival());
            }
            trace
        })
    }

    /// Whether the run has only one frame.
    pub fn is_alone(&self) -> bool {
        self.frames.len() == 1
    }

    /// Whether the run has only one frame and copies of it.
    fn is_single(&self) -> bool {
        let Some((first, others)) = self.frames.split_first() else { return false };
        let is_copy = |other: &PendingFrame| are_alike(first.stored.bytes(), other.stored.bytes());
        self.links == 0 && others.iter().all(is_copy)
    }

    /// Whether the run begins with one of the first frames of a session, with counts that a card
    /// has soon after it was switched on.
    pub fn is_session_start(&self) -> bool {
        self.counter < FIRST_FRAMES && Agreement::with_power_on(self.opening).is_close()
    }

    /// Whether `other` could continue this run, with a few frames lost in between.
    pub fn leads_soon_to(&self, other: &PendingRun) -> bool {
        let first = other.first_with_counts().and_then(|first| first.stored.summary.counts());
        let own = self.frames.iter().rev().find_map(|frame| frame.stored.summary.counts());
        let is_close = |((_, end), (sync, _))| Agreement::new(end, sync).is_close();
        own.zip(first).is_some_and(is_close) && self.may_lead_to(other)
    }

    /// Whether `other` could continue this run, with any number of records and up to
    /// [`FARTHEST_GAP`] frames lost in between.
    fn may_lead_to(&self, other: &PendingRun) -> bool {
        let missing = other.counter.wrapping_sub(self.counter) & COUNTER_MASK;
        if !(1..=FARTHEST_GAP).contains(&missing) {
            return false;
        }
        let Some(next) = other.first_with_counts() else { return false };
        let first = next.stored.summary.counts();
        match (self.frames.first().map(|first| first.stored.summary), first) {
            // The same result as a comparison with the trace, without building a trace.
            (Some(FrameSummary::Counts(_, end)), Some((sync, _)))
                if self.is_alone()
                    && self.counter != 0
                    && next.stored.counter() == other.counter
                    && other.counter != 0 =>
            {
                end.leads_to(sync, missing - 1).is_some()
            }
            _ => self.trace().compare(&next.stored.arrival()).reach() != Reach::No,
        }
    }

    pub fn frames(&self) -> &[PendingFrame] {
        &self.frames
    }

    pub fn opening(&self) -> Sync {
        self.opening
    }

    /// Counter of the first frame, modulo 2^40.
    pub fn counter(&self) -> u64 {
        self.counter
    }

    /// Whether all frames of this run arrived before all frames of `other`.
    pub fn is_before(&self, other: &PendingRun) -> bool {
        let (last, first) = (self.frames.last(), other.frames.first());
        last.zip(first).is_some_and(|(last, first)| last.serial < first.serial)
    }

    /// Whether `other` may continue this run. Either this run arrived wholly before `other`, or the
    /// counter and the counts of `other` can follow, although copies or frames out of order arrived
    /// later.
    pub fn may_precede(&self, other: &PendingRun) -> bool {
        self.is_before(other) || self.may_lead_to(other)
    }
}

#[cfg(test)]
mod tests;
