//! Separates the frames of the cards on one wire and decodes them into one trace for each card.
//!
//! Frames carry no identifier of their card. A frame belongs to the card whose counter and counts it continues
//! (`fit`). A frame that continues no card waits, together with the frames that follow it (a pending run), until
//! it is clear whose they are: a second card's, if the first card continues meanwhile; the same card's after a restart or
//! a long gap, if it does not. A single frame that no other frame continues is a stray: anyone on the wire can send one.
//!
//! Invariants: every frame of a card is part of exactly one trace. With one card on the wire, its trace is the one that
//! [`Trace`] alone decodes from the frames. Strays change no trace. Memory and the work for each frame are bounded,
//! whatever arrives.

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
use super::trace::Trace;
use owner::Owner;
use parked::{Parked, ParkedTraces};
use pending_run::{Arrival, PendingFrame, PendingRun};
use recent_strays::RecentStrays;
use sink::SinkOfCard;
pub use sink::{CardSink, WireCounts};

/// Most cards on one wire.
pub const MAX_CARDS: usize = 16;
/// Most pending runs.
const MAX_PENDING: usize = 8;
/// A decoder of the frames of one wire, with a trace for each card.
#[derive(Debug, Default)]
pub struct Wire {
    cards: Vec<Trace>,
    pending: Vec<PendingRun>,
    /// A pending run that has been settled; the next run reuses its memory.
    spare: Option<PendingRun>,
    /// The latest strays, which a later frame may continue.
    recent_strays: RecentStrays,
    parked: ParkedTraces,
    /// Number of the card of the last frame.
    last: usize,
    /// Frames with a card's addresses so far; their number is a frame's serial number.
    frames: u64,
    foreign_frames: u64,
    /// Frames with a card's addresses that belong to no card.
    stray_frames: u64,
    ends: u64,
    /// The report that the card sent before the capture; `None` after its first frame.
    earlier: Option<Box<Report>>,
}

impl Wire {
    /// Sets the report that the card on this wire sent before its first frame here.
    pub fn continue_from(&mut self, report: Report) {
        self.earlier = Some(Box::new(report));
    }

    /// Takes the next captured frame. Items go to `sink` with their card number, from 0.
    pub fn push(&mut self, origin: Origin, bytes: &[u8], sink: &mut impl CardSink) {
        let Some(frame) = Frame::parse(bytes) else {
            self.foreign_frames += 1;
            return;
        };
        self.frames += 1;
        self.ends += u64::from(frame.kind() == Some(FrameKind::End));
        let arrival = Arrival::new(&frame, bytes);
        match self.owner(&arrival) {
            Owner::Certain(card) => {
                self.last = card;
                let waiting = self.pending.iter_mut();
                let settles = waiting.fold(false, |any, run| run.note_card_frame(card) | any);
                self.cards[card].certain(origin, bytes, &frame, &mut SinkOfCard(card, sink));
                if settles {
                    self.settle_ready(sink);
                }
            }
            Owner::Card(card) => self.take(card, origin, bytes, &frame, sink),
            Owner::Pending(at) => {
                self.pending[at].push(origin, &arrival, self.frames);
                self.settle_ready(sink);
            }
            Owner::Parked(at) => {
                let card = self.resume_parked(at, sink);
                self.take(card, origin, bytes, &frame, sink);
            }
            Owner::Past(card, fit) => self.cards[card].note_past(bytes, fit == Fit::Copy),
            Owner::Unknown => self.hold(origin, &arrival, sink),
            Owner::Stray => self.stray_frames += 1,
        }
    }

    /// The traces of the cards found so far, without the frames of pending runs.
    pub fn cards(&self) -> &[Trace] {
        &self.cards
    }

    /// Whether every card has sent an end frame after its data. A pending run may be a card's next session, which then has to
    /// end, too.
    pub fn has_ended(&self) -> bool {
        // A single frame may be anyone's, unless it is the first of a session.
        let begins = |run: &PendingRun| self.stray_frames == 0 && run.is_session_start();
        let mut waiting = self.pending.iter().filter(|run| !run.is_alone() || begins(run));
        let sessions = waiting.clone().next().is_some();
        let cards = sessions || self.cards.iter().all(Trace::has_ended);
        cards && self.ends != 0 && waiting.all(|run| run.trace().has_ended())
    }

    /// End frames so far, of all cards, those of pending runs included.
    pub fn ends(&self) -> u64 {
        self.ends
    }

    /// The counts of each card so far, without the frames of pending runs.
    pub fn counted(&self) -> WireCounts {
        let counts = |(card, trace): (usize, &Trace)| {
            let mut counts = self.parked.counts(card);
            counts.append(trace.counts_so_far());
            counts
        };
        let cards = self.cards.iter().enumerate().map(counts).collect();
        self.with_strays(cards)
    }

    /// Decodes the frames that still wait, closes all traces and returns the counts of each card.
    pub fn finish(mut self, sink: &mut impl CardSink) -> WireCounts {
        while let Some(run) = self.pending.first() {
            match run.damaged_frame_of(true) {
                Some(card) => self.stray(0, card, sink),
                None => self.settle(0, sink),
            }
        }
        self.parked.release_all(&mut self.cards);
        let numbered = std::mem::take(&mut self.cards).into_iter().enumerate();
        let cards = numbered.map(|(card, trace)| trace.finish(&mut SinkOfCard(card, sink)));
        let cards = cards.collect();
        self.with_strays(cards)
    }

    fn with_strays(&self, cards: Vec<Counts>) -> WireCounts {
        WireCounts {
            cards,
            foreign_frames: self.foreign_frames + self.stray_frames,
            stray_frames: self.stray_frames,
        }
    }

    /// Gives a frame to its card, then settles the pending runs that this decides.
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
            self.pending.iter_mut().filter(speaks).for_each(|run| _ = run.note_card_frame(card));
        }
        trace.frame(origin, bytes, frame, &mut SinkOfCard(card, sink));
        self.last = card;
        if !self.pending.is_empty() {
            self.settle_ready(sink);
        }
    }

    /// Begins a pending run with a frame that continues no other.
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
            self.stray_frames -= 1;
            run.push(origin, arrival, self.frames);
        } else {
            run.begin(&self.cards, origin, arrival, self.frames);
        }
        self.pending.push(run);
        self.settle_ready(sink);
    }

    /// Settles all pending runs that can be decided.
    fn settle_ready(&mut self, sink: &mut impl CardSink) {
        loop {
            let found = self.pending.iter().enumerate();
            let found =
                found.filter_map(|(at, run)| Some((at, run.matching_card(&self.cards)?))).next();
            let stray = self.pending.iter().enumerate();
            let stray =
                stray.filter_map(|(at, run)| Some((at, run.damaged_frame_of(false)?))).next();
            let ready = |run: &PendingRun| run.is_other_card() || run.is_full();
            if let Some((at, card)) = found {
                let run = self.pending.remove(at);
                self.give(card, run, sink);
            } else if let Some((at, card)) = stray {
                self.stray(at, card, sink);
            } else if let Some(at) = self.pending.iter().position(ready) {
                // A run may continue one that arrived wholly before it, so the earlier run is settled first.
                let before = |run: &PendingRun| run.is_before(&self.pending[at]);
                self.settle(self.pending.iter().position(before).unwrap_or(at), sink);
            } else {
                break;
            }
        }
    }

    /// Settles one pending run to make space for another: a single frame that nothing confirms, else the oldest run.
    fn make_space(&mut self, sink: &mut impl CardSink) {
        let mut strays = (0..self.pending.len()).filter(|at| !self.is_believed(*at));
        let first = strays.clone().find(|at| self.pending[*at].left_behind(0).is_none());
        match first.or_else(|| strays.next()) {
            Some(at) => self.reject(at, sink),
            None => self.settle(0, sink),
        }
    }

    /// Whether a pending run can be a card's. A run of several frames can. A single frame can if a silent card could have
    /// lost a few frames before it, or if another run could follow soon. It also can if no stray was seen so far, no other
    /// single frame waits, and it is a session's first frame or has a counter or counts that a card could use next.
    fn is_believed(&self, at: usize) -> bool {
        let run = &self.pending[at];
        let may_be = run.is_session_start() || run.is_near();
        let mut others = self.pending.iter().enumerate().filter(|(other, _)| *other != at);
        !run.is_alone()
            || run.follows_soon()
            || others.clone().any(|(_, other)| run.leads_soon_to(other))
            || self.stray_frames == 0 && may_be && others.all(|(_, other)| !other.is_alone())
    }

    /// Drops a pending run that is no card's.
    fn reject(&mut self, at: usize, sink: &mut impl CardSink) {
        if let Some(card) = self.pending[at].left_behind(1) {
            return self.stray(at, card, sink);
        }
        let mut run = self.pending.remove(at);
        self.stray_frames += run.frames().len() as u64;
        if let Some(frame) = run.take_alone() {
            let forgotten = self.recent_strays.push(run.counter(), frame);
            forgotten.into_iter().for_each(|frame| run.use_memory(frame));
        }
        self.spare = Some(run);
    }

    /// Gives a pending run to a new card, or to the card that it seems to continue.
    fn settle(&mut self, at: usize, sink: &mut impl CardSink) {
        if !self.is_believed(at) {
            return self.reject(at, sink);
        }
        let run = self.pending.remove(at);
        // If others send frames, too, a run far ahead of a card's last frame is not that card's. If nobody does, it is:
        // the trace then reports a gap, which a second card would hide.
        let has_ended = |card: usize| self.stray_frames != 0 && self.cards[card].has_ended();
        let may_be = |card: &usize| !(has_ended(*card) && run.is_far_ahead(*card));
        match run.predecessor(self.last).filter(may_be) {
            // The run's first counter is still expected, and the frames that wait after it confirm or contradict it.
            Some(card) if run.fills_place(&self.cards[card]) => self.give(card, run, sink),
            Some(card) => {
                let was_new = self.cards[card].is_new();
                let is_unconfirmed = self.stray_frames != 0 && self.cards[card].frames() == 1;
                self.park(card, &run, sink);
                let restarts = self.cards[card].restarts();
                // One unconfirmed first frame must not make all later frames late.
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
            // All cards continue, and the number of cards is at its limit.
            None => self.stray_frames += run.frames().len() as u64,
        }
    }

    /// Drops a single pending frame that turned out to be a card's, but damaged, late or a copy.
    fn stray(&mut self, at: usize, card: usize, sink: &mut impl CardSink) {
        let run = self.pending.remove(at);
        for waiting in run.frames() {
            if let Some(frame) = Frame::parse(&waiting.bytes) {
                let sink = &mut SinkOfCard(card, sink);
                self.cards[card].stray(waiting.origin, &waiting.bytes, &frame, sink);
            }
        }
    }

    /// Gives the frames of a pending run to a card.
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

    /// Parks a card's trace as it is, in case the frames that follow are another card's.
    fn park(&mut self, card: usize, run: &PendingRun, sink: &mut impl CardSink) {
        let trace = self.cards[card].split(run.counter(), &mut SinkOfCard(card, sink));
        let parked = Parked { trace, card, restarted: false, opening: run.opening() };
        self.parked.keep(parked, &mut self.cards);
    }

    /// Resumes a parked trace, because its card continues it: the frames that seemed to follow it are another card's. The
    /// trace becomes a new card. If the number of cards is at its limit, it keeps its old number, and the trace that followed
    /// it is closed.
    fn resume_parked(&mut self, at: usize, sink: &mut impl CardSink) -> usize {
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
        self.cards[card].flush(&mut SinkOfCard(card, sink));
        std::mem::swap(&mut self.cards[card], &mut trace);
        self.cards[card].append(trace.into_counts());
        card
    }
}
