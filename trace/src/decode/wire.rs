//! Separates the frames on one wire by card and decodes them into one trace for each card.
//!
//! Frames carry no identifier of their card. A frame belongs to the card whose counter and counts
//! it continues (`evidence`). A frame that continues no card waits, together with the frames that
//! continue it, as a pending run until its sender is known. If the first card goes on sending
//! meanwhile, the run is a second card's. If the first card is silent, the run is the first card's
//! after a restart or a long gap. Frames that do not confirm each other are strays: anyone on the
//! wire can send them (`agreement`).
//!
//! Invariants: every frame of a card is part of exactly one trace. With one card on the wire,
//! [`CardTrace`] alone decodes the same trace. Strays change no trace. Memory and the work for each
//! frame are bounded, whatever arrives.

mod card_activity;
mod owner;
mod parked;
mod pending_frame;
mod pending_run;
mod power_on;
mod recent_strays;
mod settle;

use hmtt_format::Report;
use hmtt_format::frame::FrameKind;

use super::arrival::Arrival;
use super::card_trace::CardTrace;
use super::compare::Comparison;
use super::evidence::Fit;
use super::frame::Origin;
use super::link_counts::{CardCounts, LinkCounts};
use super::sink::{CardSink, Sink};
use crate::identity::LinkId;
use owner::Owner;
use parked::ParkedTraces;
use pending_frame::PendingFrame;
use pending_run::PendingRun;
use recent_strays::RecentStrays;

/// Maximum number of cards on one wire.
pub const MAX_CARDS: usize = 16;
/// Maximum number of pending runs.
const MAX_PENDING: usize = 8;

/// A decoder of the frames of one wire, with a trace for each card.
#[derive(Debug, Default)]
pub struct Wire {
    /// The link, as the frames' origins state it.
    link: LinkId,
    cards: Vec<CardTrace>,
    pending: Vec<PendingRun>,
    /// A pending run that has been settled; the next run reuses its memory.
    spare: Option<PendingRun>,
    /// The latest strays, which a later frame may continue.
    recent_strays: RecentStrays,
    parked: ParkedTraces,
    /// Comparisons with each card of the last frame that was not certainly a card's next frame.
    /// Kept so that the vector's memory is reused.
    compared: Vec<Comparison>,
    /// Number of the card of the last frame.
    last: usize,
    /// Frames with a card's addresses so far. The count that includes a frame is the frame's serial
    /// number.
    frames: u64,
    foreign_frames: u64,
    /// Frames with a card's addresses that belong to no card.
    stray_frames: u64,
    ends: u64,
    /// The report that the card sent before the capture; `None` after the card's first frame.
    earlier: Option<Box<Report>>,
}

impl Wire {
    /// Sets the report that the card on this wire sent before its first frame in this capture.
    pub fn continue_from(&mut self, report: Report) {
        self.earlier = Some(Box::new(report));
    }

    /// Takes the next captured frame. Items go to `sink` with their card number, from 0.
    pub fn push(&mut self, origin: Origin, bytes: &[u8], sink: &mut impl Sink) {
        let Some(arrival) = Arrival::parse(origin, bytes) else {
            self.foreign_frames += 1;
            return;
        };
        self.link = origin.link;
        self.frames += 1;
        self.ends += u64::from(arrival.frame.kind() == Some(FrameKind::End));
        let mut compared = std::mem::take(&mut self.compared);
        self.give_to(self.owner(&arrival, &mut compared), &arrival, &mut compared, sink);
        self.compared = compared;
    }

    /// Counts as strays the unreadable frames that waited in a card's trace and are not the card's.
    fn count_strays(&mut self) {
        self.stray_frames += self.cards.iter_mut().map(CardTrace::take_strays).sum::<u64>();
    }

    /// Gives a frame to its owner. `compared`: the comparison of the frame with each card.
    fn give_to(
        &mut self,
        owner: Owner,
        arrival: &Arrival<'_>,
        compared: &mut Vec<Comparison>,
        sink: &mut impl Sink,
    ) {
        match owner {
            Owner::Certain(card) => {
                self.last = card;
                let (waiting, counter) = (self.pending.iter_mut(), arrival.frame.counter);
                let settles =
                    waiting.fold(false, |any, run| run.note_card_frame(card, counter) | any);
                self.cards[card].certain(arrival, &mut CardSink(card, sink));
                if settles {
                    self.settle_ready(sink);
                }
            }
            Owner::Card(card) => self.take(card, arrival, compared.get(card), sink),
            Owner::Pending(at) => {
                self.pending[at].push(compared, arrival, self.frames);
                self.settle_ready(sink);
            }
            Owner::Parked(at) => {
                let card = self.resume_parked(at, sink);
                self.take(card, arrival, None, sink);
            }
            Owner::Past(card, fit) => self.cards[card].note_past(arrival, fit == Fit::Copy),
            Owner::Unknown => self.hold(arrival, compared, sink),
            Owner::Stray => self.stray_frames += 1,
        }
        self.count_strays();
    }

    /// The traces of the cards found so far, without the frames of pending runs.
    pub fn cards(&self) -> &[CardTrace] {
        &self.cards
    }

    /// Whether every card has sent an end frame after its data. A pending run may be a card's next
    /// session, which then has to end, too.
    pub fn has_ended(&self) -> bool {
        // A run that is not confirmed may come from anyone, unless there were no strays.
        let is_clean = self.stray_frames == 0;
        let may_be = |run: &PendingRun| is_clean && (run.is_linked() || run.is_session_start());
        let mut waiting = self.pending.iter().filter(|run| run.is_confirmed() || may_be(run));
        let sessions = waiting.clone().next().is_some();
        let cards = sessions || self.cards.iter().all(CardTrace::has_ended);
        cards && self.ends != 0 && waiting.all(|run| run.trace().has_ended())
    }

    /// End frames of all cards so far, including end frames in pending runs.
    pub fn ends(&self) -> u64 {
        self.ends
    }

    /// The counts of each card so far, without the frames of pending runs.
    pub fn counts(&self) -> LinkCounts {
        let counts = |(card, trace): (usize, &CardTrace)| {
            let mut counts = self.parked.counts(card);
            counts.append(trace.counts());
            CardCounts { link: self.link, counts }
        };
        let cards = self.cards.iter().enumerate().map(counts).collect();
        self.with_strays(cards)
    }

    /// Decodes the frames that still wait, closes all traces and returns the counts of each card.
    pub fn finish(mut self, sink: &mut impl Sink) -> LinkCounts {
        while !self.pending.is_empty() {
            let at = self.earlier_than(0);
            let run = &self.pending[at];
            // A frame whose counter its card still expects may follow a gap: the card's trace
            // decides.
            let is_used = |card: &usize| !run.fills_place(&self.cards[*card]);
            match run.damaged_frame_of(true).filter(is_used) {
                Some(card) => self.stray(at, card, sink),
                None => self.settle(at, sink),
            }
        }
        self.parked.release_all(&mut self.cards);
        let numbered = std::mem::take(&mut self.cards).into_iter().enumerate();
        let cards = numbered.map(|(card, trace)| {
            let mut counts = trace.finish_to(&mut CardSink(card, sink));
            self.stray_frames += std::mem::take(&mut counts.foreign_frames);
            CardCounts { link: self.link, counts }
        });
        let cards = cards.collect();
        self.with_strays(cards)
    }

    fn with_strays(&self, cards: Vec<CardCounts>) -> LinkCounts {
        LinkCounts {
            cards,
            foreign_frames: self.foreign_frames + self.stray_frames,
            stray_frames: self.stray_frames,
        }
    }

    /// Gives a frame to its card, then settles the pending runs that the frame decides. `compared`:
    /// the comparison of the frame with the card; `None` if the frame is the first of the card, or
    /// has resumed the card's parked trace.
    fn take(
        &mut self,
        card: usize,
        arrival: &Arrival<'_>,
        compared: Option<&Comparison>,
        sink: &mut impl Sink,
    ) {
        let Some(trace) = self.cards.get_mut(card) else { return };
        // Anyone can send an unreadable frame.
        let is_readable = arrival.frame.body.is_ok();
        if is_readable && compared.is_none_or(Comparison::continues) {
            let counts = arrival.frame.kind() != Some(FrameKind::Heartbeat);
            let speaks =
                |run: &&mut PendingRun| counts || !run.may_have_sent(card, arrival.frame.counter);
            let notes = |run: &mut PendingRun| _ = run.note_card_frame(card, arrival.frame.counter);
            self.pending.iter_mut().filter(speaks).for_each(notes);
        }
        let sink_of_card = &mut CardSink(card, sink);
        match compared {
            Some(compared) => trace.frame_at(compared.position, arrival, sink_of_card),
            None => trace.frame(arrival, sink_of_card),
        }
        self.last = card;
        if !self.pending.is_empty() {
            self.settle_ready(sink);
        }
    }

    /// Begins the first card's trace, or a pending run, with a frame that continues no other frame.
    /// A recent stray that leads to the frame becomes the first frame of the run. `compared`: the
    /// comparison of the frame with each card.
    fn hold(
        &mut self,
        arrival: &Arrival<'_>,
        compared: &mut Vec<Comparison>,
        sink: &mut impl Sink,
    ) {
        if self.cards.is_empty() {
            let mut trace = CardTrace::default();
            if let Some(report) = self.earlier.take() {
                trace.continue_from(report, &mut CardSink(0, sink));
            }
            self.cards.push(trace);
            return self.take(0, arrival, None, sink);
        }
        if self.pending.len() >= MAX_PENDING && self.make_space(sink) {
            // A card's trace has changed, so the frame is compared again.
            self.compare(arrival, compared);
        }
        let mut run = self.spare.take().unwrap_or_default();
        let leads_here = |stray: &PendingFrame| stray.leads_to(arrival);
        match self.recent_strays.take_near(arrival, leads_here) {
            Some(PendingFrame { stored, serial }) => {
                let first = stored.arrival();
                self.compare(&first, compared);
                run.begin(compared, &first, serial);
                self.stray_frames -= 1;
                self.compare(arrival, compared);
                run.push(compared, arrival, self.frames);
            }
            None => run.begin(compared, arrival, self.frames),
        }
        self.pending.push(run);
        self.settle_ready(sink);
    }
}

#[cfg(test)]
mod tests;
