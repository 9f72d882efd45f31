//! A frame and a trace to how well the one goes on where the other has led: what tells the frames of
//! two cards on one wire apart, since they carry no card's name.
//!
//! A frame that has the next counter and states exactly the accesses that were reached is near-certain
//! to be the same card's: two cards that agree in both by chance agree again in no frame that follows.
//! Everything else is judged by whether the counts could have become what the frame states.

use hmtt_format::Tally;
use hmtt_format::block::UNIT_NONE;
use hmtt_format::frame::{ACCESSES_MASK, FrameKind, LOST_MASK, MAX_WORDS, SYNC_WORDS, Sync};
use hmtt_format::memory::PAGE_LOG2;
use hmtt_format::record::CLOCK_MASK;

use super::decoder::Reached;
use super::frame::{Body, Frame};
use super::sequence::{FARTHEST_DETOUR, Place, WINDOW};
use super::trace::Trace;

/// Most accesses of a frame whose records are lines or bursts.
const FRAME_ACCESSES: u64 = (MAX_WORDS - SYNC_WORDS) as u64 * 2;
/// How far a sync's clock may be behind what came before: slices and reports run ahead of records.
const CLOCK_SLACK: u64 = 1 << 32;

/// How well a frame fits a trace, the best first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Fit {
    /// It goes on exactly where another frame ended; clocks between the two.
    Next(u64),
    /// A copy of a frame that came.
    Copy,
    /// Counts could have become what it states; counts and clocks between the two.
    Near(u64, u64),
    /// It comes after its place was given up.
    Late,
}

impl Fit {
    /// Whether the card is alive: copies and late frames are of its past.
    pub fn goes_on(self) -> bool {
        matches!(self, Fit::Next(_) | Fit::Near(..))
    }
}

/// Where a frame has led.
#[derive(Clone, Copy, Debug)]
struct End {
    accesses: u64,
    lost: u32,
    clock: u64,
    /// It could not be read to its end.
    damaged: bool,
}

/// Where a frame leads by itself; none if it cannot be read or has no sync.
fn end_of(body: &Body<'_>) -> Option<End> {
    let sync = body.sync()?;
    let (tally, damaged) = match body.kind {
        FrameKind::Data => {
            let tally = Tally::of(body.bytes()).ok()?;
            (tally, tally.error.is_some())
        }
        _ => (Tally::new(sync), false),
    };
    let accesses = sync.accesses.wrapping_add(tally.accesses) & ACCESSES_MASK;
    Some(End { accesses, lost: sync.lost, clock: tally.clock.0, damaged })
}

impl Trace {
    /// Whether a frame is the next one without any doubt; quick.
    pub(super) fn is_certain(&self, frame: &Frame<'_>) -> bool {
        let Some((kind, sync)) = frame.body.ok().and_then(|body| Some((body.kind, body.sync()?)))
        else {
            return false;
        };
        self.sequencer.is_in_order(frame.counter)
            && self.decoder.reached.is_some_and(|reached| {
                let clock = reached.clock.0 & CLOCK_MASK;
                (reached.accesses, reached.lost) == (sync.accesses, sync.lost)
                    && (kind != FrameKind::Data || clock == sync.clock)
            })
    }

    /// How well a frame fits; none if it contradicts what came, or is too far ahead to be sure.
    pub(super) fn fit(&self, frame: &Frame<'_>, bytes: &[u8]) -> Option<Fit> {
        let counter = match self.sequencer.place(frame, bytes) {
            Place::Ahead(counter) if self.sequencer.distance(counter) < WINDOW => counter,
            Place::Duplicate => return Some(Fit::Copy),
            Place::Late => return self.is_past(frame).then_some(Fit::Late),
            Place::Ahead(_) | Place::Restart => return None,
        };
        let Ok(body) = &frame.body else {
            return Some(Fit::Near(self.sequencer.distance(counter), 0));
        };
        match body.sync() {
            Some(sync) => self.fit_sync(counter, sync, body),
            None => self.fit_heartbeat(counter, body),
        }
    }

    /// Whether a frame could be this card's after a long gap.
    pub(super) fn could_reach(&self, frame: &Frame<'_>, bytes: &[u8]) -> bool {
        let Place::Ahead(counter) = self.sequencer.place(frame, bytes) else { return false };
        let sync = frame.body.ok().and_then(|body| body.sync());
        let (Some((base, missing)), Some(sync)) = (self.base(counter), sync) else { return true };
        forward(base, sync, missing).is_some()
    }

    /// Whether a frame has a counter that this card could use now, whatever else it says.
    pub(super) fn is_near(&self, frame: &Frame<'_>, bytes: &[u8]) -> bool {
        match self.sequencer.place(frame, bytes) {
            Place::Ahead(counter) => self.sequencer.distance(counter) < WINDOW,
            _ => false,
        }
    }

    fn is_past(&self, frame: &Frame<'_>) -> bool {
        let sync = frame.body.ok().and_then(|body| body.sync());
        let (Some(sync), Some(reached)) = (sync, self.decoder.reached) else { return true };
        let behind = reached.accesses.wrapping_sub(sync.accesses) & ACCESSES_MASK;
        behind <= if is_fine(sync) { FARTHEST_DETOUR * FRAME_ACCESSES } else { ACCESSES_MASK / 2 }
    }

    /// Where the frames before `counter` have led, as far as they came, and how many of those between
    /// were not read.
    fn base(&self, counter: u64) -> Option<(End, u64)> {
        let (mut unseen, mut reached_to) = (0, counter);
        for (held, bytes) in self.sequencer.held_before(counter) {
            unseen += reached_to - held - 1;
            reached_to = held;
            match Frame::parse(bytes)?.body {
                Ok(body) => match end_of(&body) {
                    Some(end) => return Some((end, unseen + u64::from(end.damaged))),
                    None => continue,
                },
                Err(_) => unseen += 1,
            }
        }
        let reached = self.decoder.reached?;
        unseen += reached_to.saturating_sub(self.sequencer.next());
        unseen += self.decoder.pending.frames + self.decoder.pending.damaged_frames;
        let Reached { accesses, lost, clock, .. } = reached;
        Some((End { accesses, lost, clock: clock.0 & CLOCK_MASK, damaged: false }, unseen))
    }

    fn fit_sync(&self, counter: u64, sync: Sync, body: &Body<'_>) -> Option<Fit> {
        // The frame after it must be able to follow.
        let mut exact_after = false;
        if let Some((next, bytes)) = self.sequencer.held_after(counter)
            && let Some(after) = Frame::parse(bytes)?.body.ok().and_then(|body| body.sync())
        {
            let end = end_of(body)?;
            let distance = forward(end, after, next - counter - 1 + u64::from(end.damaged))?;
            exact_after = next == counter + 1 && distance == (0, 0);
        }
        let Some((base, missing)) = self.base(counter) else {
            // Only what came after it speaks for it, unless nothing has counted yet.
            return Some(if exact_after { Fit::Next(0) } else { Fit::Near(WINDOW, 0) });
        };
        let distance = forward(base, sync, missing)?;
        let clocks = match body.kind {
            FrameKind::Data => apart(sync.clock, base.clock),
            _ => 0,
        };
        Some(if exact_after || missing == 0 && distance == (0, 0) {
            Fit::Next(clocks)
        } else {
            Fit::Near(missing, clocks)
        })
    }

    fn fit_heartbeat(&self, counter: u64, body: &Body<'_>) -> Option<Fit> {
        let (now, before) = (body.heartbeat()?, self.decoder.heartbeat);
        let passed = now.transmit_clocks.wrapping_sub(before.transmit_clocks) & CLOCK_MASK;
        let missing = self.sequencer.missing_before(counter);
        (passed <= CLOCK_MASK / 2).then_some(match missing {
            0 => Fit::Next(passed),
            missing => Fit::Near(missing, passed),
        })
    }
}

/// Whether records name lines or bursts, so that each stands for one access.
fn is_fine(sync: Sync) -> bool {
    sync.unit_log2 != UNIT_NONE && sync.unit_log2 < PAGE_LOG2
}

/// How far apart two clocks of frames are.
fn apart(one: u64, other: u64) -> u64 {
    let ahead = one.wrapping_sub(other) & CLOCK_MASK;
    ahead.min((CLOCK_MASK + 1) - ahead)
}

/// Accesses and records lost from `base` to `sync`, if `missing` frames between them could have held
/// what is not in the records lost.
fn forward(base: End, sync: Sync, missing: u64) -> Option<(u64, u32)> {
    let accesses = sync.accesses.wrapping_sub(base.accesses) & ACCESSES_MASK;
    let lost = sync.lost.wrapping_sub(base.lost) & LOST_MASK;
    let back = base.clock.wrapping_sub(sync.clock) & CLOCK_MASK;
    let most = match (is_fine(sync), missing, lost) {
        (_, 0, 0) => 0,
        (true, ..) => missing.saturating_mul(FRAME_ACCESSES).saturating_add(lost.into()),
        (false, ..) => ACCESSES_MASK / 2,
    };
    let possible = accesses <= most.min(ACCESSES_MASK / 2)
        && lost <= LOST_MASK / 2
        && (back > CLOCK_MASK / 2 || back <= CLOCK_SLACK);
    possible.then_some((accesses, lost))
}
