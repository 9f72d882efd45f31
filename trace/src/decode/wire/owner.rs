//! A frame to the card, or the string of frames that wait, that it goes on from.

use hmtt_format::frame::FrameKind;

use super::Wire;
use super::pending_run::Arrival;
use crate::decode::fit::Fit;
use crate::decode::frame::Frame;
use crate::decode::sequence::WINDOW;
use crate::decode::trace::Trace;

/// Who a frame belongs to.
pub(super) enum Owner {
    /// A card, whose next frame it is without any doubt.
    Certain(usize),
    Card(usize),
    Pending(usize),
    Parked(usize),
    /// A copy of, or late for, what came before a card's restart.
    Past(usize, Fit),
    /// Unknown's so far: others may confirm it.
    Unknown,
    /// Unknown's.
    Stray,
}

impl Wire {
    /// Whose frame it is.
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
            // Before it a card that only seemed to be another; not by counts alone, since two sessions
            // of full frames count alike, but by the clock too.
            (card, run, Some((Fit::Next(0), at)))
                if is_data && [card, run].iter().flatten().all(|(fit, _)| *fit > Fit::Next(0)) =>
            {
                Owner::Parked(at)
            }
            // A heartbeat counts nothing: it does not speak for a frame that may be damaged.
            (Some((fit, card)), Some((_, at)), _)
                if is_beat && fit.continues() && self.pending[at].is_suspect(card) =>
            {
                Owner::Card(card)
            }
            // Nor does a frame that does not go on exactly from it.
            (Some((fit, card)), Some((Fit::Near(..), at)), _)
                if fit.continues()
                    && self.pending[at].is_suspect(card)
                    && !self.pending[at].trace().counts_exactly(frame) =>
            {
                Owner::Card(card)
            }
            // Its own frame before has a damaged counter.
            (Some((fit, card)), Some((Fit::Near(..), at)), _)
                if fit.continues() && self.pending[at].is_misplaced(card) =>
            {
                Owner::Card(card)
            }
            // A card that does again what it did before its restart sends what looks like copies, and
            // what could be near by chance.
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
            // It says nothing that another frame could confirm.
            _ if frame.body.is_err() && !self.cards.is_empty() => Owner::Stray,
            _ => Owner::Unknown,
        }
    }

    /// Of strings that wait and could be followed by a frame, the latest that came wholly after the
    /// best: more likely the same card once more than two by chance.
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

    /// Whether several cards could have lost frames before this one, which says what it counts.
    fn fits_several(&self, frame: &Frame<'_>, bytes: &[u8]) -> bool {
        let near = |trace: &&Trace| matches!(trace.fit(frame, bytes), Some(Fit::Near(missing, _)) if missing < WINDOW);
        let counts = frame.body.ok().and_then(|body| body.sync()).is_some();
        counts && self.cards.iter().filter(near).count() > 1
    }
}

/// The best of what fits, and whose it is.
fn best(fits: impl Iterator<Item = Option<Fit>>) -> Option<(Fit, usize)> {
    fits.enumerate().filter_map(|(at, fit)| Some((fit?, at))).min()
}
