//! Frames that go on from no card's trace, until they show whose they are.

use std::cell::OnceCell;

use hmtt_format::frame::{COUNTER_MASK, FrameKind, Sync};

use super::card_activity::{CardActivity, LONG_USED};
use crate::decode::counts_after::{FrameSummary, apart, may_be_near};
use crate::decode::fit::Fit;
use crate::decode::frame::{Frame, Origin};
use crate::decode::item::Counted;
use crate::decode::sequence::{FARTHEST_DETOUR, FARTHEST_GAP, FIRST_FRAMES, WINDOW, are_alike};
use crate::decode::trace::Trace;

/// Most frames that wait: as many as a card may send before another frame of the same wire is late.
const MAX_FRAMES: usize = LONG_USED as usize;

/// A frame that waits.
#[derive(Debug)]
pub(super) struct PendingFrame {
    pub origin: Origin,
    pub bytes: Vec<u8>,
    /// What it says of its place.
    pub kept: FrameSummary,
    /// Its place among all frames of the wire.
    pub serial: u64,
}

impl PendingFrame {
    fn new(origin: Origin, arrival: &Arrival<'_>, serial: u64) -> Self {
        PendingFrame { origin, bytes: arrival.bytes.to_vec(), kept: arrival.kept(), serial }
    }

    /// Whether another frame goes on from this one.
    pub fn leads_to(&self, other: &Arrival<'_>) -> bool {
        if !self.may_be_near(other) {
            return false;
        }
        let mut trace = Trace::default();
        trace.push_to(self.origin, &self.bytes, &mut Counted(|_| {}));
        trace.fit(other.frame, other.bytes).is_some_and(Fit::continues)
    }

    /// Whether a trace of this frame alone may fit another one: quick, and where it says no that is so.
    fn may_be_near(&self, other: &Arrival<'_>) -> bool {
        let both = self.kept.counts().zip(other.kept().counts());
        both.is_none_or(|(own, other)| may_be_near(own, other))
            || are_alike(&self.bytes, other.bytes)
    }
}

/// A frame that comes.
pub(super) struct Arrival<'a> {
    pub frame: &'a Frame<'a>,
    pub bytes: &'a [u8],
    kept: OnceCell<FrameSummary>,
}

impl<'a> Arrival<'a> {
    pub fn new(frame: &'a Frame<'a>, bytes: &'a [u8]) -> Self {
        Arrival { frame, bytes, kept: OnceCell::new() }
    }

    /// Of a frame of which it is known what it says of its place.
    fn known(frame: &'a Frame<'a>, bytes: &'a [u8], kept: FrameSummary) -> Self {
        Arrival { frame, bytes, kept: OnceCell::from(kept) }
    }

    /// What it says of its place: read once, and only where others wait that are close.
    fn kept(&self) -> FrameSummary {
        *self.kept.get_or_init(|| FrameSummary::new(self.frame))
    }
}

/// A string of frames that go on from each other.
#[derive(Debug, Default)]
pub(super) struct PendingRun {
    frames: Vec<PendingFrame>,
    /// They alone, counted: what further frames are compared with. It is made when one comes that is close
    /// and not simply the next, since most frames of no card stay alone, or make a short string.
    trace: OnceCell<Box<Trace>>,
    /// Each went on exactly from the one before, so that the last says all about the next.
    in_order: bool,
    cards: Vec<CardActivity>,
    /// Counter of the first frame.
    counter: u64,
    /// The highest counter.
    newest: u64,
    /// The first frame could be that of several cards that lost frames.
    fits_several: bool,
    /// What the first frame says of what was before it.
    opening: Sync,
}

impl PendingRun {
    /// `serial`: the place of the frame among all frames of the wire. What these were before is forgotten,
    /// their memory is used again.
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

    /// As [`PendingRun::begin`], with a frame that waited before. Whether it can be one.
    pub fn begin_with(&mut self, cards: &[Trace], waiting: PendingFrame) -> bool {
        let PendingFrame { origin, bytes, serial, kept } = waiting;
        let Some(frame) = Frame::parse(&bytes) else { return false };
        self.begin(cards, origin, &Arrival::known(&frame, &bytes, kept), serial);
        true
    }

    /// Takes out a frame alone.
    pub fn take_alone(&mut self) -> Option<PendingFrame> {
        self.is_alone().then(|| self.frames.pop())?
    }

    /// Uses a frame's memory for the first one to come.
    pub fn use_memory(&mut self, frame: PendingFrame) {
        self.frames.push(frame);
    }

    /// Takes a frame that goes on from the others.
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

    /// How well a frame goes on from these.
    pub fn fit(&self, arrival: &Arrival<'_>) -> Option<Fit> {
        let Arrival { frame, bytes, .. } = arrival;
        let ahead = frame.counter.wrapping_sub(self.newest) & COUNTER_MASK;
        let behind = self.newest.wrapping_sub(frame.counter) & COUNTER_MASK;
        let is_close = ahead <= WINDOW || behind <= FARTHEST_DETOUR + WINDOW;
        let may_be = match &self.frames[..] {
            // A frame alone has nothing before it that would give its place to another one.
            [first] if ahead == 0 && self.counter != 0 => are_alike(&first.bytes, bytes),
            [first] => is_close && first.may_be_near(arrival),
            _ => is_close,
        };
        let next = || self.next_in_order(arrival);
        may_be.then(|| next().or_else(|| self.trace().fit(frame, bytes)))?
    }

    /// What [`Trace::fit`] says of a frame that goes on exactly where the last of these ended, if all did so from
    /// the first: as quick as can be. Frame 0 may open a session, which is another matter.
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

    /// A card has taken other frames that waited: they may be what these go on from, or have come
    /// beside them.
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

    /// Whether the first of these frames has a place that a card's trace waits for.
    pub fn fills_place(&self, trace: &Trace) -> bool {
        self.is_first(|frame, bytes| trace.waits_for(frame, bytes))
    }

    /// Whether a card would leave out these frames as late, though they are not of its past.
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
                trace.push_to(*origin, bytes, &mut Counted(|_| {}));
            }
            trace
        })
    }

    /// Whether this is one frame, which nothing confirms.
    pub fn is_alone(&self) -> bool {
        self.frames.len() == 1
    }

    /// Whether the first frame is one of the first that a card sends.
    pub fn begins(&self) -> bool {
        self.counter < FIRST_FRAMES
    }

    /// Whether some card could be about to use the counter or the counts of the first frame.
    pub fn is_near(&self) -> bool {
        self.cards.iter().any(|activity| activity.near)
    }

    /// Whether a card that is silent since could have lost a few frames before these.
    pub fn follows_soon(&self) -> bool {
        self.cards.iter().any(|activity| activity.frames == 0 && activity.soon)
    }

    /// Whether they could be a card's only after a long gap.
    pub fn is_far_ahead(&self, card: usize) -> bool {
        self.cards.get(card).is_some_and(|activity| activity.could_reach && !activity.soon)
    }

    /// Whether other frames that wait could be this card's, a few lost between.
    pub fn leads_soon_to(&self, other: &PendingRun) -> bool {
        let missing = other.counter.wrapping_sub(self.counter) & COUNTER_MASK;
        if !(1..=FARTHEST_GAP).contains(&missing) {
            return false;
        }
        match (&self.frames[..], other.frames.first().and_then(|first| first.kept.counts())) {
            // What its trace says: quick.
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

    /// Counter of the first frame.
    pub fn counter(&self) -> u64 {
        self.counter
    }

    pub fn is_full(&self) -> bool {
        self.frames.len() >= MAX_FRAMES
    }

    /// Whether a card has sent nothing since the first of these frames.
    pub fn is_silent(&self, card: usize) -> bool {
        self.cards.get(card).is_some_and(|activity| activity.frames == 0)
    }

    /// The card that has gone on, at least by so many frames, beside a frame alone that has a counter or
    /// counts of its own: a damaged one.
    pub fn left_behind(&self, frames: u32) -> Option<usize> {
        let used = |activity: &CardActivity| activity.near && activity.frames >= frames;
        self.cards.iter().position(used).filter(|_| self.is_alone())
    }

    /// The card whose damaged frame this is, because the card has long used its counter and counts.
    /// `all`: no more frames come, so that a report out of place can be left out, which has no accesses,
    /// if one flipped bit explains it: else many frames are missing before it.
    pub fn strayed_from(&self, all: bool) -> Option<usize> {
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

    /// Whether this is a frame alone that could be a card's, damaged.
    pub fn is_suspect(&self, card: usize) -> bool {
        self.is_alone() && self.cards.get(card).is_some_and(|activity| activity.near)
    }

    /// Whether this is a frame alone that only lacks the right counter to be a card's.
    pub fn is_misplaced(&self, card: usize) -> bool {
        self.is_alone() && self.cards.get(card).is_some_and(|activity| activity.misplaced)
    }

    /// Takes note of a frame of a card. Whether that may settle something.
    pub fn card_goes_on(&mut self, card: usize) -> bool {
        let alone = self.is_alone();
        // Cards that appeared since are not what these frames go on from.
        let activity = self.cards.get_mut(card);
        activity.is_some_and(|activity| activity.note(alone)) || self.fits_several
    }

    /// Whether all cards go on beside the frames, so that they are another one's. A frame alone is no
    /// card: anybody can send one.
    pub fn is_card(&self) -> bool {
        !self.is_alone() && self.cards.iter().all(CardActivity::is_active)
    }

    /// Of several cards that the frames could be of, the one that is: they follow its newest frame, or
    /// all others go on.
    pub fn found(&self, cards: &[Trace]) -> Option<usize> {
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

    /// Whether all these frames came before those.
    pub fn is_before(&self, other: &PendingRun) -> bool {
        let (last, first) = (self.frames.last(), other.frames.first());
        last.zip(first).is_some_and(|(last, first)| last.serial < first.serial)
    }

    /// The card that the frames seem to go on from: a silent one that could have lost frames, or the
    /// one whose counter a frame alone has, or a silent one, best that with the last frame.
    pub fn parent(&self, last: usize) -> Option<usize> {
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
