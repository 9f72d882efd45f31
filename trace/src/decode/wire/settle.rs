//! Decides which card sent the frames of each pending run, and gives the frames to that card.

use super::parked::Parked;
use super::pending_run::PendingRun;
use super::{MAX_CARDS, Wire};
use crate::decode::card_trace::CardTrace;
use crate::decode::evidence::Likeness;
use crate::decode::sink::{CardSink, Sink};

impl Wire {
    /// Settles all pending runs that can be decided.
    pub(super) fn settle_ready(&mut self, sink: &mut impl Sink) {
        loop {
            let matching = self.pending.iter().enumerate();
            let first_match =
                matching.filter_map(|(at, run)| Some((at, run.matching_card(&self.cards)?))).next();
            let stray = self.pending.iter().enumerate();
            let stray =
                stray.filter_map(|(at, run)| Some((at, run.damaged_frame_of(false)?))).next();
            let ready = |run: &PendingRun| run.is_other_card() || run.is_full();
            if let Some((at, card)) = first_match {
                let run = self.pending.remove(at);
                self.give(card, run, sink);
            } else if let Some((at, card)) = stray {
                self.stray(at, card, sink);
            } else if let Some(at) = self.pending.iter().position(ready) {
                self.settle(self.earlier_than(at), sink);
            } else {
                break;
            }
        }
    }

    /// The pending run that has to be settled before the run `at`, because the run `at` may
    /// continue it; `at` itself if there is no such run.
    pub(super) fn earlier_than(&self, at: usize) -> usize {
        let run = &self.pending[at];
        let precedes =
            |(other, earlier): (usize, &PendingRun)| other != at && earlier.may_precede(run);
        self.pending.iter().enumerate().position(precedes).unwrap_or(at)
    }

    /// Settles one pending run to make space for another: the run that is least likely a card's, or
    /// the oldest run if all may be a card's. Returns whether a card's trace may have changed.
    pub(super) fn make_space(&mut self, sink: &mut impl Sink) -> bool {
        let strays = (0..self.pending.len()).filter(|at| !self.is_believed(*at));
        let likelihood = |at: &usize| {
            let run = &self.pending[*at];
            (run.likelihood(), run.left_behind(0).is_some())
        };
        match strays.min_by_key(likelihood) {
            Some(at) => self.reject(at, sink),
            None => {
                self.settle(0, sink);
                true
            }
        }
    }

    /// Whether a pending run can be a card's. A run is taken for a card's if it is confirmed, or if
    /// a silent card could have sent it after losing a few frames. Any other run can be a card's
    /// only if there was no stray so far, if no run that is taken for a card's begins with the same
    /// counter, and in one of two cases:
    ///
    /// - Another run could follow this run soon.
    /// - Each pending run is taken for a card's, has several frames, begins a session, or has a
    ///   counter or counts that a card could use next or after a gap.
    fn is_believed(&self, at: usize) -> bool {
        let run = &self.pending[at];
        let is_a_cards = |run: &PendingRun| run.is_confirmed() || run.follows_soon(Likeness::Close);
        if is_a_cards(run) {
            return true;
        }
        let may_be = |run: &PendingRun| {
            run.is_linked()
                || run.is_session_start()
                || run.is_near()
                || run.follows_soon(Likeness::Random)
        };
        let mut others = self.pending.iter().enumerate().filter(|(other, _)| *other != at);
        let replaces = |other: &PendingRun| other.counter() == run.counter() && is_a_cards(other);
        self.stray_frames == 0
            && !others.clone().any(|(_, other)| replaces(other))
            && (others.clone().any(|(_, other)| run.leads_soon_to(other))
                || may_be(run) && others.all(|(_, other)| is_a_cards(other) || may_be(other)))
    }

    /// Drops a pending run that is no card's. Returns whether a card's trace has changed, because
    /// the run consists of damaged frames of the card.
    fn reject(&mut self, at: usize, sink: &mut impl Sink) -> bool {
        if let Some(card) = self.pending[at].left_behind(1) {
            self.stray(at, card, sink);
            return true;
        }
        let mut run = self.pending.remove(at);
        self.stray_frames += run.frames().len() as u64;
        if let Some(frame) = run.take_alone() {
            let forgotten = self.recent_strays.push(run.counter(), frame);
            forgotten.into_iter().for_each(|frame| run.use_memory(frame));
        }
        self.spare = Some(run);
        false
    }

    /// Gives a pending run to a new card, or to the card that it seems to continue.
    pub(super) fn settle(&mut self, at: usize, sink: &mut impl Sink) {
        if !self.is_believed(at) {
            self.reject(at, sink);
            return;
        }
        let run = self.pending.remove(at);
        // If there were strays, a run far ahead of the last frame of a card that has ended is not
        // that card's. Without strays it is: the trace then reports a gap, which a second card
        // would hide.
        let has_ended = |card: usize| self.stray_frames != 0 && self.cards[card].has_ended();
        let may_be = |card: &usize| !(has_ended(*card) && run.is_far_ahead(*card));
        match run.predecessor(self.last, self.stray_frames == 0).filter(may_be) {
            // The run's first counter is still expected, and the frames that wait after it confirm
            // or contradict it.
            Some(card) if run.fills_place(&self.cards[card]) => self.give(card, run, sink),
            Some(card) => {
                let was_new = self.cards[card].is_new();
                let is_unconfirmed = self.stray_frames != 0 && self.cards[card].frames() == 1;
                self.park(card, &run, sink);
                let restarts = self.cards[card].restarts();
                // One unconfirmed first frame must not make all later frames late.
                let is_restart = is_unconfirmed && !run.follows_soon(Likeness::Random);
                if is_restart || run.is_falsely_late(&self.cards[card], was_new) {
                    self.cards[card].restart(&mut CardSink(card, sink));
                }
                self.give(card, run, sink);
                if self.cards[card].restarts() != restarts {
                    self.parked.last_restarted();
                }
            }
            None if self.cards.len() < MAX_CARDS => {
                self.cards.push(CardTrace::default());
                self.give(self.cards.len() - 1, run, sink);
            }
            // All cards continue, and the number of cards is at its limit.
            None => self.stray_frames += run.frames().len() as u64,
        }
    }

    /// Drops a single pending frame that turned out to be a card's, but damaged, late or a copy.
    pub(super) fn stray(&mut self, at: usize, card: usize, sink: &mut impl Sink) {
        let run = self.pending.remove(at);
        for waiting in run.frames() {
            let sink = &mut CardSink(card, sink);
            self.cards[card].stray(&waiting.stored.arrival(), sink);
        }
    }

    /// Gives the frames of a pending run to a card. The other pending runs are then compared again
    /// with the card.
    fn give(&mut self, card: usize, run: PendingRun, sink: &mut impl Sink) {
        let Some(trace) = self.cards.get_mut(card) else { return };
        for waiting in run.frames() {
            trace.frame(&waiting.stored.arrival(), &mut CardSink(card, sink));
        }
        self.pending.iter_mut().for_each(|other| other.reconsider(card, trace, &run));
        self.spare.get_or_insert(run);
        self.last = card;
    }

    /// Parks a card's trace as it is, in case the frames that follow are another card's.
    fn park(&mut self, card: usize, run: &PendingRun, sink: &mut impl Sink) {
        let mut trace = self.cards[card].split(run.counter(), &mut CardSink(card, sink));
        self.stray_frames += trace.take_strays();
        let parked = Parked { trace, card, restarted: false, opening: run.opening() };
        self.parked.keep(parked, &mut self.cards);
    }

    /// Resumes a parked trace, because its card continues it: the frames that seemed to follow it
    /// are another card's. The trace becomes a new card. If there are already [`MAX_CARDS`] cards,
    /// the parked trace keeps its old card number, and the trace that followed the parked trace is
    /// closed.
    pub(super) fn resume_parked(&mut self, at: usize, sink: &mut impl Sink) -> usize {
        let Some(Parked { mut trace, card, .. }) = self.parked.take(at, &mut self.cards) else {
            return self.last;
        };
        if self.cards.len() < MAX_CARDS {
            self.cards.push(trace);
            let new = self.cards.len() - 1;
            self.parked.renumber(at, card, new);
            return new;
        }
        self.parked.release_after(at, card, &mut self.cards);
        self.cards[card].flush(&mut CardSink(card, sink));
        std::mem::swap(&mut self.cards[card], &mut trace);
        self.cards[card].append(trace.into_counts());
        card
    }
}
