//! Holds frames that continue each other but no card's trace, until it is clear whose they are.

use std::cell::OnceCell;

use hmtt_format::frame::{COUNTER_MASK, FrameKind, Sync};

use super::card_activity::{CardActivity, LONG_USED};
use super::pending_frame::PendingFrame;
use crate::decode::agreement::{Agreement, CONFIRMED};
use crate::decode::arrival::Arrival;
use crate::decode::card_trace::CardTrace;
use crate::decode::compare::Comparison;
use crate::decode::counts_after::{FrameSummary, apart};
use crate::decode::evidence::{Damage, Fit, Likeness, Reach};
use crate::decode::fingerprint::are_alike;
use crate::decode::sequence::{FARTHEST_DETOUR, FARTHEST_GAP, FIRST_FRAMES, WINDOW};

/// Most frames of a run: as many as a card may send before another frame of the same wire is late.
const MAX_FRAMES: usize = LONG_USED as usize;

/// Most unreadable frames of a run.
const MAX_UNREADABLE: usize = 8;

/// How well a frame fits a run.
#[derive(Clone, Copy, Debug)]
pub(super) struct RunFit {
    pub fit: Fit,
    /// Whether the frame states exactly the counts after the run's last frame, whatever its counter. Always `false` for a
    /// frame with [`Fit::Next`].
    pub counts_exactly: bool,
}

/// A run of frames that continue each other.
#[derive(Debug, Default)]
pub(super) struct PendingRun {
    frames: Vec<PendingFrame>,
    /// A trace of these frames alone, with which further frames are compared. It is built only when a frame arrives that is
    /// near and not exactly the next, because most strays stay single or form a short run.
    trace: OnceCell<Box<CardTrace>>,
    /// Whether each frame exactly followed the one before, so that the last frame alone determines the next.
    in_order: bool,
    /// Bits by which the frames confirm each other.
    confirmation: u32,
    /// Number of frames with counts that are no copies, less the first of them.
    links: usize,
    /// Number of frames that cannot be read.
    unreadable: usize,
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
    /// Begins a run with one frame. `compared`: the frame compared with each card; `serial`: the frame's serial number on
    /// its wire. Earlier frames of this run are forgotten; their memory is reused.
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

    /// Removes and returns the frame of a run that has only one.
    pub fn take_alone(&mut self) -> Option<PendingFrame> {
        self.is_alone().then(|| self.frames.pop())?
    }

    /// Keeps a frame whose memory the run's next first frame reuses.
    pub fn use_memory(&mut self, frame: PendingFrame) {
        self.frames.push(frame);
    }

    /// Appends a frame that continues the run. `compared`: the frame compared with each card.
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

    /// Adds the bits by which a frame and the frames with the adjacent counters confirm each other. A copy of a frame of the
    /// run confirms nothing, also with another counter.
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

    /// A measure by which runs that are not confirmed can be compared; the least likely of a card is the least.
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
            // A single frame has no frame before it that could give its place to another one.
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

    /// The result of [`CardTrace::fit`] for a frame that exactly follows the last one of a run that is in order. It needs no
    /// trace. `None` for counter 0, with which a session may begin.
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

    /// Compares the run again with a card that has been given another run, which this one may continue.
    pub fn reconsider(&mut self, card: usize, trace: &CardTrace, taken: &PendingRun) {
        let Some(compared) = self.compare_first(trace) else { return };
        let since = |at: usize| {
            let serial = self.frames.get(at).map_or(u64::MAX, |frame| frame.serial);
            taken.frames_ahead().filter(move |frame| frame.serial > serial)
        };
        let beside = |frame: &&PendingFrame| self.is_sent_after(frame.stored.counter());
        let mut activity = CardActivity::new(&compared);
        if let Some(first) = self.first_with_counts() {
            activity.note_first_counts(&trace.compare(&first.stored.arrival()));
        }
        activity.frames = since(0).count() as u32;
        activity.frames_beside = since(0).filter(beside).count() as u32;
        activity.beside_since_second = since(1).filter(beside).count() as u32;
        match self.cards.get_mut(card) {
            Some(before) => *before = activity,
            None => self.cards.push(activity),
        }
    }

    /// The frames whose counters are ahead of those of all frames before: only these show that their sender goes on.
    fn frames_ahead(&self) -> impl Iterator<Item = &PendingFrame> {
        let mut newest = None;
        self.frames.iter().filter(move |frame| {
            let counter = frame.stored.counter();
            let ahead = |newest: u64| counter.wrapping_sub(newest) & COUNTER_MASK;
            let is_ahead =
                newest.is_none_or(|newest| (1..=COUNTER_MASK / 2).contains(&ahead(newest)));
            if is_ahead {
                newest = Some(counter);
            }
            is_ahead
        })
    }

    /// The first frame, compared with a card's trace.
    fn compare_first(&self, trace: &CardTrace) -> Option<Comparison> {
        Some(trace.compare(&self.frames.first()?.stored.arrival()))
    }

    /// Whether a card's trace still expects the counter of the first frame.
    pub fn fills_place(&self, trace: &CardTrace) -> bool {
        self.compare_first(trace).is_some_and(|first| first.is_awaited())
    }

    /// Whether a card's trace would drop these frames as late although they are not from its past.
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

    /// Whether the run begins with one of the first frames of a session, with counts that a card has soon after it was
    /// switched on.
    pub fn is_session_start(&self) -> bool {
        self.counter < FIRST_FRAMES && Agreement::with_power_on(self.opening).is_close()
    }

    /// Whether some card could use the counter or the counts of the first frame next.
    pub fn is_near(&self) -> bool {
        self.cards.iter().any(CardActivity::is_near)
    }

    /// Whether a card that has sent nothing after the run began could have lost a few frames before it. `least`: how far the
    /// run must agree with that card's last frames.
    pub fn follows_soon(&self, least: Likeness) -> bool {
        self.cards.iter().any(|activity| {
            let is_like = activity.likeness >= least;
            activity.frames_beside == 0 && activity.reach == Reach::Soon && is_like
        })
    }

    /// Whether the run could be a card's only after a long gap.
    pub fn is_far_ahead(&self, card: usize) -> bool {
        self.cards.get(card).is_some_and(|activity| activity.reach == Reach::LongGap)
    }

    /// Whether another run could be of the same card as this one, with a few frames lost in between.
    pub fn leads_soon_to(&self, other: &PendingRun) -> bool {
        let first = other.first_with_counts().and_then(|first| first.stored.summary.counts());
        let own = self.frames.iter().rev().find_map(|frame| frame.stored.summary.counts());
        let is_close = |((_, end), (sync, _))| Agreement::new(end, sync).is_close();
        own.zip(first).is_some_and(is_close) && self.may_lead_to(other)
    }

    /// Whether another run could be of the same card as this one, with frames or records lost in between, however many.
    fn may_lead_to(&self, other: &PendingRun) -> bool {
        let missing = other.counter.wrapping_sub(self.counter) & COUNTER_MASK;
        if !(1..=FARTHEST_GAP).contains(&missing) {
            return false;
        }
        let Some(next) = other.first_with_counts() else { return false };
        let first = next.stored.summary.counts();
        match (self.frames.first().map(|first| first.stored.summary), first) {
            // The same result as the trace's, without building one.
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

    /// Whether the run is to be decided, although no card continues beside it.
    pub fn is_full(&self) -> bool {
        let run = self.frames.len();
        let awaits =
            |card: &CardActivity| self.begins_again(card) && card.power_on.may_be_late(run);
        run >= MAX_FRAMES + self.unreadable && !self.cards.iter().any(awaits)
    }

    /// Whether a card has sent nothing since the run began.
    pub fn is_silent(&self, card: usize) -> bool {
        self.cards.get(card).is_some_and(|activity| activity.frames == 0)
    }

    /// The card that has sent at least `frames` frames since this single frame, whose counter or counts it could have used:
    /// the frame is a damaged one of that card. `None` if there is no such card, or for a run of several frames that are no
    /// copies.
    pub fn left_behind(&self, frames: u32) -> Option<usize> {
        let used = |activity: &CardActivity| activity.is_near() && activity.frames >= frames;
        self.cards.iter().position(used).filter(|_| self.is_single())
    }

    /// The card of which this single frame is a damaged one, because the card has since used its counter and counts. `all`:
    /// no frames follow. Then a report whose counter has one flipped bit is a damaged frame, too: it holds no access, and as
    /// a card's next frame it would make many frames missing.
    pub fn damaged_frame_of(&self, all: bool) -> Option<usize> {
        if !all {
            return self.left_behind(LONG_USED);
        }
        self.left_behind(1).or_else(|| {
            let flipped = |activity: &CardActivity| activity.damage == Damage::CounterBit;
            let kind = self.frames.first()?.stored.arrival().frame.kind();
            let is_report = matches!(kind, Some(FrameKind::Info | FrameKind::End));
            self.cards.iter().position(flipped).filter(|_| self.is_single() && is_report)
        })
    }

    /// Whether this is a single frame that could be a damaged one of a card.
    pub fn is_suspect(&self, card: usize) -> bool {
        self.is_single() && self.cards.get(card).is_some_and(CardActivity::is_near)
    }

    /// Whether the sender of this run, and not the card, may have sent a heartbeat with this counter: it has no counts that would
    /// show the sender.
    pub fn may_have_sent(&self, card: usize, counter: u64) -> bool {
        let ahead = counter.wrapping_sub(self.newest) & COUNTER_MASK;
        self.is_suspect(card) || (1..=WINDOW).contains(&ahead)
    }

    /// Whether this is a single frame that could be a card's if its counter were another.
    pub fn is_misplaced(&self, card: usize) -> bool {
        self.is_single() && self.cards.get(card).is_some_and(CardActivity::is_misplaced)
    }

    /// Counts a frame of a card, with this counter. Returns whether the run may be decided now.
    pub fn note_card_frame(&mut self, card: usize, counter: u64) -> bool {
        let (run, beside) = (self.frames.len(), self.is_sent_after(counter));
        // The run cannot continue a card that appeared after it began.
        let activity = self.cards.get_mut(card);
        activity.is_some_and(|activity| activity.note(counter, run, beside)) || self.fits_several
    }

    /// Whether a frame that arrives after the run's frames was not sent before them, if its card sent them, too. Frames are
    /// put in order within [`WINDOW`] counts.
    fn is_sent_after(&self, counter: u64) -> bool {
        let before = self.counter.wrapping_sub(counter) & COUNTER_MASK;
        let behind = self.newest.wrapping_sub(counter) & COUNTER_MASK;
        !((1..WINDOW).contains(&before) && behind < WINDOW)
    }

    /// Whether all cards continue beside the run, so that it is another card's. Frames that do not confirm each other are no
    /// card: anyone can send them.
    pub fn is_other_card(&self) -> bool {
        self.is_confirmed() && self.cards.iter().all(|activity| self.is_beside(activity))
    }

    /// Whether the run begins as a card does that was switched on, and the card had counted further.
    fn begins_again(&self, activity: &CardActivity) -> bool {
        self.is_session_start() && self.counter <= activity.power_on.newest()
    }

    /// Whether a card continues beside the run, so that the run is not its own.
    fn is_beside(&self, activity: &CardActivity) -> bool {
        match self.begins_again(activity) {
            true => activity.power_on.continues(),
            false => activity.is_active(),
        }
    }

    /// The same if no more frames are awaited. `is_clean`: whether all frames on the wire are a card's.
    fn seems_beside(&self, activity: &CardActivity, is_clean: bool) -> bool {
        let run = self.frames.len();
        match self.begins_again(activity) {
            true => activity.power_on.seems_to_continue(run, activity.frames, is_clean),
            false => activity.is_active(),
        }
    }

    /// The card of the run: the one whose frames the earliest frame of the run now follows exactly, because a frame in between
    /// has arrived, or whose frames a single frame now lies between. Also, if several cards could have sent it, the only one that does not continue beside it.
    pub fn matching_card(&self, cards: &[CardTrace]) -> Option<usize> {
        let behind =
            |frame: &&PendingFrame| self.newest.wrapping_sub(frame.stored.counter()) & COUNTER_MASK;
        // Counters ahead of the newest are those of copies from long ago.
        let is_behind = |frame: &&PendingFrame| behind(frame) <= COUNTER_MASK / 2;
        let earliest = self.frames.iter().filter(is_behind).max_by_key(behind)?.stored.arrival();
        let next = |trace: &CardTrace| matches!(trace.fit(&earliest), Some(Fit::Next(_)));
        if !self.fits_several {
            let is_alone = self.is_alone();
            let follows = |trace: &CardTrace| {
                trace.compare(&earliest).follows_exactly()
                    || is_alone && trace.lies_between(&earliest)
            };
            let is_likely = self.is_alone() || self.is_confirmed();
            return is_likely.then(|| cards.iter().position(follows))?;
        }
        let mut left = self.cards.iter().enumerate().filter(|(_, card)| !self.is_beside(card));
        let reaches = |activity: &CardActivity| activity.reach != Reach::No;
        let left = left.next().filter(|(_, activity)| reaches(activity) && left.next().is_none());
        cards.iter().position(next).or(left.map(|(card, _)| card))
    }

    /// Whether all frames of this run arrived before those of another.
    pub fn is_before(&self, other: &PendingRun) -> bool {
        let (last, first) = (self.frames.last(), other.frames.first());
        last.zip(first).is_some_and(|(last, first)| last.serial < first.serial)
    }

    /// Whether another run may continue this one: this one arrived wholly before it, or its counter and its counts can follow,
    /// although copies or frames out of order arrived later.
    pub fn may_precede(&self, other: &PendingRun) -> bool {
        self.is_before(other) || self.may_lead_to(other)
    }

    /// The card that the run seems to continue. In this order: a silent card that could have lost frames; for a single
    /// frame, the card that could use its counter or counts next; the card `last` if it is silent; any silent card. `is_clean`: whether
    /// all frames on the wire are a card's.
    pub fn predecessor(&self, last: usize, is_clean: bool) -> Option<usize> {
        let is_silent = |card| !self.seems_beside(card, is_clean);
        let silent = |at: &usize| self.cards.get(*at).is_some_and(is_silent);
        let in_reach = self.cards.iter().enumerate().filter(|(_, card)| card.reach != Reach::No);
        in_reach
            .filter(|(at, _)| silent(at))
            .min_by_key(|(_, card)| (card.reach != Reach::Soon, card.frames))
            .map(|(at, _)| at)
            .or(self.cards.iter().position(|card| self.is_single() && card.is_near()))
            .or(Some(last).filter(silent))
            .or((0..self.cards.len()).find(silent))
    }
}

#[cfg(test)]
mod tests;
