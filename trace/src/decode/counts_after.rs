//! Computes a card's counts after a frame, and whether another frame can follow it.
//!
//! Every sync states how many accesses the card had counted and how many records it had lost. The
//! counts after a frame are the counts in its sync plus the accesses in the frame. For example, a
//! frame whose sync states 100 accesses and that holds 8 ends at 108, and the next sync has to
//! state 108. All counts and clocks are modular; differences of more than half the range are taken
//! for negative.

use hmtt_format::Tally;
use hmtt_format::block::UNIT_NONE;
use hmtt_format::frame::{ACCESSES_MASK, FrameKind, LOST_MASK, MAX_WORDS, SYNC_WORDS, Sync};
use hmtt_format::memory::PAGE_LOG2;
use hmtt_format::record::CLOCK_MASK;

use super::distance::{FARTHEST_DETOUR, WINDOW};
use super::frame::{Body, Frame};

/// Maximum number of accesses in a frame whose records are lines or bursts.
pub const FRAME_ACCESSES: u64 = (MAX_WORDS - SYNC_WORDS) as u64 * 2;
/// Maximum number of clocks by which a sync may be behind the clock after the previous frame. A
/// sync can be behind, because slices and reports run ahead of records.
pub const CLOCK_SLACK: u64 = 1 << 32;

/// The card's counts and clock after a frame.
#[derive(Clone, Copy, Debug)]
pub struct CountsAfter {
    pub accesses: u64,
    pub lost: u32,
    pub clock: u64,
    /// Whether the frame could not be read to its end, so that the counts are lower bounds.
    pub damaged: bool,
    /// Whether each record of the frame stands for one access ([`counts_each_access`]). If not, a
    /// record that the card lost after the frame may also stand for several accesses, even if the
    /// next frame has another unit.
    pub counts_each_access: bool,
}

impl CountsAfter {
    /// The counts of a card that was just switched on.
    pub const POWER_ON: CountsAfter =
        CountsAfter { accesses: 0, lost: 0, clock: 0, damaged: false, counts_each_access: true };

    /// The counts after a frame, from the frame alone; `None` if it cannot be read or has no sync.
    pub fn new(body: &Body<'_>) -> Option<Self> {
        let sync = body.sync()?;
        let (tally, damaged) = match body.kind {
            FrameKind::Data => {
                let tally = Tally::of(body.bytes()).ok()?;
                (tally, tally.error.is_some())
            }
            _ => (Tally::new(sync), false),
        };
        let accesses = sync.accesses.wrapping_add(tally.accesses) & ACCESSES_MASK;
        let counts_each_access = counts_each_access(sync);
        Some(CountsAfter {
            accesses,
            lost: sync.lost,
            clock: tally.clock.0,
            damaged,
            counts_each_access,
        })
    }

    /// Whether a sync states exactly these counts.
    pub fn is_exactly(&self, sync: Sync) -> bool {
        !self.damaged && (self.accesses, self.lost) == (sync.accesses, sync.lost)
    }

    /// Accesses and lost records from these counts up to a sync; `None` if they are more than
    /// `missing` frames, the unread part of this frame and the lost records can account for. For
    /// example, from 100 accesses to a sync that states 130, with no lost record: `None` if no
    /// frame is missing, and `Some((30, 0))` if one frame is missing.
    pub fn counts_to(&self, sync: Sync, missing: u64) -> Option<(u64, u32)> {
        let missing = missing + u64::from(self.damaged);
        let accesses = sync.accesses.wrapping_sub(self.accesses) & ACCESSES_MASK;
        let lost = sync.lost.wrapping_sub(self.lost) & LOST_MASK;
        let each_access = self.counts_each_access && counts_each_access(sync);
        let most = match (each_access, missing, lost) {
            (_, 0, 0) => 0,
            (true, ..) => missing.saturating_mul(FRAME_ACCESSES).saturating_add(lost.into()),
            (false, ..) => ACCESSES_MASK / 2,
        };
        let possible = accesses <= most.min(ACCESSES_MASK / 2) && lost <= LOST_MASK / 2;
        possible.then_some((accesses, lost))
    }

    /// Whether a frame is from the past: it ends at no more than `reached` accesses, and is not
    /// further behind `reached` than a late frame can be. `self`: the counts after the frame;
    /// `sync`: its sync.
    pub fn is_past(&self, reached: u64, sync: Sync) -> bool {
        let behind = reached.wrapping_sub(self.accesses) & ACCESSES_MASK;
        behind
            <= if counts_each_access(sync) {
                FARTHEST_DETOUR * FRAME_ACCESSES
            } else {
                ACCESSES_MASK / 2
            }
    }

    /// Whether the sync's clock is more than [`CLOCK_SLACK`] behind this clock.
    pub fn is_ahead_of(&self, sync: Sync) -> bool {
        let back = self.clock.wrapping_sub(sync.clock) & CLOCK_MASK;
        back > CLOCK_SLACK && back <= CLOCK_MASK / 2
    }

    /// Returns the same as [`CountsAfter::counts_to`], but also `None` if the sync's clock is too
    /// far behind this clock.
    pub fn leads_to(&self, sync: Sync, missing: u64) -> Option<(u64, u32)> {
        self.counts_to(sync, missing).filter(|_| !self.is_ahead_of(sync))
    }
}

/// What a waiting frame states about its place in its session. The summary is computed once,
/// because many frames may be compared with the waiting frame.
#[derive(Clone, Copy, Debug)]
pub enum FrameSummary {
    /// The sync of the frame, and the counts after it.
    Counts(Sync, CountsAfter),
    Heartbeat,
    Unreadable,
}

impl FrameSummary {
    pub fn new(frame: &Frame<'_>) -> Self {
        let Ok(body) = frame.body else { return FrameSummary::Unreadable };
        match body.sync().zip(CountsAfter::new(&body)) {
            Some((sync, end)) => FrameSummary::Counts(sync, end),
            None => FrameSummary::Heartbeat,
        }
    }

    pub fn counts(self) -> Option<(Sync, CountsAfter)> {
        match self {
            FrameSummary::Counts(sync, end) => Some((sync, end)),
            FrameSummary::Heartbeat | FrameSummary::Unreadable => None,
        }
    }
}

/// Whether two frames may be close to each other in one session: one of them could follow the
/// other, or `second` ends at no more accesses than `first`. Each frame is given as its sync and
/// the counts after it.
pub fn may_be_near(first: (Sync, CountsAfter), second: (Sync, CountsAfter)) -> bool {
    let ((stated, end), (sync, other_end)) = (first, second);
    let leads = |end: CountsAfter, sync| end.leads_to(sync, FARTHEST_DETOUR + WINDOW).is_some();
    leads(end, sync) || leads(other_end, stated) || other_end.is_past(end.accesses, sync)
}

/// Whether the records after a sync name lines or bursts, so that each record stands for one
/// access.
pub fn counts_each_access(sync: Sync) -> bool {
    sync.unit_log2 != UNIT_NONE && sync.unit_log2 < PAGE_LOG2
}

/// The distance between two 48-bit clocks, in clocks, in either order.
pub fn apart(first: u64, second: u64) -> u64 {
    let ahead = first.wrapping_sub(second) & CLOCK_MASK;
    ahead.min((CLOCK_MASK + 1) - ahead)
}
