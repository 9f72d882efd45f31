//! Traces kept in case the card that seemed to go on from them was another one.
//!
//! A trace is parted at such a place: what came before it is kept here, what comes after it is counted
//! apart. So nothing is copied, whatever the trace has counted, and nothing need be subtracted if the
//! card turns out to be another one. Invariant: the counts of a card are those of its kept traces, in
//! order, and of its own. Which traces are given up first: those of the fewest frames, so that frames
//! made up at random do not displace a card.

use std::collections::VecDeque;

use hmtt_format::frame::Sync;

use crate::decode::counts::Counts;
use crate::decode::trace::Trace;

/// Most traces kept.
const MAX_PARKED: usize = 4;

/// A trace as it was before frames went on from it that may be another card's.
#[derive(Debug)]
pub(super) struct Parked {
    pub trace: Trace,
    /// The card that went on as.
    pub card: usize,
    /// It seemed to restart; if not, to lose frames.
    pub restarted: bool,
    /// What the first frame after it says of what was before.
    pub opening: Sync,
}

/// Traces kept, those that were parted first in front.
#[derive(Debug, Default)]
pub(super) struct ParkedTraces(VecDeque<Parked>);

impl ParkedTraces {
    pub fn iter(&self) -> impl Iterator<Item = &Parked> {
        self.0.iter()
    }

    /// The card that went on from a trace.
    pub fn card(&self, at: usize) -> Option<usize> {
        self.0.get(at).map(|parked| parked.card)
    }

    /// Keeps a trace; another one is given up for it if there are too many.
    pub fn keep(&mut self, parked: Parked, cards: &mut [Trace]) {
        if self.0.len() >= MAX_PARKED {
            let frames = |at: &usize| self.0[*at].trace.frames();
            let least = (0..self.0.len()).min_by_key(frames).unwrap_or(0);
            self.give_up(least, cards);
        }
        self.0.push_back(parked);
    }

    /// What was kept last was followed by a restart.
    pub fn last_restarted(&mut self) {
        if let Some(parked) = self.0.back_mut() {
            parked.restarted = true;
        }
    }

    /// A trace was its card's: it counts for what came after it.
    pub fn give_up(&mut self, at: usize, cards: &mut [Trace]) {
        let Some(Parked { trace, card, .. }) = self.0.remove(at) else { return };
        if let Some(after) = self.after(at, card, cards) {
            after.prepend_counts(trace.into_counts());
        }
    }

    pub fn give_up_all(&mut self, cards: &mut [Trace]) {
        while !self.0.is_empty() {
            self.give_up(0, cards);
        }
    }

    /// Takes out a trace that was another card's than what came after it.
    pub fn take(&mut self, at: usize, cards: &mut [Trace]) -> Option<Parked> {
        let parked = self.0.remove(at)?;
        if let Some(after) = self.after(at, parked.card, cards) {
            after.drop_predecessor(parked.restarted, parked.opening);
        }
        Some(parked)
    }

    /// The traces before `at` that were of a card are of another one.
    pub fn renumber(&mut self, at: usize, card: usize, new: usize) {
        let before = self.0.iter_mut().take(at).filter(|parked| parked.card == card);
        before.for_each(|parked| parked.card = new);
    }

    /// Gives up the traces from `at` on that are a card's.
    pub fn give_up_after(&mut self, at: usize, card: usize, cards: &mut [Trace]) {
        while let Some(next) = (at..self.0.len()).find(|next| self.0[*next].card == card) {
            self.give_up(next, cards);
        }
    }

    /// What a card had counted when its present trace began.
    pub fn counts(&self, card: usize) -> Counts {
        let mut counts = Counts::default();
        let of_card = self.0.iter().filter(|parked| parked.card == card);
        of_card.for_each(|parked| counts.append(parked.trace.counts_so_far()));
        counts
    }

    /// What a card's trace went on as.
    fn after<'a>(
        &'a mut self,
        at: usize,
        card: usize,
        cards: &'a mut [Trace],
    ) -> Option<&'a mut Trace> {
        let later = self.0.iter_mut().skip(at).find(|parked| parked.card == card);
        later.map(|parked| &mut parked.trace).or(cards.get_mut(card))
    }
}
