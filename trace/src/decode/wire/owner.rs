//! Finds the card, the parked trace or the pending run that a frame continues.

use hmtt_format::frame::FrameKind;

use super::Wire;
use super::pending_run::Arrival;
use crate::decode::fit::Fit;
use crate::decode::frame::Frame;
use crate::decode::sequence::WINDOW;
use crate::decode::trace::Trace;

/// The owner of a frame; numbers are indices into the wire's cards, pending runs or parked traces.
pub(super) enum Owner {
    /// A card, whose next frame it certainly is.
    Certain(usize),
    Card(usize),
    Pending(usize),
    Parked(usize),
    /// A card's session before its restart, of which the frame is a copy or late.
    Past(usize, Fit),
    /// Not known yet: other frames may confirm it.
    Unknown,
    /// No card.
    Stray,
}

impl Wire {
    /// The owner of a frame that has arrived.
    pub(super) fn owner(&self, arrival: &Arrival<'_>) -> Owner {
        let Arrival { frame, bytes, .. } = *arrival;
        let certain = |card: &usize| self.cards[*card].is_certain(frame);
        let last_first = (self.last..self.cards.len()).chain(0..self.last);
        if let Some(card) = last_first.into_iter().find(certain) {
            return Owner::Certain(card);
        }
        let fit = |trace: &Trace| trace.fit(frame, bytes);
        let card = best(self.cards.iter().map(fit));
        let run = best(self.pending.iter().map(|run| run.fit(arrival)));
        let run = run.map(|best| self.latest_near(best, arrival));
        let parked = best(self.parked.iter().map(|parked| fit(&parked.trace)));
        let is_data = frame.kind() == Some(FrameKind::Data);
        let is_beat = frame.kind() == Some(FrameKind::Heartbeat);
        match (card, run, parked) {
            // A parked trace that the frame continues exactly, by counts and clock, is preferred to
            // other owners. Counts alone do not suffice: two sessions of full frames count alike.
            (card, run, Some((Fit::Next(0), at)))
                if is_data && [card, run].iter().flatten().all(|(fit, _)| *fit > Fit::Next(0)) =>
            {
                Owner::Parked(at)
            }
            // A heartbeat has no counts: it does not confirm a frame that may be damaged.
            (Some((fit, card)), Some((_, at)), _)
                if is_beat && fit.continues() && self.pending[at].is_suspect(card) =>
            {
                Owner::Card(card)
            }
            // Nor does a frame that does not continue it exactly.
            (Some((fit, card)), Some((Fit::Near(..), at)), _)
                if fit.continues()
                    && self.pending[at].is_suspect(card)
                    && !self.pending[at].trace().counts_exactly(frame) =>
            {
                Owner::Card(card)
            }
            // The pending frame is the card's frame before this one, with a damaged counter.
            (Some((fit, card)), Some((Fit::Near(..), at)), _)
                if fit.continues() && self.pending[at].is_misplaced(card) =>
            {
                Owner::Card(card)
            }
            // A card that repeats after a restart what it did before sends frames that look like
            // copies, or like near ones by chance.
            (Some((Fit::Copy | Fit::Near(..), card)), Some((Fit::Near(missing, _), at)), _)
                if missing < WINDOW && self.pending[at].is_silent(card) =>
            {
                Owner::Pending(at)
            }
            (Some((fit, card)), run, _) if run.is_none_or(|(other, _)| fit <= other) => match fit {
                Fit::Near(..) if self.fits_several(frame, bytes) => Owner::Unknown,
                _ => Owner::Card(card),
            },
            (_, Some((_, at)), _) => Owner::Pending(at),
            (_, _, Some((fit, at))) if fit.continues() => Owner::Parked(at),
            (_, _, Some((fit, at))) => Owner::Past(self.parked.card(at).unwrap_or(self.last), fit),
            // An unreadable frame states nothing that another frame could confirm.
            _ if frame.body.is_err() && !self.cards.is_empty() => Owner::Stray,
            _ => Owner::Unknown,
        }
    }

    /// The latest pending run that the frame could continue and that arrived wholly after the best one; else the best one.
    /// Two such runs are more likely of one card that restarted twice than of two cards by chance.
    fn latest_near(&self, best: (Fit, usize), arrival: &Arrival<'_>) -> (Fit, usize) {
        if matches!(best.0, Fit::Next(_)) {
            return best;
        }
        let fits = |at: usize| Some((self.pending[at].fit(arrival)?, at));
        let later = (best.1 + 1..self.pending.len()).rev();
        later
            .filter(|at| self.pending[best.1].is_before(&self.pending[*at]))
            .find_map(fits)
            .filter(|(fit, _)| *fit != Fit::Late)
            .unwrap_or(best)
    }

    /// Whether a frame has counts, and several cards could have lost frames before it.
    fn fits_several(&self, frame: &Frame<'_>, bytes: &[u8]) -> bool {
        let near = |trace: &&Trace| matches!(trace.fit(frame, bytes), Some(Fit::Near(missing, _)) if missing < WINDOW);
        let counts = frame.body.ok().and_then(|body| body.sync()).is_some();
        counts && self.cards.iter().filter(near).count() > 1
    }
}

/// The best fit, and its index; `None` if nothing fits.
fn best(fits: impl Iterator<Item = Option<Fit>>) -> Option<(Fit, usize)> {
    fits.enumerate().filter_map(|(at, fit)| Some((fit?, at))).min()
}
