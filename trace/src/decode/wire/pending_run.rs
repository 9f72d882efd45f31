//! Holds frames that continue each other but no card's trace, until it is clear whose they are.

use std::cell::OnceCell;

use hmtt_format::frame::{COUNTER_MASK, FrameKind, Sync};

use super::card_activity::{CardActivity, LONG_USED};
use crate::decode::counts_after::{FrameSummary, apart, may_be_near};
use crate::decode::fit::Fit;
use crate::decode::frame::{Frame, Origin};
use crate::decode::item::Counted;
use crate::decode::sequence::{FARTHEST_DETOUR, FARTHEST_GAP, FIRST_FRAMES, WINDOW, are_alike};
use crate::decode::trace::Trace;

/// Most frames of a run: as many as a card may send before another frame of the same wire is late.
const MAX_FRAMES: usize = LONG_USED as usize;

/// A frame of a pending run.
#[derive(Debug)]
pub(super) struct PendingFrame {
    pub origin: Origin,
    pub bytes: Vec<u8>,
    /// What the frame states about its place in its session.
    pub kept: FrameSummary,
    /// Serial number of the frame on its wire, in the order of arrival.
    pub serial: u64,
}

impl PendingFrame {
    fn new(origin: Origin, arrival: &Arrival<'_>, serial: u64) -> Self {
        PendingFrame { origin, bytes: arrival.bytes.to_vec(), kept: arrival.kept(), serial }
    }

    /// Whether another frame continues this one.
    pub fn leads_to(&self, other: &Arrival<'_>) -> bool {
        if !self.may_be_near(other) {
            return false;
        }
        let mut trace = Trace::default();
        trace.push(self.origin, &self.bytes, &mut Counted(|_| {}));
        trace.fit(other.frame, other.bytes).is_some_and(Fit::continues)
    }

    /// Whether another frame may fit a trace of this frame alone. A cheap check: `false` is certain, `true` is not.
    fn may_be_near(&self, other: &Arrival<'_>) -> bool {
        let both = self.kept.counts().zip(other.kept().counts());
        both.is_none_or(|(own, other)| may_be_near(own, other))
            || are_alike(&self.bytes, other.bytes)
    }
}

/// A frame that has arrived and has no owner yet.
pub(super) struct Arrival<'a> {
    pub frame: &'a Frame<'a>,
    pub bytes: &'a [u8],
    kept: OnceCell<FrameSummary>,
}

impl<'a> Arrival<'a> {
    pub fn new(frame: &'a Frame<'a>, bytes: &'a [u8]) -> Self {
        Arrival { frame, bytes, kept: OnceCell::new() }
    }

    /// An arrival whose summary is known.
    fn known(frame: &'a Frame<'a>, bytes: &'a [u8], kept: FrameSummary) -> Self {
        Arrival { frame, bytes, kept: OnceCell::from(kept) }
    }

    /// The frame's summary. It is computed at most once, and only if frames with a near counter wait.
    fn kept(&self) -> FrameSummary {
        *self.kept.get_or_init(|| FrameSummary::new(self.frame))
    }
}

/// A run of frames that continue each other.
#[derive(Debug, Default)]
pub(super) struct PendingRun {
    frames: Vec<PendingFrame>,
    /// A trace of these frames alone, with which further frames are compared. It is built only when a frame arrives that is
    /// near and not exactly the next, because most strays stay single or form a short run.
    trace: OnceCell<Box<Trace>>,
    /// Whether each frame exactly followed the one before, so that the last frame alone determines the next.
    in_order: bool,
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
    /// Begins a run with one frame. `serial`: the frame's serial number on its wire. Earlier frames of this run are
    /// forgotten; their memory is reused.
    pub fn begin(&mut self, cards: &[Trace], origin: Origin, arrival: &Arrival<'_>, serial: u64) {
        let Arrival { frame, bytes, .. } = *arrival;
        let sync = frame.body.ok().and_then(|body| body.sync());
        let near = |trace: &&Trace| trace.fit(frame, bytes).is_some_and(Fit::continues);
        self.trace = OnceCell::new();
        self.cards.clear();
        self.cards.extend(cards.iter().map(|trace| CardActivity::new(trace, frame, bytes)));
        self.in_order = frame.counter != 0 && arrival.kept().counts().is_some();
        (self.counter, self.newest) = (frame.counter, frame.counter);
        self.fits_several = cards.iter().filter(near).count() > 1;
        self.opening = sync.unwrap_or_default();
        self.frames.truncate(1);
        match self.frames.first_mut() {
            Some(first) => {
                (first.origin, first.serial) = (origin, serial);
                first.bytes.clear();
                first.bytes.extend_from_slice(bytes);
                first.kept = arrival.kept();
            }
            None => self.frames.push(PendingFrame::new(origin, arrival, serial)),
        }
    }

    /// As [`PendingRun::begin`], with a frame that waited before. Returns `false` if its bytes are no card's frame.
    pub fn begin_with(&mut self, cards: &[Trace], waiting: PendingFrame) -> bool {
        let PendingFrame { origin, bytes, serial, kept } = waiting;
        let Some(frame) = Frame::parse(&bytes) else { return false };
        self.begin(cards, origin, &Arrival::known(&frame, &bytes, kept), serial);
        true
    }

    /// Removes and returns the frame of a run that has only one.
    pub fn take_alone(&mut self) -> Option<PendingFrame> {
        self.is_alone().then(|| self.frames.pop())?
    }

    /// Keeps a frame whose memory the run's next first frame reuses.
    pub fn use_memory(&mut self, frame: PendingFrame) {
        self.frames.push(frame);
    }

    /// Appends a frame that continues the run.
    pub fn push(&mut self, origin: Origin, arrival: &Arrival<'_>, serial: u64) {
        let Arrival { frame, bytes, .. } = *arrival;
        self.in_order = self.next_in_order(arrival).is_some();
        if !self.in_order {
            self.trace();
        }
        let ahead = frame.counter.wrapping_sub(self.newest) & COUNTER_MASK;
        if ahead <= COUNTER_MASK / 2 {
            self.newest = frame.counter;
        }
        self.frames.push(PendingFrame::new(origin, arrival, serial));
        if let Some(trace) = self.trace.get_mut() {
            trace.frame(origin, bytes, frame, &mut Counted(|_| {}));
        }
    }

    /// How well a frame continues the run; `None` if it does not.
    pub fn fit(&self, arrival: &Arrival<'_>) -> Option<Fit> {
        let Arrival { frame, bytes, .. } = arrival;
        let ahead = frame.counter.wrapping_sub(self.newest) & COUNTER_MASK;
        let behind = self.newest.wrapping_sub(frame.counter) & COUNTER_MASK;
        let is_close = ahead <= WINDOW || behind <= FARTHEST_DETOUR + WINDOW;
        let may_be = match &self.frames[..] {
            // A single frame has no frame before it that could give its place to another one.
            [first] if ahead == 0 && self.counter != 0 => are_alike(&first.bytes, bytes),
            [first] => is_close && first.may_be_near(arrival),
            _ => is_close,
        };
        let next = || self.next_in_order(arrival);
        may_be.then(|| next().or_else(|| self.trace().fit(frame, bytes)))?
    }

    /// The result of [`Trace::fit`] for a frame that exactly follows the last one of a run that is in order. It needs no
    /// trace. `None` for counter 0, with which a session may begin.
    fn next_in_order(&self, arrival: &Arrival<'_>) -> Option<Fit> {
        let follows = self.newest.wrapping_add(1) & COUNTER_MASK == arrival.frame.counter;
        if !(self.in_order && follows && arrival.frame.counter != 0) {
            return None;
        }
        let (_, end) = self.frames.last()?.kept.counts()?;
        let (sync, _) = arrival.kept().counts()?;
        end.leads_to(sync, 0).filter(|_| end.is_exactly(sync))?;
        let is_data = arrival.frame.kind() == Some(FrameKind::Data);
        Some(Fit::Next(if is_data { apart(sync.clock, end.clock) } else { 0 }))
    }

    /// Compares the run again with a card that has been given another run, which this one may continue.
    pub fn reconsider(&mut self, card: usize, trace: &Trace, taken: &PendingRun) {
        let Some(first) = self.frames.first() else { return };
        let Some(frame) = Frame::parse(&first.bytes) else { return };
        let since = |at: usize| {
            let serial = self.frames.get(at).map_or(u64::MAX, |frame| frame.serial);
            taken.frames.iter().filter(|frame| frame.serial > serial).count() as u32
        };
        let mut activity = CardActivity::new(trace, &frame, &first.bytes);
        (activity.frames, activity.frames_since_second) = (since(0), since(1));
        match self.cards.get_mut(card) {
            Some(before) => *before = activity,
            None => self.cards.push(activity),
        }
    }

    /// Whether a card's trace still expects the counter of the first frame.
    pub fn fills_place(&self, trace: &Trace) -> bool {
        self.is_first(|frame, bytes| trace.waits_for(frame, bytes))
    }

    /// Whether a card's trace would drop these frames as late although they are not from its past.
    pub fn is_falsely_late(&self, trace: &Trace, was_new: bool) -> bool {
        let more = was_new && self.frames.len() > 1;
        self.is_first(|frame, bytes| trace.is_late(frame, bytes) && (more || !trace.is_past(frame)))
    }

    fn is_first(&self, is: impl Fn(&Frame<'_>, &[u8]) -> bool) -> bool {
        let first = self.frames.first().map(|first| &first.bytes[..]);
        first.is_some_and(|bytes| Frame::parse(bytes).is_some_and(|frame| is(&frame, bytes)))
    }

    pub fn trace(&self) -> &Trace {
        self.trace.get_or_init(|| {
            let mut trace = Box::<Trace>::default();
            for PendingFrame { origin, bytes, .. } in &self.frames {
                trace.push(*origin, bytes, &mut Counted(|_| {}));
            }
            trace
        })
    }

    /// Whether the run has only one frame, which nothing confirms.
    pub fn is_alone(&self) -> bool {
        self.frames.len() == 1
    }

    /// Whether the run begins with one of the first frames of a session.
    pub fn is_session_start(&self) -> bool {
        self.counter < FIRST_FRAMES
    }

    /// Whether some card could use the counter or the counts of the first frame next.
    pub fn is_near(&self) -> bool {
        self.cards.iter().any(|activity| activity.near)
    }

    /// Whether a card that has been silent since the run began could have lost a few frames before it.
    pub fn follows_soon(&self) -> bool {
        self.cards.iter().any(|activity| activity.frames == 0 && activity.soon)
    }

    /// Whether the run could be a card's only after a long gap.
    pub fn is_far_ahead(&self, card: usize) -> bool {
        self.cards.get(card).is_some_and(|activity| activity.could_reach && !activity.soon)
    }

    /// Whether another run could be of the same card as this one, with a few frames lost in between.
    pub fn leads_soon_to(&self, other: &PendingRun) -> bool {
        let missing = other.counter.wrapping_sub(self.counter) & COUNTER_MASK;
        if !(1..=FARTHEST_GAP).contains(&missing) {
            return false;
        }
        match (&self.frames[..], other.frames.first().and_then(|first| first.kept.counts())) {
            // The same result as the trace's, without building one.
            ([PendingFrame { kept: FrameSummary::Counts(_, end), .. }], Some((sync, _)))
                if self.counter != 0 && other.counter != 0 =>
            {
                end.leads_to(sync, missing - 1).is_some()
            }
            _ => other.is_first(|frame, bytes| self.trace().could_reach(frame, bytes)),
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

    pub fn is_full(&self) -> bool {
        self.frames.len() >= MAX_FRAMES
    }

    /// Whether a card has sent nothing since the run began.
    pub fn is_silent(&self, card: usize) -> bool {
        self.cards.get(card).is_some_and(|activity| activity.frames == 0)
    }

    /// The card that has sent at least `frames` frames since this single frame, whose counter or counts it could have used:
    /// the frame is a damaged one of that card. `None` if there is no such card, or for a run of several frames.
    pub fn left_behind(&self, frames: u32) -> Option<usize> {
        let used = |activity: &CardActivity| activity.near && activity.frames >= frames;
        self.cards.iter().position(used).filter(|_| self.is_alone())
    }

    /// The card of which this single frame is a damaged one, because the card has since used its counter and counts. `all`:
    /// no frames follow. Then a report whose counter has one flipped bit is a damaged frame, too: it holds no access, and as
    /// a card's next frame it would make many frames missing.
    pub fn damaged_frame_of(&self, all: bool) -> Option<usize> {
        let is_report = |frame: &Frame<'_>, _: &[u8]| {
            matches!(frame.kind(), Some(FrameKind::Info | FrameKind::End))
        };
        match all {
            true => self.left_behind(1).or_else(|| {
                let card =
                    self.cards.iter().position(|activity| activity.misplaced && activity.flipped);
                card.filter(|card| self.is_misplaced(*card) && self.is_first(is_report))
            }),
            false => self.left_behind(LONG_USED),
        }
    }

    /// Whether this is a single frame that could be a damaged one of a card.
    pub fn is_suspect(&self, card: usize) -> bool {
        self.is_alone() && self.cards.get(card).is_some_and(|activity| activity.near)
    }

    /// Whether this is a single frame that could be a card's if its counter were another.
    pub fn is_misplaced(&self, card: usize) -> bool {
        self.is_alone() && self.cards.get(card).is_some_and(|activity| activity.misplaced)
    }

    /// Counts a frame of a card. Returns whether the run may be decided now.
    pub fn note_card_frame(&mut self, card: usize) -> bool {
        let alone = self.is_alone();
        // The run cannot continue a card that appeared after it began.
        let activity = self.cards.get_mut(card);
        activity.is_some_and(|activity| activity.note(alone)) || self.fits_several
    }

    /// Whether all cards continue beside the run, so that it is another card's. A single frame is no card: anyone can send
    /// one.
    pub fn is_other_card(&self) -> bool {
        !self.is_alone() && self.cards.iter().all(CardActivity::is_active)
    }

    /// The card of the run, if several cards could have sent it: the card whose newest frame it follows exactly, or the only
    /// one that does not continue beside it.
    pub fn matching_card(&self, cards: &[Trace]) -> Option<usize> {
        if !self.fits_several {
            return None;
        }
        let first = self.frames.first()?;
        let frame = Frame::parse(&first.bytes)?;
        let next = |trace: &Trace| matches!(trace.fit(&frame, &first.bytes), Some(Fit::Next(_)));
        let mut left = self.cards.iter().enumerate().filter(|(_, activity)| !activity.is_active());
        let left =
            left.next().filter(|(_, activity)| activity.could_reach && left.next().is_none());
        cards.iter().position(next).or(left.map(|(card, _)| card))
    }

    /// Whether all frames of this run arrived before those of another.
    pub fn is_before(&self, other: &PendingRun) -> bool {
        let (last, first) = (self.frames.last(), other.frames.first());
        last.zip(first).is_some_and(|(last, first)| last.serial < first.serial)
    }

    /// The card that the run seems to continue. In this order: a silent card that could have lost frames; for a single
    /// frame, the card that could use its counter or counts next; the card `last` if it is silent; any silent card.
    pub fn predecessor(&self, last: usize) -> Option<usize> {
        let activity = |at: &usize| self.cards.get(*at).copied().unwrap_or_default();
        let silent = |at: &usize| self.cards.get(*at).is_some_and(|activity| !activity.is_active());
        let all = || 0..self.cards.len();
        let alone = self.is_alone();
        all()
            .filter(|at| silent(at) && activity(at).could_reach)
            .min_by_key(|at| (!activity(at).soon, activity(at).frames))
            .or(all().find(|at| alone && activity(at).near))
            .or(Some(last).filter(silent))
            .or(all().find(silent))
    }
}

#[cfg(test)]
mod tests;
