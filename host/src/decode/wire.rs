//! The frames of one wire to the traces of the cards on it.
//!
//! Frames carry no card's name. A frame belongs to the card whose counter and counts it goes on from
//! ([`super::fit`]). One that goes on from none is held, with those that follow it, until it shows
//! whether it is of a second card (the first one goes on meanwhile) or of the same card after a restart
//! or a long gap (it does not). Invariants: every frame of a card gets into exactly one trace; with one
//! card on the wire that trace has what [`Trace`] alone makes of the frames; memory is bounded.

mod held;
mod owner;
mod sink;

use std::collections::VecDeque;

use hmtt_format::Report;
use hmtt_format::frame::{FrameKind, Sync};

use super::fit::Fit;
use super::frame::{Frame, Origin};
use super::item::Item;
use super::trace::Trace;
use held::Held;
use owner::Owner;
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
            Owner::Certain(card) if self.held.is_empty() => {
                self.last = card;
                self.cards[card].certain(origin, bytes, &frame, &mut OfCard(card, sink));
            }
            Owner::Certain(card) | Owner::Card(card) => {
                self.take(card, origin, bytes, &frame, sink);
            }
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
        while let Some(held) = self.held.first() {
            match held.strayed_from(true) {
                Some(card) => self.stray(0, card, sink),
                None => self.settle(0, sink),
            }
        }
        let numbered = self.cards.into_iter().enumerate();
        let cards = numbered.map(|(card, trace)| trace.finish_to(&mut OfCard(card, sink)));
        WireCounts { cards: cards.collect(), foreign: self.foreign }
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
            let counts = frame.kind() != Some(FrameKind::Heartbeat);
            let speaks = |held: &&mut Held| counts || !held.is_suspect(card);
            self.held.iter_mut().filter(speaks).for_each(|held| held.card_goes_on(card));
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
            let stray = self.held.iter().enumerate();
            let stray = stray.filter_map(|(at, held)| Some((at, held.strayed_from(false)?))).next();
            let ready = |held: &Held| held.is_card() || held.is_full();
            if let Some((at, card)) = found {
                let held = self.held.remove(at);
                self.give(card, held, sink);
            } else if let Some((at, card)) = stray {
                self.stray(at, card, sink);
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
            // Its place is still open, and what waits behind it speaks for it or against it.
            Some(card) if held.fills_place(&self.cards[card]) => self.give(card, held, sink),
            Some(card) => {
                let was_new = self.cards[card].is_new();
                self.park(card, &held, sink);
                let restarts = self.cards[card].restarts();
                // A first frame alone does not make all others late.
                if held.is_falsely_late(&self.cards[card], was_new) {
                    self.cards[card].restart(&mut OfCard(card, sink));
                }
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

    /// Leaves out a frame that waited alone and turned out to be a card's, damaged, late or a copy.
    fn stray(&mut self, at: usize, card: usize, sink: &mut impl CardSink) {
        let held = self.held.remove(at);
        for waiting in held.frames() {
            if let Some(frame) = Frame::parse(&waiting.bytes) {
                let sink = &mut OfCard(card, sink);
                self.cards[card].stray(waiting.origin, &waiting.bytes, &frame, sink);
            }
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
