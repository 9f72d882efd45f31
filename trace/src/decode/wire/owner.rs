//! Finds the card, the parked trace or the pending run that a frame continues.
//!
//! ```text
//! frame, cards         -> Comparison of each (compare, evidence) -> the best of each, as Claims -> OWNER -> Owner
//! frame, runs, parked  -> fit of each                            /
//! ```

#[cfg(test)]
mod tests;

use hmtt_format::frame::FrameKind;

use super::Wire;
use super::pending_run::RunFit;
use crate::decode::arrival::Arrival;
use crate::decode::card_trace::CardTrace;
use crate::decode::compare::Comparison;
use crate::decode::evidence::{Fit, listed};
use crate::decode::rules::{Rule, Table};
use crate::decode::sequence::WINDOW;

/// The owner of a frame; numbers are indices into the wire's cards, pending runs or parked traces.
#[derive(Debug)]
pub(super) enum Owner {
    /// A card; the frame is certainly the card's next frame.
    Certain(usize),
    Card(usize),
    Pending(usize),
    Parked(usize),
    /// An earlier session of a card, before its restart; the frame is a copy or a late frame of
    /// that session.
    Past(usize, Fit),
    /// The owner is not known yet: other frames may confirm this frame.
    Unknown,
    /// No card sent the frame, as far as the wire shows.
    Stray,
}

listed! {
    /// How well the frame fits the best card, the best pending run or the best parked trace.
    Claim {
        /// The frame fits no claimant.
        No,
        Late,
        /// [`Fit::Near`], but at a distance of [`WINDOW`] frames or more: there was nothing to
        /// compare the frame with.
        Doubtful,
        Near,
        Copy,
        Next,
        /// [`Fit::Next`], and the clock is exactly the clock after the previous frame.
        NextClock,
    }
}

impl Claim {
    fn new(fit: Option<Fit>) -> Claim {
        match fit {
            None => Claim::No,
            Some(Fit::Next(0)) => Claim::NextClock,
            Some(Fit::Next(_)) => Claim::Next,
            Some(Fit::Copy) => Claim::Copy,
            Some(Fit::Near(missing, _)) if missing < WINDOW => Claim::Near,
            Some(Fit::Near(..)) => Claim::Doubtful,
            Some(Fit::Late) => Claim::Late,
        }
    }

    /// Whether the frame may continue the claimant; copies and late frames do not.
    fn continues(self) -> bool {
        matches!(self, Claim::Doubtful | Claim::Near | Claim::Next | Claim::NextClock)
    }

    fn is_near(self) -> bool {
        matches!(self, Claim::Doubtful | Claim::Near)
    }
}

listed! {
    /// Content of the frame. The choice of the owner distinguishes these four kinds.
    Content { Data, Report, Heartbeat, Unreadable, }
}

listed! {
    /// How the best pending run relates to the best card.
    Run {
        /// Several frames, or a frame that is not near the card.
        Apart,
        /// A single frame that could be a damaged frame of the card.
        Suspect,
        /// A single frame that could be the card's if its counter were another.
        Misplaced,
    }
}

/// The facts that decide about a frame that is not certainly a card's next frame. The best card,
/// run and parked trace are the ones that the frame fits best.
#[derive(Clone, Copy, Debug)]
pub(super) struct Claims {
    card: Claim,
    run: Claim,
    parked: Claim,
    content: Content,
    /// Whether the frame fits the best card at least as well as the best run.
    is_card_first: bool,
    /// Relation of the best run to the best card.
    run_is: Run,
    /// Whether the best card has sent nothing since the best run began.
    is_silent: bool,
    /// Whether the frame states exactly the counts after the last frame of the best run.
    run_counts_exactly: bool,
    /// Whether the frame has counts, and several cards could have lost frames before it.
    fits_several: bool,
    any_card: bool,
}

impl Claims {
    fn prefers_card(&self) -> bool {
        self.card != Claim::No && (self.run == Claim::No || self.is_card_first)
    }
}

/// The kind of claimant to which a frame is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Choice {
    Parked,
    Card,
    Pending,
    Past,
    Unknown,
    Stray,
}

/// Decides who owns a frame.
pub(super) const OWNER: Table<Claims, Choice> = Table {
    rules: &[
        Rule {
            // Counts alone do not suffice: two sessions of full frames count alike.
            because: "only the parked trace is continued exactly, by counts and clock",
            when: |c| {
                c.content == Content::Data
                    && c.parked == Claim::NextClock
                    && c.card != Claim::NextClock
                    && c.run != Claim::NextClock
            },
            then: Choice::Parked,
        },
        Rule {
            because: "a heartbeat has no counts: it does not confirm a frame that may be damaged",
            when: |c| {
                c.content == Content::Heartbeat
                    && c.card.continues()
                    && c.run != Claim::No
                    && c.run_is != Run::Apart
            },
            then: Choice::Card,
        },
        Rule {
            because: "a frame confirms one that may be damaged only if it continues it exactly",
            when: |c| {
                c.card.continues()
                    && c.run.is_near()
                    && c.run_is != Run::Apart
                    && !c.run_counts_exactly
            },
            then: Choice::Card,
        },
        Rule {
            because: "the run is the card's frame before this one, with a damaged counter",
            when: |c| c.card.continues() && c.run.is_near() && c.run_is == Run::Misplaced,
            then: Choice::Card,
        },
        Rule {
            // The frames after the restart then look like copies, or by chance like near frames.
            because: "the card may repeat after a restart what it did before",
            when: |c| {
                (c.card.is_near() || c.card == Claim::Copy) && c.run == Claim::Near && c.is_silent
            },
            then: Choice::Pending,
        },
        Rule {
            because: "several cards could have lost frames before it, and none is continued exactly",
            when: |c| c.prefers_card() && c.card.is_near() && c.fits_several,
            then: Choice::Unknown,
        },
        Rule {
            because: "it fits a card at least as well as a run",
            when: Claims::prefers_card,
            then: Choice::Card,
        },
        Rule {
            because: "it fits a run better than a card",
            when: |c| c.run != Claim::No,
            then: Choice::Pending,
        },
        Rule {
            because: "an unreadable frame states nothing that another frame could confirm",
            when: |c| c.content == Content::Unreadable && c.any_card,
            then: Choice::Stray,
        },
        Rule {
            because: "it continues a parked trace",
            when: |c| c.parked.continues(),
            then: Choice::Parked,
        },
        Rule {
            because: "it is a copy, or late, in a parked trace",
            when: |c| c.parked != Claim::No,
            then: Choice::Past,
        },
    ],
    otherwise: Choice::Unknown,
};

impl Wire {
    /// The owner of a frame that has arrived. If the frame is not certainly a card's next frame,
    /// `compared` is set to the comparison of the frame with each card.
    pub(super) fn owner(&self, arrival: &Arrival<'_>, compared: &mut Vec<Comparison>) -> Owner {
        let certain = |card: &usize| self.cards[*card].is_certain(&arrival.frame);
        let last_first = (self.last..self.cards.len()).chain(0..self.last);
        if let Some(card) = last_first.into_iter().find(certain) {
            return Owner::Certain(card);
        }
        self.compare(arrival, compared);
        let card = best(compared.iter().map(|card| card.fit), |fit| *fit);
        let run = best(self.pending.iter().map(|run| run.fit(arrival)), |run| run.fit);
        let run = run.map(|best| self.latest_near(best, arrival));
        let parked = best(self.parked.iter().map(|run| run.trace.fit(arrival)), |fit| *fit);
        let claims = Claims {
            card: Claim::new(card.map(|(fit, _)| fit)),
            run: Claim::new(run.map(|(run, _)| run.fit)),
            parked: Claim::new(parked.map(|(fit, _)| fit)),
            content: content(arrival),
            is_card_first: card.map(|(fit, _)| fit) <= run.map(|(run, _)| run.fit),
            run_is: card.zip(run).map_or(Run::Apart, |((_, card), (_, at))| self.run_is(at, card)),
            is_silent: card
                .zip(run)
                .is_some_and(|((_, card), (_, at))| self.pending[at].is_silent(card)),
            run_counts_exactly: run.is_some_and(|(run, _)| run.counts_exactly),
            fits_several: fits_several(arrival, compared),
            any_card: !self.cards.is_empty(),
        };
        match (OWNER.decide(&claims), card, run, parked) {
            (Choice::Card, Some((_, card)), ..) => Owner::Card(card),
            (Choice::Pending, _, Some((_, at)), _) => Owner::Pending(at),
            (Choice::Parked, .., Some((_, at))) => Owner::Parked(at),
            (Choice::Past, .., Some((fit, at))) => {
                Owner::Past(self.parked.card(at).unwrap_or(self.last), fit)
            }
            (Choice::Stray, ..) => Owner::Stray,
            _ => Owner::Unknown,
        }
    }

    /// Compares a frame with all cards, and stores the comparisons in `compared`, by card number.
    pub(super) fn compare(&self, arrival: &Arrival<'_>, compared: &mut Vec<Comparison>) {
        compared.clear();
        compared.extend(self.cards.iter().map(|trace: &CardTrace| trace.compare(arrival)));
    }

    fn run_is(&self, at: usize, card: usize) -> Run {
        let run = &self.pending[at];
        match (run.is_misplaced(card), run.is_suspect(card)) {
            (true, _) => Run::Misplaced,
            (false, true) => Run::Suspect,
            (false, false) => Run::Apart,
        }
    }

    /// The latest pending run that the frame could continue and that arrived wholly after the best
    /// run; else the best run. It is more likely that two such runs are from one card that
    /// restarted twice than that they are from two cards.
    fn latest_near(&self, best: (RunFit, usize), arrival: &Arrival<'_>) -> (RunFit, usize) {
        if matches!(best.0.fit, Fit::Next(_)) {
            return best;
        }
        let fits = |at: usize| Some((self.pending[at].fit(arrival)?, at));
        let later = (best.1 + 1..self.pending.len()).rev();
        later
            .filter(|at| self.pending[best.1].is_before(&self.pending[*at]))
            .find_map(fits)
            .filter(|(run, _)| run.fit != Fit::Late)
            .unwrap_or(best)
    }
}

fn content(arrival: &Arrival<'_>) -> Content {
    match arrival.frame.kind() {
        Some(FrameKind::Data) => Content::Data,
        Some(FrameKind::Info | FrameKind::End) => Content::Report,
        Some(FrameKind::Heartbeat) => Content::Heartbeat,
        None => Content::Unreadable,
    }
}

/// Whether a frame has counts, and several cards could have lost frames before it.
fn fits_several(arrival: &Arrival<'_>, compared: &[Comparison]) -> bool {
    let near = compared.iter().filter(|card| Claim::new(card.fit) == Claim::Near);
    arrival.frame.sync().is_some() && near.count() > 1
}

/// The best fit and its index, or the first of several equal fits; `None` if nothing fits.
fn best<F>(fits: impl Iterator<Item = Option<F>>, fit_of: fn(&F) -> Fit) -> Option<(F, usize)> {
    fits.enumerate().filter_map(|(at, fit)| Some((fit?, at))).min_by_key(|(fit, _)| fit_of(fit))
}
