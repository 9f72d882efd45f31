//! The frames of one wire to the traces of the cards on it.
//!
//! Frames carry no card's name. A frame belongs to the card whose counter and counts it goes on from
//! ([`super::fit`]). One that goes on from none is held, with those that follow it, until it shows
//! whether it is of a second card (the first one goes on meanwhile) or of the same card after a restart
//! or a long gap (it does not). A frame alone that no other goes on from is nobody's, a stray: anybody on
//! the wire can send it. Invariants: every frame of a card gets into exactly one trace; with one card on
//! the wire that trace has what [`Trace`] alone makes of the frames; strays change no trace; memory, and
//! the work for each frame, are bounded whatever comes.

mod card_activity;
mod owner;
mod parked;
mod pending_run;
mod recent_strays;
mod sink;

use hmtt_format::Report;
use hmtt_format::frame::FrameKind;

use super::counts::Counts;
use super::fit::Fit;
use super::frame::{Frame, Origin};
use super::item::Item;
use super::trace::Trace;
use owner::Owner;
use parked::{Parked, ParkedTraces};
use pending_run::{Arrival, PendingFrame, PendingRun};
use recent_strays::RecentStrays;
use sink::SinkOfCard;
pub use sink::{CardSink, WireCounts};
pub(super) use sink::{Counted, Items};

/// Most cards on one wire.
pub const MAX_CARDS: usize = 16;
/// Most strings of frames that wait for their card to show.
const MAX_PENDING: usize = 8;
/// Tells the cards on a wire apart and decodes the frames of each.
#[derive(Debug, Default)]
pub struct Wire {
    cards: Vec<Trace>,
    pending: Vec<PendingRun>,
    /// Its memory is used for the next frames that wait.
    spare: Option<PendingRun>,
    /// The latest of the strays.
    recent_strays: RecentStrays,
    parked: ParkedTraces,
    /// The card of the last frame.
    last: usize,
    /// Frames of cards so far.
    frames: u64,
    foreign: u64,
    /// Frames with a card's addresses that were nobody's.
    strays: u64,
    ends: u64,
    /// What the card said before the capture, until its first frame.
    earlier: Option<Box<Report>>,
}

impl Wire {
    /// Says what the card on this wire reported before its first frame here.
    pub fn continue_from(&mut self, report: Report) {
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
        let arrival = Arrival::new(&frame, bytes);
        match self.owner(&arrival) {
            Owner::Certain(card) => {
                self.last = card;
                let waiting = self.pending.iter_mut();
                let settles = waiting.fold(false, |any, run| run.card_goes_on(card) | any);
                self.cards[card].certain(origin, bytes, &frame, &mut SinkOfCard(card, sink));
                if settles {
                    self.decide(sink);
                }
            }
            Owner::Card(card) => self.take(card, origin, bytes, &frame, sink),
            Owner::Pending(at) => {
                self.pending[at].push(origin, &arrival, self.frames);
                self.decide(sink);
            }
            Owner::Parked(at) => {
                let card = self.revive(at, sink);
                self.take(card, origin, bytes, &frame, sink);
            }
            Owner::Past(card, fit) => self.cards[card].note_past(bytes, fit == Fit::Copy),
            Owner::Unknown => self.hold(origin, &arrival, sink),
            Owner::Stray => self.strays += 1,
        }
    }

    /// Cards so far. A frame that waits for its card to show is in none.
    pub fn cards(&self) -> &[Trace] {
        &self.cards
    }

    /// Whether every card has said that its capture ended. Frames that wait may be a card's next
    /// session, which then has to end, too.
    pub fn has_ended(&self) -> bool {
        // A frame alone may be anybody's, unless a card begins to count with it.
        let begins = |run: &PendingRun| self.strays == 0 && run.begins();
        let mut waiting = self.pending.iter().filter(|run| !run.is_alone() || begins(run));
        let sessions = waiting.clone().next().is_some();
        let cards = sessions || self.cards.iter().all(Trace::has_ended);
        cards && self.ends != 0 && waiting.all(|run| run.trace().has_ended())
    }

    /// End frames so far, of all cards, those that wait included.
    pub fn ends(&self) -> u64 {
        self.ends
    }

    /// The counts so far, of each card; frames that wait are in none.
    pub fn counted(&self) -> WireCounts {
        let counts = |(card, trace): (usize, &Trace)| {
            let mut counts = self.parked.counts(card);
            counts.append(trace.counts_so_far());
            counts
        };
        let cards = self.cards.iter().enumerate().map(counts).collect();
        self.with_strays(cards)
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
        while let Some(run) = self.pending.first() {
            match run.strayed_from(true) {
                Some(card) => self.stray(0, card, sink),
                None => self.settle(0, sink),
            }
        }
        self.parked.give_up_all(&mut self.cards);
        let numbered = std::mem::take(&mut self.cards).into_iter().enumerate();
        let cards = numbered.map(|(card, trace)| trace.finish_to(&mut SinkOfCard(card, sink)));
        let cards = cards.collect();
        self.with_strays(cards)
    }

    fn with_strays(&self, cards: Vec<Counts>) -> WireCounts {
        WireCounts { cards, foreign: self.foreign + self.strays, strays: self.strays }
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
        if !self.pending.is_empty() && trace.fit(frame, bytes).is_some_and(Fit::continues) {
            let counts = frame.kind() != Some(FrameKind::Heartbeat);
            let speaks = |run: &&mut PendingRun| counts || !run.is_suspect(card);
            self.pending.iter_mut().filter(speaks).for_each(|run| _ = run.card_goes_on(card));
        }
        trace.frame(origin, bytes, frame, &mut SinkOfCard(card, sink));
        self.last = card;
        if !self.pending.is_empty() {
            self.decide(sink);
        }
    }

    /// Takes a frame that goes on from no other.
    fn hold(&mut self, origin: Origin, arrival: &Arrival<'_>, sink: &mut impl CardSink) {
        if self.cards.is_empty() {
            let mut trace = Trace::default();
            if let Some(report) = self.earlier.take() {
                trace.continue_from(report, &mut SinkOfCard(0, sink));
            }
            self.cards.push(trace);
            return self.take(0, origin, arrival.bytes, arrival.frame, sink);
        }
        if self.pending.len() >= MAX_PENDING {
            self.make_space(sink);
        }
        let mut run = self.spare.take().unwrap_or_default();
        let leads_here = |stray: &PendingFrame| stray.leads_to(arrival);
        let before = self.recent_strays.take_near(arrival.frame.counter, leads_here);
        if before.is_some_and(|before| run.begin_with(&self.cards, before)) {
            self.strays -= 1;
            run.push(origin, arrival, self.frames);
        } else {
            run.begin(&self.cards, origin, arrival, self.frames);
        }
        self.pending.push(run);
        self.decide(sink);
    }

    /// Settles what can be.
    fn decide(&mut self, sink: &mut impl CardSink) {
        loop {
            let found = self.pending.iter().enumerate();
            let found = found.filter_map(|(at, run)| Some((at, run.found(&self.cards)?))).next();
            let stray = self.pending.iter().enumerate();
            let stray = stray.filter_map(|(at, run)| Some((at, run.strayed_from(false)?))).next();
            let ready = |run: &PendingRun| run.is_card() || run.is_full();
            if let Some((at, card)) = found {
                let run = self.pending.remove(at);
                self.give(card, run, sink);
            } else if let Some((at, card)) = stray {
                self.stray(at, card, sink);
            } else if let Some(at) = self.pending.iter().position(ready) {
                // What came wholly before it, it may go on from.
                let before = |run: &PendingRun| run.is_before(&self.pending[at]);
                self.settle(self.pending.iter().position(before).unwrap_or(at), sink);
            } else {
                break;
            }
        }
    }

    /// Lets go of what waits longest, but of a frame that nothing speaks for before all others.
    fn make_space(&mut self, sink: &mut impl CardSink) {
        let mut strays = (0..self.pending.len()).filter(|at| !self.is_believed(*at));
        let first = strays.clone().find(|at| self.pending[*at].left_behind(0).is_none());
        match first.or_else(|| strays.next()) {
            Some(at) => self.reject(at, sink),
            None => self.settle(0, sink),
        }
    }

    /// Whether frames that wait can be a card's. A frame alone is believed if a silent card could have lost
    /// a few frames before it, or others that wait could follow soon, or if it is the only one that ever was nobody's
    /// and a card begins to count with it, or could be about to use its counter or counts.
    fn is_believed(&self, at: usize) -> bool {
        let run = &self.pending[at];
        let may_be = run.begins() || run.is_near();
        let mut others = self.pending.iter().enumerate().filter(|(other, _)| *other != at);
        !run.is_alone()
            || run.follows_soon()
            || others.clone().any(|(_, other)| run.leads_soon_to(other))
            || self.strays == 0 && may_be && others.all(|(_, other)| !other.is_alone())
    }

    /// Leaves out frames that are nobody's.
    fn reject(&mut self, at: usize, sink: &mut impl CardSink) {
        if let Some(card) = self.pending[at].left_behind(1) {
            return self.stray(at, card, sink);
        }
        let mut run = self.pending.remove(at);
        self.strays += run.frames().len() as u64;
        if let Some(frame) = run.take_alone() {
            let forgotten = self.recent_strays.push(run.counter(), frame);
            forgotten.into_iter().for_each(|frame| run.use_memory(frame));
        }
        self.spare = Some(run);
    }

    /// Gives frames that wait to a card of their own, or to the one that they seem to go on from.
    fn settle(&mut self, at: usize, sink: &mut impl CardSink) {
        if !self.is_believed(at) {
            return self.reject(at, sink);
        }
        let run = self.pending.remove(at);
        // Where others send frames, too, what is far ahead of a card's last frame is not that card's. Where nobody
        // does, it is: a gap is told, a second card would hide it.
        let has_ended = |card: usize| self.strays != 0 && self.cards[card].has_ended();
        let may_be = |card: &usize| !(has_ended(*card) && run.is_far_ahead(*card));
        match run.parent(self.last).filter(may_be) {
            // Its place is still open, and what waits behind it speaks for it or against it.
            Some(card) if run.fills_place(&self.cards[card]) => self.give(card, run, sink),
            Some(card) => {
                let was_new = self.cards[card].is_new();
                let is_unconfirmed = self.strays != 0 && self.cards[card].frames() == 1;
                self.park(card, &run, sink);
                let restarts = self.cards[card].restarts();
                // A first frame alone does not make all others late.
                let is_restart = is_unconfirmed && !run.follows_soon();
                if is_restart || run.is_falsely_late(&self.cards[card], was_new) {
                    self.cards[card].restart(&mut SinkOfCard(card, sink));
                }
                self.give(card, run, sink);
                if self.cards[card].restarts() != restarts {
                    self.parked.last_restarted();
                }
            }
            None if self.cards.len() < MAX_CARDS => {
                self.cards.push(Trace::default());
                self.give(self.cards.len() - 1, run, sink);
            }
            // All cards go on, and there cannot be so many.
            None => self.strays += run.frames().len() as u64,
        }
    }

    /// Leaves out a frame that waited alone and turned out to be a card's, damaged, late or a copy.
    fn stray(&mut self, at: usize, card: usize, sink: &mut impl CardSink) {
        let run = self.pending.remove(at);
        for waiting in run.frames() {
            if let Some(frame) = Frame::parse(&waiting.bytes) {
                let sink = &mut SinkOfCard(card, sink);
                self.cards[card].stray(waiting.origin, &waiting.bytes, &frame, sink);
            }
        }
    }

    /// Gives frames that waited to a card.
    fn give(&mut self, card: usize, run: PendingRun, sink: &mut impl CardSink) {
        let Some(trace) = self.cards.get_mut(card) else { return };
        for waiting in run.frames() {
            if let Some(frame) = Frame::parse(&waiting.bytes) {
                trace.frame(waiting.origin, &waiting.bytes, &frame, &mut SinkOfCard(card, sink));
            }
        }
        self.pending.iter_mut().for_each(|other| other.reconsider(card, trace, &run));
        self.spare.get_or_insert(run);
        self.last = card;
    }

    /// Keeps a card's trace as it is, in case the frames to come are another card's.
    fn park(&mut self, card: usize, run: &PendingRun, sink: &mut impl CardSink) {
        let trace = self.cards[card].split(run.counter(), &mut SinkOfCard(card, sink));
        let parked = Parked { trace, card, restarted: false, opening: run.opening() };
        self.parked.keep(parked, &mut self.cards);
    }

    /// A card that seemed to have gone on as another one goes on itself: it is a card of its own from
    /// here. Where there cannot be more cards it is its old one, and what went on as it is closed.
    fn revive(&mut self, at: usize, sink: &mut impl CardSink) -> usize {
        let Some(Parked { mut trace, card, .. }) = self.parked.take(at, &mut self.cards) else {
            return self.last;
        };
        if self.cards.len() < MAX_CARDS {
            self.cards.push(trace);
            let new = self.cards.len() - 1;
            self.parked.renumber(at, card, new);
            return new;
        }
        self.parked.give_up_after(at, card, &mut self.cards);
        self.cards[card].flush(&mut SinkOfCard(card, sink));
        std::mem::swap(&mut self.cards[card], &mut trace);
        self.cards[card].append(trace.into_counts());
        card
    }
}
