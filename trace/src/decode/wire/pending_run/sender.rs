//! Decides whether a pending run continues a card (after a gap, after a restart, or as a damaged
//! frame of the card) or is another card's.
//!
//! Uses what each card has sent since the run began ([`CardActivity`]). `settle` acts on the
//! answers.

use hmtt_format::frame::{COUNTER_MASK, FrameKind};

use super::{MAX_FRAMES, PendingFrame, PendingRun};
use crate::decode::card_trace::CardTrace;
use crate::decode::evidence::{Damage, Fit, Likeness, Reach};
use crate::decode::sequence::WINDOW;
use crate::decode::wire::card_activity::{CardActivity, LONG_USED};

impl PendingRun {
    /// Compares this run again with a card to which `other_run` was given. This run may continue
    /// `other_run`.
    pub fn reconsider(&mut self, card: usize, trace: &CardTrace, other_run: &PendingRun) {
        let Some(compared) = self.compare_first(trace) else { return };
        let since = |at: usize| {
            let serial = self.frames.get(at).map_or(u64::MAX, |frame| frame.serial);
            other_run.frames_ahead().filter(move |frame| frame.serial > serial)
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

    /// The frames whose counters are ahead of the counters of all earlier frames. Only these frames
    /// show that their sender still sends.
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

    /// Whether some card could use the counter or the counts of the first frame next.
    pub fn is_near(&self) -> bool {
        self.cards.iter().any(CardActivity::is_near)
    }

    /// Whether the run could continue a card that has been silent since the run began, with a few
    /// frames lost before the run. `least`: minimum agreement of the run with the card's last
    /// frames.
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

    /// Whether the run has so many frames that it is decided even if no card sends beside it.
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

    /// The card that could have used this single frame's counter or counts next and has sent at
    /// least `frames` frames since. The single frame is then a damaged frame of that card. `None`
    /// if there is no such card, and for a run of several frames that are no copies.
    pub fn left_behind(&self, frames: u32) -> Option<usize> {
        let used = |activity: &CardActivity| activity.is_near() && activity.frames >= frames;
        self.cards.iter().position(used).filter(|_| self.is_single())
    }

    /// The card that sent this single frame damaged: the card could have used the frame's counter
    /// or counts next, and has sent other frames since. `is_final`: no more frames follow. In this
    /// case a report whose counter has one flipped bit is a damaged frame, too: it holds no access,
    /// and as a card's next frame it would make many frames missing.
    pub fn damaged_frame_of(&self, is_final: bool) -> Option<usize> {
        if !is_final {
            return self.left_behind(LONG_USED);
        }
        self.left_behind(1).or_else(|| {
            let flipped = |activity: &CardActivity| activity.damage == Damage::CounterBit;
            let kind = self.frames.first()?.stored.arrival().frame.kind();
            let is_report = matches!(kind, Some(FrameKind::Info | FrameKind::End));
            self.cards.iter().position(flipped).filter(|_| self.is_single() && is_report)
        })
    }

    /// Whether this is a single frame that could be a damaged frame of a card.
    pub fn is_suspect(&self, card: usize) -> bool {
        self.is_single() && self.cards.get(card).is_some_and(CardActivity::is_near)
    }

    /// Whether the sender of this run, and not the card, may have sent a heartbeat with this
    /// counter. A heartbeat has no counts that would show its sender.
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

    /// Whether a frame with this counter, which arrives after the run's frames, was also sent after
    /// them, if one card sent this frame and the run. `false` if the counter is less than
    /// [`WINDOW`] counts before the counter of the run's first frame, and less than [`WINDOW`]
    /// counts behind the run's newest counter: frames are put in order within [`WINDOW`] counts, so
    /// this frame may only be late.
    fn is_sent_after(&self, counter: u64) -> bool {
        let before = self.counter.wrapping_sub(counter) & COUNTER_MASK;
        let behind = self.newest.wrapping_sub(counter) & COUNTER_MASK;
        !((1..WINDOW).contains(&before) && behind < WINDOW)
    }

    /// Whether the run is confirmed and all cards send beside it, so that it is another card's.
    /// Frames that do not confirm each other are no card's: anyone can send them.
    pub fn is_other_card(&self) -> bool {
        self.is_confirmed() && self.cards.iter().all(|activity| self.is_beside(activity))
    }

    /// Whether the run begins like a card that was just switched on, at a counter that the card had
    /// already used.
    fn begins_again(&self, activity: &CardActivity) -> bool {
        self.is_session_start() && self.counter <= activity.power_on.newest()
    }

    /// Whether a card still sends beside the run, so that the run is not the card's.
    fn is_beside(&self, activity: &CardActivity) -> bool {
        if self.begins_again(activity) {
            activity.power_on.continues()
        } else {
            activity.is_active()
        }
    }

    /// Does the same as `is_beside`, if no more frames are awaited. `is_clean`: whether all frames
    /// on the wire are a card's.
    fn seems_beside(&self, activity: &CardActivity, is_clean: bool) -> bool {
        let run = self.frames.len();
        if self.begins_again(activity) {
            activity.power_on.seems_to_continue(run, activity.frames, is_clean)
        } else {
            activity.is_active()
        }
    }

    /// The card that sent the run, if frames that arrived later have shown the card. Either the
    /// earliest frame of the run now exactly follows the card's frames, because a frame in between
    /// has arrived; or the run is a single frame that now lies between two frames of the card. If
    /// several cards could have sent the run, the second case is another one: the card is the only
    /// card that does not send beside the run, and the run could be the card's after a gap.
    pub fn matching_card(&self, cards: &[CardTrace]) -> Option<usize> {
        let behind =
            |frame: &&PendingFrame| self.newest.wrapping_sub(frame.stored.counter()) & COUNTER_MASK;
        // Frames with counters ahead of the newest are copies from long ago.
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

    /// The card that the run seems to continue. The candidates, in this order: a silent card that
    /// could have lost frames; for a single frame, the card that could use its counter or counts
    /// next; the card `last` if it is silent; any silent card. `is_clean`: whether all frames on
    /// the wire are a card's.
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
