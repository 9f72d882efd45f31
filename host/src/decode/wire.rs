//! The frames of one wire to the traces of the cards on it.
//!
//! Frames carry no card's name. A frame belongs to the card whose counter and counts it goes on from
//! ([`super::fit`]). One that goes on from none is held, with those that follow it, until it shows
//! whether it is of a second card (the first one goes on meanwhile) or of the same card after a restart
//! or a long gap (it does not). Invariants: every frame of a card gets into exactly one trace; with one
//! card on the wire that trace has what [`Trace`] alone makes of the frames; memory is bounded.

mod held;
mod sink;

use std::collections::VecDeque;

use hmtt_format::Report;
use hmtt_format::frame::{FrameKind, Sync};

use super::fit::Fit;
use super::frame::{Frame, Origin};
use super::item::Item;
use super::trace::Trace;
use held::Held;
use sink::OfCard;
pub use sink::{CardSink, WireCounts};
pub(super) use sink::{Counted, Items};

/// Most cards on one wire.
pub const MAX_CARDS: usize = 16;
/// Most strings of frames that wait for their card to show.
const MAX_HELD: usize = 8;
/// Most traces kept in case the card that seemed to restart was another one.
const MAX_PARKED: usize = 4;

/// A trace as it was before frames went on from it that may be another card's.
#[derive(Debug)]
struct Parked {
    trace: Trace,
    /// The card that went on as.
    card: usize,
    /// It seemed to restart; if not, to lose frames.
    restarted: bool,
    /// What the first frame after it says of what was before.
    opening: Sync,
}

/// Who a frame belongs to.
enum Owner {
    Card(usize),
    Held(usize),
    Parked(usize),
    /// A copy of, or late for, what came before a card's restart.
    Past(usize, Fit),
    Nobody,
}

/// Tells the cards on a wire apart and decodes the frames of each.
#[derive(Debug, Default)]
pub struct Wire {
    cards: Vec<Trace>,
    held: Vec<Held>,
    parked: VecDeque<Parked>,
    /// The card of the last frame.
    last: usize,
    /// Frames of cards so far.
    frames: u64,
    foreign: u64,
    ends: u64,
    /// What the card said before the capture, until its first frame.
    earlier: Option<Box<Report>>,
}

impl Wire {
    /// Says what the card on this wire reported before its first frame here.
    pub fn go_on_from(&mut self, report: Report) {
        self.earlier = Some(Box::new(report));
    }

    /// Takes the next captured frame; items go to `sink` with the number of their card.
    pub fn push(&mut self, origin: Origin, bytes: &[u8], sink: &mut impl FnMut(usize, Item)) {
        self.push_to(origin, bytes, &mut Items(sink));
    }

    /// Takes the next captured frame and counts its records; what else it has goes to `sink`. End with
    /// [`Wire::finish_counted`].
    pub fn count(&mut self, origin: Origin, bytes: &[u8], sink: &mut impl FnMut(usize, Item)) {
        self.push_to(origin, bytes, &mut Counted(sink));
    }

    /// Takes the next captured frame; the sink says how it wants what is in it.
    pub fn push_to(&mut self, origin: Origin, bytes: &[u8], sink: &mut impl CardSink) {
        let Some(frame) = Frame::parse(bytes) else {
            self.foreign += 1;
            return;
        };
        self.frames += 1;
        self.ends += u64::from(frame.kind() == Some(FrameKind::End));
        match self.owner(&frame, bytes) {
            Owner::Card(card) => self.take(card, origin, bytes, &frame, sink),
            Owner::Held(at) => {
                self.held[at].push(origin, bytes, &frame, self.frames);
                self.decide(sink);
            }
            Owner::Parked(at) => {
                let card = self.revive(at);
                self.take(card, origin, bytes, &frame, sink);
            }
            Owner::Past(card, fit) => self.cards[card].note_past(bytes, fit == Fit::Copy),
            Owner::Nobody => self.hold(origin, bytes, &frame, sink),
        }
    }

    /// Cards so far. A frame that waits for its card to show is in none.
    pub fn cards(&self) -> &[Trace] {
        &self.cards
    }

    /// Whether every card has said that its capture ended. Frames that wait may be a card's next
    /// session, which then has to end, too.
    pub fn has_ended(&self) -> bool {
        let cards = !self.held.is_empty() || self.cards.iter().all(Trace::has_ended);
        cards && self.ends != 0 && self.held.iter().all(|held| held.trace().has_ended())
    }

    /// End frames so far, of all cards, those that wait included.
    pub fn ends(&self) -> u64 {
        self.ends
    }

    /// The counts so far, of each card; frames that wait are in none.
    pub fn counted(&self) -> WireCounts {
        let cards = self.cards.iter().map(Trace::counts_so_far).collect();
        WireCounts { cards, foreign: self.foreign }
    }

    /// Decodes what still waits and closes all traces; the counts of each card come back.
    pub fn finish(self, sink: &mut impl FnMut(usize, Item)) -> WireCounts {
        self.finish_to(&mut Items(sink))
    }

    /// As [`Wire::finish`], without events.
    pub fn finish_counted(self, sink: &mut impl FnMut(usize, Item)) -> WireCounts {
        self.finish_to(&mut Counted(sink))
    }

    /// As [`Wire::finish`]; the sink says how it wants what is in the frames.
    pub fn finish_to(mut self, sink: &mut impl CardSink) -> WireCounts {
        while !self.held.is_empty() {
            self.settle(0, sink);
        }
        let numbered = self.cards.into_iter().enumerate();
        let cards = numbered.map(|(card, trace)| trace.finish_to(&mut OfCard(card, sink)));
        WireCounts { cards: cards.collect(), foreign: self.foreign }
    }

    /// Whose frame it is.
    fn owner(&self, frame: &Frame<'_>, bytes: &[u8]) -> Owner {
        let certain = |card: &usize| self.cards[*card].is_certain(frame);
        let last_first = (self.last..self.cards.len()).chain(0..self.last);
        if let Some(card) = last_first.into_iter().find(certain) {
            return Owner::Card(card);
        }
        let best = |traces: &mut dyn Iterator<Item = &Trace>| {
            traces.enumerate().filter_map(|(at, t)| Some((t.fit(frame, bytes)?, at))).min()
        };
        let card = best(&mut self.cards.iter());
        let held = best(&mut self.held.iter().map(Held::trace));
        let held = held.map(|best| self.latest_near(best, frame, bytes));
        let parked = best(&mut self.parked.iter().map(|parked| &parked.trace));
        let is_data = frame.kind() == Some(FrameKind::Data);
        match (card, held, parked) {
            // Before it a card that only seemed to be another; not by counts alone, since two sessions
            // of full frames count alike, but by the clock too.
            (card, held, Some((Fit::Next(0), at)))
                if is_data && [card, held].iter().flatten().all(|(fit, _)| *fit > Fit::Next(0)) =>
            {
                Owner::Parked(at)
            }
            // A card that does again what it did before its restart sends what looks like copies, and
            // what could be near by chance.
            (Some((Fit::Copy | Fit::Near(..), card)), Some((Fit::Near(..), at)), _)
                if self.held[at].is_silent(card) =>
            {
                Owner::Held(at)
            }
            (Some((fit, card)), held, _) if held.is_none_or(|(other, _)| fit <= other) => match fit
            {
                Fit::Near(..) if self.fits_several(frame, bytes) => Owner::Nobody,
                _ => Owner::Card(card),
            },
            (_, Some((_, at)), _) => Owner::Held(at),
            (_, _, Some((fit, at))) if fit.goes_on() => Owner::Parked(at),
            (_, _, Some((fit, at))) => Owner::Past(self.parked[at].card, fit),
            _ if frame.body.is_err() && !self.cards.is_empty() => Owner::Card(self.last),
            _ => Owner::Nobody,
        }
    }

    /// Of strings that wait and could be followed by a frame, the latest that came wholly after the
    /// best: more likely the same card once more than two by chance.
    fn latest_near(&self, best: (Fit, usize), frame: &Frame<'_>, bytes: &[u8]) -> (Fit, usize) {
        if matches!(best.0, Fit::Next(_)) {
            return best;
        }
        let fits = |at: usize| Some((self.held[at].trace().fit(frame, bytes)?, at));
        let later = (best.1 + 1..self.held.len()).rev();
        later
            .filter(|at| self.held[best.1].is_before(&self.held[*at]))
            .find_map(fits)
            .filter(|(fit, _)| *fit != Fit::Late)
            .unwrap_or(best)
    }

    /// Whether several cards could have lost frames before this one, which says what it counts.
    fn fits_several(&self, frame: &Frame<'_>, bytes: &[u8]) -> bool {
        let near = |trace: &&Trace| matches!(trace.fit(frame, bytes), Some(Fit::Near(..)));
        let counts = frame.body.ok().and_then(|body| body.sync()).is_some();
        counts && self.cards.iter().filter(near).count() > 1
    }

    /// Gives a frame to its card, and sees what that says of the frames that wait.
    fn take(
        &mut self,
        card: usize,
        origin: Origin,
        bytes: &[u8],
        frame: &Frame<'_>,
        sink: &mut impl CardSink,
    ) {
        let Some(trace) = self.cards.get_mut(card) else { return };
        if !self.held.is_empty() && trace.fit(frame, bytes).is_some_and(Fit::goes_on) {
            self.held.iter_mut().for_each(|held| held.card_goes_on(card));
        }
        trace.frame(origin, bytes, frame, &mut OfCard(card, sink));
        self.last = card;
        if !self.held.is_empty() {
            self.decide(sink);
        }
    }

    /// Takes a frame that goes on from no other.
    fn hold(&mut self, origin: Origin, bytes: &[u8], frame: &Frame<'_>, sink: &mut impl CardSink) {
        if self.cards.is_empty() {
            let mut trace = Trace::default();
            if let Some(report) = self.earlier.take() {
                trace.go_on_from(report, &mut OfCard(0, sink));
            }
            self.cards.push(trace);
            return self.take(0, origin, bytes, frame, sink);
        }
        if self.held.len() >= MAX_HELD {
            self.settle(0, sink);
        }
        self.held.push(Held::new(&self.cards, origin, bytes, frame, self.frames));
        self.decide(sink);
    }

    /// Settles what can be.
    fn decide(&mut self, sink: &mut impl CardSink) {
        loop {
            let found = self.held.iter().enumerate();
            let found = found.filter_map(|(at, held)| Some((at, held.found(&self.cards)?))).next();
            let ready = |held: &Held| held.is_card() || held.is_full() || held.is_stray();
            if let Some((at, card)) = found {
                let held = self.held.remove(at);
                self.give(card, held, sink);
            } else if let Some(at) = self.held.iter().position(ready) {
                // What came wholly before it, it may go on from.
                let before = |held: &Held| held.is_before(&self.held[at]);
                self.settle(self.held.iter().position(before).unwrap_or(at), sink);
            } else {
                break;
            }
        }
    }

    /// Gives frames that wait to a card of their own, or to the one that they seem to go on from.
    fn settle(&mut self, at: usize, sink: &mut impl CardSink) {
        let held = self.held.remove(at);
        match held.parent(self.last) {
            Some(card) if held.is_stray() => self.give(card, held, sink),
            Some(card) => {
                self.park(card, &held, sink);
                let restarts = self.cards[card].restarts();
                self.give(card, held, sink);
                let restarted = self.cards[card].restarts() != restarts;
                if let Some(parked) = self.parked.back_mut() {
                    parked.restarted = restarted;
                }
            }
            None if self.cards.len() < MAX_CARDS => {
                self.cards.push(Trace::default());
                self.give(self.cards.len() - 1, held, sink);
            }
            None => self.give(self.last, held, sink),
        }
    }

    /// Gives frames that waited to a card.
    fn give(&mut self, card: usize, held: Held, sink: &mut impl CardSink) {
        let Some(trace) = self.cards.get_mut(card) else { return };
        for waiting in held.frames() {
            if let Some(frame) = Frame::parse(&waiting.bytes) {
                trace.frame(waiting.origin, &waiting.bytes, &frame, &mut OfCard(card, sink));
            }
        }
        self.held.iter_mut().for_each(|other| other.reconsider(card, trace, &held));
        self.last = card;
    }

    /// Keeps a card's trace as it is, in case the frames to come are another card's.
    fn park(&mut self, card: usize, held: &Held, sink: &mut impl CardSink) {
        self.cards[card].flush(&mut OfCard(card, sink));
        if self.parked.len() >= MAX_PARKED {
            self.parked.pop_front();
        }
        let trace = self.cards[card].clone();
        self.parked.push_back(Parked { trace, card, restarted: false, opening: held.opening() });
    }

    /// A card that seemed to have gone on as another one goes on itself: it is a card of its own from
    /// here, and what the other one was given of it is taken back from its counts.
    fn revive(&mut self, at: usize) -> usize {
        let Some(Parked { trace, card, restarted, opening }) = self.parked.remove(at) else {
            return self.last;
        };
        if self.cards.len() >= MAX_CARDS {
            return card;
        }
        self.cards[card].disown(&trace, restarted, opening);
        self.cards.push(trace);
        self.cards.len() - 1
    }
}
