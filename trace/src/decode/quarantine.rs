//! Drops frames whose counts or clock contradict the frames around them.
//!
//! Gets frames in counter order from the sequencer and passes them to the decoder. A frame that
//! does not state exactly the counts after the frame before waits for the next frame, which shows
//! whether frames are missing before the waiting frame or whether the waiting frame is damaged.
//!
//! A frame states its place twice: by its counter and by the card's counts. It is dropped if the
//! frames before and after it can follow each other without it, and it does not fit between them.
//! Its accesses are then part of the gap between the two. So the counts of the frames that are
//! passed on never decrease, and decoded plus lost accesses equal the card's count, whichever frame
//! was dropped. For example, a frame ends at 100 accesses, the next frame states 900, and the frame
//! after that states 104. The frame that states 900 is dropped, and a gap of 4 accesses takes its
//! place.
//!
//! A data frame with exactly the expected counts waits, too, if it does not state the clock after
//! the frame before (`clock_check`). It is dropped if the next frame shows that the stated clock is
//! wrong. If the next frame shows instead that the frame before the waiting frame ends at a wrong
//! clock, the waiting frame is passed on and the frame before it is reported.
//!
//! Invariant: a frame that states exactly the counts and the clock after the frame before does not
//! wait, unless the frame before waits.

use std::collections::VecDeque;

use hmtt_format::frame::{FrameKind, Sync};

use super::arrival::{Arrival, StoredFrame};
use super::clock_check::{ClockBefore, FrameClocks, NextClock, WrongClock};
use super::counts_after::{CountsAfter, FrameSummary};
use super::decoder::Decoder;
use super::item::Malformation;
use super::sequence::Step;
use super::sink::{CardSink, Sink};

/// Maximum number of steps that wait for a frame with counts. Without this limit, any number of
/// heartbeats could wait, because heartbeats have no counts.
const MAX_WAITING: usize = 64;

/// A step of the sequencer that waits.
#[derive(Clone, Debug)]
enum Waiting {
    Missing { first: u64, frames: u64 },
    Frame(StoredFrame),
}

impl Waiting {
    fn counts(&self) -> Option<(Sync, CountsAfter)> {
        match self {
            Waiting::Frame(frame) => frame.summary.counts(),
            Waiting::Missing { .. } => None,
        }
    }

    fn is_data(&self) -> bool {
        match self {
            Waiting::Frame(frame) => frame.arrival().frame.kind() == Some(FrameKind::Data),
            Waiting::Missing { .. } => false,
        }
    }

    /// Frames of this step that were not read.
    fn unseen(&self) -> u64 {
        match self {
            Waiting::Missing { frames, .. } => *frames,
            Waiting::Frame(frame) => u64::from(matches!(frame.summary, FrameSummary::Unreadable)),
        }
    }
}

/// The decision about a waiting frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Believed,
    /// The frame is decoded, and the frame before it is reported as damaged.
    BeforeDamaged,
    /// The frame is decoded and reported, because either it or the frame before it is damaged.
    Doubtful,
    Dropped(Malformation),
}

impl Verdict {
    /// `believed`: whether the counts of the frame fit.
    fn of_counts(believed: bool) -> Self {
        if believed { Verdict::Believed } else { Verdict::Dropped(Malformation::Contradiction) }
    }
}

impl From<WrongClock> for Verdict {
    fn from(wrong: WrongClock) -> Self {
        match wrong {
            WrongClock::Neither => Verdict::Believed,
            WrongClock::Stated => Verdict::Dropped(Malformation::StatedClock),
            WrongClock::Before => Verdict::BeforeDamaged,
            WrongClock::Either => Verdict::Doubtful,
        }
    }
}

/// Waiting steps, in counter order. The first step waits for a frame that confirms or contradicts
/// it.
#[derive(Clone, Debug, Default)]
pub(super) struct Quarantine {
    waiting: VecDeque<Waiting>,
}

impl Quarantine {
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Whether a heartbeat waits, which may report that the DDR clock was lost.
    pub fn has_heartbeat(&self) -> bool {
        let is_heartbeat = |waiting: &Waiting| match waiting {
            Waiting::Frame(frame) => matches!(frame.summary, FrameSummary::Heartbeat),
            Waiting::Missing { .. } => false,
        };
        self.waiting.iter().any(is_heartbeat)
    }

    /// For each waiting step, the last step first: the counts after the step, and the number of its
    /// unread frames.
    pub fn ends(&self) -> impl Iterator<Item = (Option<CountsAfter>, u64)> {
        let end = |waiting: &Waiting| waiting.counts().map(|(_, end)| end);
        self.waiting.iter().rev().map(move |waiting| (end(waiting), waiting.unseen()))
    }

    /// Takes the next step. Steps that need not wait go to `decoder`.
    pub fn step(
        &mut self,
        step: Step<'_>,
        decoder: &mut Decoder,
        sink: &mut CardSink<'_, impl Sink>,
    ) {
        match step {
            Step::Restart => {
                self.finish(decoder, sink);
                decoder.step(step, sink);
            }
            Step::Stray(_) => decoder.step(step, sink),
            Step::Missing { .. } if self.waiting.is_empty() => decoder.step(step, sink),
            Step::Missing { first, frames } => {
                self.waiting.push_back(Waiting::Missing { first, frames });
            }
            Step::Frame(arrival) => {
                if self.restarts_counts(arrival, decoder) {
                    // No later frame can confirm or contradict the steps before this frame.
                    self.finish(decoder, sink);
                    return decoder.step(step, sink);
                }
                if self.waiting.is_empty() && !is_doubtful(arrival, decoder) {
                    return decoder.step(step, sink);
                }
                self.waiting.push_back(Waiting::Frame(StoredFrame::new(arrival)));
                self.settle(false, decoder, sink);
            }
        }
    }

    /// Whether a frame is the first that the card sent after its DDR clock was found.
    fn restarts_counts(&self, arrival: &Arrival<'_>, decoder: &Decoder) -> bool {
        let body = arrival.frame.body.ok();
        body.and_then(|body| Some((body.kind, body.sync()?))).is_some_and(|(kind, sync)| {
            decoder.restarts_counts(kind, sync, || self.has_heartbeat())
        })
    }

    /// Decides about all waiting steps, because no frame follows.
    pub fn finish(&mut self, decoder: &mut Decoder, sink: &mut CardSink<'_, impl Sink>) {
        self.settle(true, decoder, sink);
    }

    fn settle(
        &mut self,
        is_final: bool,
        decoder: &mut Decoder,
        sink: &mut CardSink<'_, impl Sink>,
    ) {
        while let Some(first) = self.waiting.front() {
            let last = is_final || self.waiting.len() > MAX_WAITING;
            let verdict = match first.counts() {
                Some((sync, end)) => match self.clocks(first, sync, end, decoder) {
                    Some(clocks) => self.clock_verdict(clocks, end, last),
                    None => self.verdict(sync, end, last, decoder).map(Verdict::of_counts),
                },
                None => Some(Verdict::Believed),
            };
            let Some(verdict) = verdict else { return };
            match self.waiting.pop_front() {
                Some(Waiting::Missing { first, frames }) => {
                    decoder.step(Step::Missing { first, frames }, sink);
                }
                Some(Waiting::Frame(frame)) => pass_on(&frame, verdict, decoder, sink),
                None => return,
            }
        }
    }

    /// The clocks of the first waiting frame, if it is a data frame that directly follows another
    /// data frame and does not state the clock at which that frame ends; else `None`.
    fn clocks(
        &self,
        first: &Waiting,
        sync: Sync,
        end: CountsAfter,
        decoder: &Decoder,
    ) -> Option<FrameClocks> {
        let before = decoder.clock_before(sync).filter(|before| before.clock != sync.clock)?;
        first.is_data().then_some(FrameClocks { before, stated: sync.clock, end: end.clock })
    }

    /// Decides about the first waiting frame by its clocks; `None` if the decision needs the next
    /// frame.
    fn clock_verdict(&self, clocks: FrameClocks, end: CountsAfter, last: bool) -> Option<Verdict> {
        let mut unseen = 0;
        let next = self.waiting.iter().skip(1).find_map(|waiting| {
            unseen += waiting.unseen();
            let (next, _) = waiting.counts()?;
            let follows = unseen == 0 && waiting.is_data() && end.is_exactly(next);
            let clock = if follows { NextClock::Follows } else { NextClock::Bound };
            Some(clock(next.clock))
        });
        (last || next.is_some()).then(|| clocks.check(next).into())
    }

    /// Whether to pass on the first waiting frame; `None` if that cannot be decided yet. `last`:
    /// decide now, without waiting for frames that could confirm it.
    fn verdict(&self, sync: Sync, end: CountsAfter, last: bool, decoder: &Decoder) -> Option<bool> {
        let missing = decoder.pending.frames + decoder.pending.malformed_frames;
        let before = decoder.reached.map(CountsAfter::from);
        if before.is_some_and(|before| before.is_exactly(sync)) {
            return Some(true);
        }
        let mut after = self.after_first();
        let Some((between, next, next_end)) = after.next() else {
            return last.then(|| {
                before.is_none_or(|before| before.counts_to(sync, missing).is_some())
                    || decoder.may_be_misled(sync)
            });
        };
        if between == 0 && end.is_exactly(next) {
            return Some(true);
        }
        let leads_on = end.counts_to(next, between).is_some();
        let Some(before) = before else {
            return match (leads_on, after.next()) {
                (true, _) => Some(true),
                (false, Some((between, third, _))) => {
                    Some(between != 0 || !next_end.is_exactly(third))
                }
                (false, None) => last.then_some(true),
            };
        };
        let follows = before.counts_to(sync, missing).is_some();
        let is_needless = before.counts_to(next, missing + 1 + between).is_some();
        Some(follows && leads_on || !is_needless)
    }

    /// The waiting frames with counts after the first waiting step. Each frame has the number of
    /// unread frames between it and the frame with counts before it.
    fn after_first(&self) -> impl Iterator<Item = (u64, Sync, CountsAfter)> {
        let mut unseen = 0;
        self.waiting.iter().skip(1).filter_map(move |waiting| {
            unseen += waiting.unseen();
            let (sync, end) = waiting.counts()?;
            Some((std::mem::take(&mut unseen), sync, end))
        })
    }
}

/// Passes a frame on to the decoder, or drops it, and reports what is damaged.
fn pass_on(
    frame: &StoredFrame,
    verdict: Verdict,
    decoder: &mut Decoder,
    sink: &mut CardSink<'_, impl Sink>,
) {
    match verdict {
        Verdict::Believed => {}
        Verdict::BeforeDamaged => decoder.note_last_malformed(Malformation::EndClock, sink),
        Verdict::Doubtful => decoder.note_malformed(frame.origin, Malformation::Clock, sink),
        Verdict::Dropped(error) => return decoder.leave_out(frame.origin, error, sink),
    }
    decoder.step(Step::Frame(&frame.arrival()), sink);
}

/// Whether a frame states other counts or another clock than those after the frame before. The
/// first frame of a session has to state counts of 0.
fn is_doubtful(arrival: &Arrival<'_>, decoder: &Decoder) -> bool {
    let frame = &arrival.frame;
    let Some(sync) = frame.sync() else { return false };
    let is_data = frame.kind() == Some(FrameKind::Data);
    let other_clock = |before: ClockBefore| is_data && before.clock != sync.clock;
    match decoder.reached {
        Some(reached) => {
            !CountsAfter::from(reached).is_exactly(sync)
                || decoder.clock_before(sync).is_some_and(other_clock)
        }
        None => !frame.opens_session() || (sync.accesses, sync.lost) != (0, 0),
    }
}
