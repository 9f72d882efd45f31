//! Rates how well a frame continues a card's trace.
//!
//! Frames carry no identifier of their card, so this rating separates the frames of two cards on one wire.
//!
//! A frame that has the next counter and states exactly the counts after the last frame is nearly certainly from the
//! same card: two cards that agree in both by chance will not agree again in the frames that follow. Any other frame
//! fits if the card could have reached the counts that it states. One earlier frame may itself be damaged, so a frame
//! that contradicts only one earlier frame fits.

use hmtt_format::frame::{COUNTER_MASK, FrameKind, Sync};
use hmtt_format::record::CLOCK_MASK;

use super::counts_after::{CLOCK_SLACK, CountsAfter, FrameSummary, apart};
use super::frame::{Body, Frame};
use super::sequence::{FIRST_FRAMES, Place, WINDOW};
use super::trace::Trace;

/// Most accesses and lost records by which a frame with a wrong counter is ahead of its card.
const NEAR_ACCESSES: u64 = 1 << 24;
const NEAR_LOST: u32 = 1 << 16;

/// How well a frame fits a trace; the best fit is the least.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Fit {
    /// The frame follows another frame exactly. Holds the clocks between the two.
    Next(u64),
    /// The frame is a copy of an earlier one.
    Copy,
    /// The card could have reached the counts that the frame states. Holds the frames and the clocks between the two.
    Near(u64, u64),
    /// The frame arrived after it was counted as missing.
    Late,
}

impl Fit {
    /// Whether the frame shows that the card still sends. Copies and late frames do not.
    pub fn continues(self) -> bool {
        matches!(self, Fit::Next(_) | Fit::Near(..))
    }
}

/// The counts after the last two frames that have counts, the latest first, each with the number of unread frames
/// after it.
type Bases = [Option<(CountsAfter, u64)>; 2];

fn note(bases: &mut Bases, end: CountsAfter, unseen: &mut u64) {
    if let Some(free) = bases.iter_mut().find(|base| base.is_none()) {
        *free = Some((end, *unseen));
    }
    *unseen += 1;
}

impl Trace {
    /// Whether a frame is certainly the next one. This check is cheap.
    pub(super) fn is_certain(&self, frame: &Frame<'_>) -> bool {
        let Some((kind, sync)) = frame.body.ok().and_then(|body| Some((body.kind, body.sync()?)))
        else {
            return false;
        };
        self.sequencer.is_in_order(frame.counter)
            && self.quarantine.is_empty()
            && self.decoder.reached.is_some_and(|reached| {
                let clock = reached.clock.0 & CLOCK_MASK;
                (reached.accesses, reached.lost) == (sync.accesses, sync.lost)
                    && (kind != FrameKind::Data || clock == sync.clock)
            })
    }

    /// How well a frame fits; `None` if it contradicts earlier frames or is too far ahead to decide.
    pub(super) fn fit(&self, frame: &Frame<'_>, bytes: &[u8]) -> Option<Fit> {
        if !self.sequencer.is_close(frame.counter) {
            return None;
        }
        let counter = match self.sequencer.place(frame, bytes) {
            Place::Ahead(counter) if self.sequencer.distance(counter) < WINDOW => counter,
            Place::Taken(counter) if self.has_better_claim(counter, frame) => counter,
            Place::Duplicate => return Some(Fit::Copy),
            Place::Late => return self.is_past(frame).then_some(Fit::Late),
            Place::Ahead(_) | Place::Taken(_) | Place::Restart => return None,
        };
        let Ok(body) = &frame.body else {
            return Some(Fit::Near(self.sequencer.distance(counter), 0));
        };
        match body.sync() {
            Some(sync) if self.restarts_counts(body.kind, sync) => Some(Fit::Next(0)),
            Some(sync) => self.fit_sync(counter, sync, body),
            None => self.fit_heartbeat(counter, body),
        }
    }

    /// Whether a frame fits better at its counter than the waiting frame that has the same counter, because the waiting
    /// frame contradicts the frames around it or is one of those missing before it.
    pub(super) fn has_better_claim(&self, counter: u64, frame: &Frame<'_>) -> bool {
        let Ok(body) = &frame.body else { return false };
        let Some((end, missing)) = self.bases(counter)[0] else { return false };
        let waiting = self.sequencer.held_at(counter).and_then(FrameSummary::counts);
        let Some(sync) = body.sync() else {
            let contradicts = |(other, _)| end.leads_to(other, missing).is_none();
            return body.heartbeat().is_some() && waiting.is_some_and(contradicts);
        };
        let Some(distance) = end.leads_to(sync, missing) else { return false };
        waiting.is_none_or(|(other, other_end)| {
            let other_distance = end.leads_to(other, missing);
            let is_before = missing != 0
                && apart(other_end.clock, sync.clock) <= CLOCK_SLACK
                && other_end.leads_to(sync, missing - 1).is_some();
            other_distance.is_none()
                || is_before
                || missing == 0 && distance == (0, 0) && other_distance != Some((0, 0))
        })
    }

    /// Whether a frame could be this card's after a long gap.
    pub(super) fn could_reach(&self, frame: &Frame<'_>, bytes: &[u8]) -> bool {
        let Place::Ahead(counter) = self.sequencer.place(frame, bytes) else { return false };
        let sync = frame.body.ok().and_then(|body| body.sync());
        let (Some((base, missing)), Some(sync)) = (self.bases(counter)[0], sync) else {
            return true;
        };
        base.leads_to(sync, missing).is_some()
    }

    /// Whether a frame's counter differs by one bit from that of a frame that arrived lately or could arrive next.
    pub(super) fn is_flipped(&self, frame: &Frame<'_>) -> bool {
        let newest = self.sequencer.newest() & COUNTER_MASK;
        (0..COUNTER_MASK.count_ones()).map(|bit| frame.counter ^ 1 << bit).any(|counter| {
            let ahead = counter.wrapping_sub(newest) & COUNTER_MASK;
            let behind = newest.wrapping_sub(counter) & COUNTER_MASK;
            ahead.min(behind) <= WINDOW
        })
    }

    /// Whether a frame has a counter that could arrive next and has not arrived.
    pub(super) fn waits_for(&self, frame: &Frame<'_>, bytes: &[u8]) -> bool {
        if !self.sequencer.is_close(frame.counter) {
            return false;
        }
        match self.sequencer.place(frame, bytes) {
            Place::Ahead(counter) => self.sequencer.distance(counter) < WINDOW,
            _ => false,
        }
    }

    /// Whether a frame has the counter of another frame that arrived lately.
    pub(super) fn is_taken(&self, frame: &Frame<'_>, bytes: &[u8]) -> bool {
        let taken = |counter| self.sequencer.distance(counter) < WINDOW;
        self.sequencer.is_close(frame.counter)
            && matches!(self.sequencer.place(frame, bytes), Place::Taken(counter) if taken(counter))
    }

    /// Whether a frame states counts that this card could state next, whatever the frame's counter.
    pub(super) fn are_counts_near(&self, frame: &Frame<'_>) -> bool {
        let sync = frame.body.ok().and_then(|body| body.sync());
        // A card that has counted nothing states the same as any card that restarts.
        let starts = |sync: &Sync| sync.accesses == 0 && frame.counter < FIRST_FRAMES;
        let Some(sync) = sync.filter(|sync| !starts(sync)) else { return false };
        let near = |(accesses, lost)| accesses <= NEAR_ACCESSES && lost <= NEAR_LOST;
        self.bases(self.sequencer.newest() + 1).into_iter().flatten().any(|(end, missing)| {
            apart(sync.clock, end.clock) <= CLOCK_SLACK
                && end.leads_to(sync, missing + WINDOW).is_some_and(near)
        })
    }

    /// Whether a frame would be dropped as late.
    pub(super) fn is_late(&self, frame: &Frame<'_>, bytes: &[u8]) -> bool {
        matches!(self.sequencer.place(frame, bytes), Place::Late)
    }

    /// Whether a frame states exactly the counts after the last frame, whatever the frame's counter.
    pub(super) fn counts_exactly(&self, frame: &Frame<'_>) -> bool {
        let sync = frame.body.ok().and_then(|body| body.sync());
        let last = self.bases(self.sequencer.newest() + 1)[0];
        sync.zip(last).is_some_and(|(sync, (end, _))| end.is_exactly(sync))
    }

    /// Whether a frame counts no more accesses than the frames that were decoded.
    pub(super) fn is_past(&self, frame: &Frame<'_>) -> bool {
        let end = frame.body.ok().and_then(|body| Some((body.sync()?, CountsAfter::new(&body)?)));
        let (Some((sync, end)), Some(reached)) = (end, self.decoder.reached) else { return true };
        end.is_past(reached.accesses, sync)
    }

    fn bases(&self, counter: u64) -> Bases {
        let (mut bases, mut unseen, mut reached_to) = ([None; 2], 0, counter);
        for (held, kept) in self.sequencer.held_before(counter) {
            unseen += reached_to - held - 1;
            reached_to = held;
            match kept {
                FrameSummary::Counts(_, end) => note(&mut bases, end, &mut unseen),
                FrameSummary::Heartbeat => {}
                FrameSummary::Unreadable => unseen += 1,
            }
            if bases[1].is_some() {
                return bases;
            }
        }
        unseen += reached_to.saturating_sub(self.sequencer.next());
        for (end, not_read) in self.quarantine.ends() {
            unseen += not_read;
            end.into_iter().for_each(|end| note(&mut bases, end, &mut unseen));
        }
        if let Some(reached) = self.decoder.reached {
            unseen += self.decoder.pending.frames + self.decoder.pending.malformed_frames;
            note(&mut bases, reached.into(), &mut unseen);
        }
        bases
    }

    /// Whether a frame is the first that the card sent after its DDR clock was found.
    fn restarts_counts(&self, kind: FrameKind, sync: Sync) -> bool {
        self.decoder.restarts_counts(kind, sync, self.quarantine.has_heartbeat())
    }

    fn fit_sync(&self, counter: u64, sync: Sync, body: &Body<'_>) -> Option<Fit> {
        // The waiting frame after this one must be able to follow it, unless this counter is wrong and it was sent earlier.
        let mut exact_after = false;
        if let Some((next, kept)) = self.sequencer.held_after(counter)
            && let Some((after, after_end)) = kept.counts()
        {
            match CountsAfter::new(body)?.leads_to(after, next - counter - 1) {
                Some(distance) => exact_after = next == counter + 1 && distance == (0, 0),
                None => _ = after_end.leads_to(sync, WINDOW)?,
            }
        }
        let [Some(last), before] = self.bases(counter) else {
            // No earlier frame has counts: only a frame after this one can confirm it.
            return Some(if exact_after { Fit::Next(0) } else { Fit::Near(WINDOW, 0) });
        };
        let mut bases = std::iter::once(last).chain(before);
        let (base, missing, distance) = bases
            .find_map(|(base, missing)| Some((base, missing, base.leads_to(sync, missing)?)))?;
        let clocks = match body.kind {
            FrameKind::Data => apart(sync.clock, base.clock),
            _ => 0,
        };
        Some(if exact_after || missing == 0 && base.is_exactly(sync) && distance == (0, 0) {
            Fit::Next(clocks)
        } else {
            Fit::Near(missing + u64::from(base.damaged), clocks)
        })
    }

    fn fit_heartbeat(&self, counter: u64, body: &Body<'_>) -> Option<Fit> {
        let (now, before) = (body.heartbeat()?, self.decoder.heartbeat);
        let passed = now.transmit_clocks.wrapping_sub(before.transmit_clocks) & CLOCK_MASK;
        let missing = self.sequencer.missing_before(counter);
        Some(match missing {
            // The clock of one of the two is damaged, or this heartbeat is another card's, which then fits better.
            _ if passed > CLOCK_MASK / 2 => Fit::Near(WINDOW, passed),
            0 => Fit::Next(passed),
            missing => Fit::Near(missing, passed),
        })
    }
}
