//! Decides whether a known card still sends beside a run that begins like a card that was just
//! switched on. If the card has become silent, the run may be the card's own.
//!
//! If the run is the card's own after a restart, frames that the card sent before the restart may
//! still arrive, up to [`WINDOW`] places late. Counters do not identify these late frames: they can
//! be higher than all earlier counters, because a restart begins again with counter 0.

use hmtt_format::frame::COUNTER_MASK;

use crate::decode::sequence::WINDOW;

/// Number of frames of the run and the card together, since the run began, after which no late
/// frame from before the run can arrive. A frame of the run can arrive [`WINDOW`] places early, and
/// a frame sent before the run as many places late.
const ALL_LATE: usize = 2 * WINDOW as usize;
/// Number of frames of a run, with no frame of the card in between, after which the card is taken
/// to be silent.
const SILENT: usize = WINDOW as usize;
/// Number of frames with counters ahead of the card's newest, after which the card seems to send
/// still.
const GOES_ON: u32 = 4;

/// Frames of a card since the beginning of a run that may be a power-on. Only frames are counted
/// whose counters show that the card sent them after the run began. The counters of a card that has
/// restarted do not show this, because they begin again with 0.
#[derive(Clone, Copy, Debug)]
pub(super) struct BesidePowerOn {
    /// The card's highest counter when the run began, modulo 2^40: frames up to it were sent before
    /// the run.
    newest: u64,
    /// Frames with counters after `newest`.
    ahead: u32,
    /// Number of frames of the run when the card's last frame arrived; `None` before the card's
    /// first frame.
    run_at_last: Option<usize>,
    /// Whether a frame of the card arrived when run and card had at least [`ALL_LATE`] frames, so
    /// that it is no late frame.
    continues: bool,
}

impl BesidePowerOn {
    pub fn new(newest: u64) -> Self {
        BesidePowerOn { newest, ahead: 0, run_at_last: None, continues: false }
    }

    /// The card's highest counter when the run began, modulo 2^40.
    pub fn newest(&self) -> u64 {
        self.newest
    }

    /// Counts a frame of the card. `run`: the number of frames of the run; `before`: the frames of
    /// the card since the run began. Returns whether this frame is the first to show that the card
    /// still sends.
    pub fn note(&mut self, counter: u64, run: usize, before: u32) -> bool {
        let ahead = counter.wrapping_sub(self.newest) & COUNTER_MASK;
        let is_ahead = (1..=COUNTER_MASK / 2).contains(&ahead);
        self.ahead = self.ahead.saturating_add(is_ahead.into());
        self.run_at_last = Some(run);
        let continued = self.continues();
        self.continues |= run.saturating_add(before as usize) >= ALL_LATE;
        !continued && self.continues()
    }

    /// Whether the card still sends beside the run, so that the run is not the card's.
    pub fn continues(&self) -> bool {
        // Two cards that are switched on together are likelier than one that is switched on twice.
        let is_young = self.newest < WINDOW;
        self.continues || is_young && self.ahead >= GOES_ON
    }

    /// Whether late frames of the card may still come, so that more frames of the run are to be
    /// awaited.
    pub fn may_be_late(&self, run: usize) -> bool {
        self.run_at_last.is_some_and(|last| run < last + SILENT)
    }

    /// Whether the card seems to send beside the run, if no more frames are awaited. `run`: the
    /// number of frames of the run; `since`: the frames of the card since the run began;
    /// `is_clean`: whether all frames on the wire are a card's.
    pub fn seems_to_continue(&self, run: usize, since: u32, is_clean: bool) -> bool {
        if self.continues() || run.saturating_add(since as usize) >= ALL_LATE {
            return self.continues();
        }
        // Late frames arrive soon after the run began.
        let is_late = self.run_at_last.is_some_and(|last| last * 2 < run);
        if is_clean { self.ahead >= GOES_ON && !is_late } else { self.run_at_last.is_some() }
    }
}
