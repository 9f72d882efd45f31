//! Keeps traces whose card seemed to restart or to lose frames, in case the frames after that are
//! another card's.
//!
//! A trace is split at such a place: the part before it is parked here, the part after it is
//! counted separately. So counts are never copied, and no count has to be subtracted if the second
//! part turns out to be another card's. Invariant: the counts of a card are the counts of its
//! parked traces, in order, plus the counts of its current trace. At most [`MAX_PARKED`] traces are
//! parked. The trace with the fewest frames is released first, so that made-up frames do not
//! displace a card.

use std::collections::VecDeque;

use hmtt_format::frame::Sync;

use crate::decode::card_trace::CardTrace;
use crate::decode::counts::Counts;

/// Maximum number of parked traces.
const MAX_PARKED: usize = 4;

/// The part of a card's trace before frames that may be another card's.
#[derive(Debug)]
pub(super) struct Parked {
    pub trace: CardTrace,
    /// Number of the card to which the frames after this part were given.
    pub card: usize,
    /// Whether the card seemed to restart; if not, it seemed to lose frames.
    pub restarted: bool,
    /// Sync of the first frame after this part.
    pub opening: Sync,
}

/// Parked traces, in the order in which they were split.
#[derive(Debug, Default)]
pub(super) struct ParkedTraces(VecDeque<Parked>);

impl ParkedTraces {
    pub fn iter(&self) -> impl Iterator<Item = &Parked> {
        self.0.iter()
    }

    /// Number of the card to which the frames after a parked trace were given.
    pub fn card(&self, at: usize) -> Option<usize> {
        self.0.get(at).map(|parked| parked.card)
    }

    /// Parks a trace. If [`MAX_PARKED`] traces are parked already, the trace with the fewest frames
    /// is released first.
    pub fn keep(&mut self, parked: Parked, cards: &mut [CardTrace]) {
        if self.0.len() >= MAX_PARKED {
            let frames = |at: &usize| self.0[*at].trace.frames();
            let least = (0..self.0.len()).min_by_key(frames).unwrap_or(0);
            self.release(least, cards);
        }
        self.0.push_back(parked);
    }

    /// Records that a restart followed the trace that was parked last.
    pub fn last_restarted(&mut self) {
        if let Some(parked) = self.0.back_mut() {
            parked.restarted = true;
        }
    }

    /// Releases a parked trace to its card: prepends its counts to the counts of the part after it.
    pub fn release(&mut self, at: usize, cards: &mut [CardTrace]) {
        let Some(Parked { trace, card, .. }) = self.0.remove(at) else { return };
        if let Some(after) = self.after(at, card, cards) {
            after.prepend_counts(trace.into_counts());
        }
    }

    pub fn release_all(&mut self, cards: &mut [CardTrace]) {
        while !self.0.is_empty() {
            self.release(0, cards);
        }
    }

    /// Removes and returns a parked trace, because the part after it is another card's.
    pub fn take(&mut self, at: usize, cards: &mut [CardTrace]) -> Option<Parked> {
        let parked = self.0.remove(at)?;
        if let Some(after) = self.after(at, parked.card, cards) {
            after.drop_predecessor(parked.restarted, parked.opening);
        }
        Some(parked)
    }

    /// Assigns the parked traces of `card` before index `at` to the card `new`.
    pub fn renumber(&mut self, at: usize, card: usize, new: usize) {
        let before = self.0.iter_mut().take(at).filter(|parked| parked.card == card);
        before.for_each(|parked| parked.card = new);
    }

    /// Releases the parked traces of a card from index `at` on.
    pub fn release_after(&mut self, at: usize, card: usize, cards: &mut [CardTrace]) {
        while let Some(next) = (at..self.0.len()).find(|next| self.0[*next].card == card) {
            self.release(next, cards);
        }
    }

    /// The counts of a card before its current trace.
    pub fn counts(&self, card: usize) -> Counts {
        let mut counts = Counts::default();
        let of_card = self.0.iter().filter(|parked| parked.card == card);
        of_card.for_each(|parked| counts.append(parked.trace.counts()));
        counts
    }

    /// The part of a card's trace that follows the parked traces before index `at`.
    fn after<'a>(
        &'a mut self,
        at: usize,
        card: usize,
        cards: &'a mut [CardTrace],
    ) -> Option<&'a mut CardTrace> {
        let later = self.0.iter_mut().skip(at).find(|parked| parked.card == card);
        later.map(|parked| &mut parked.trace).or(cards.get_mut(card))
    }
}
