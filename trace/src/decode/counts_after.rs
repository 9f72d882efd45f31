//! A frame to where its counts lead, and to whether another frame can follow there.

use hmtt_format::Tally;
use hmtt_format::block::UNIT_NONE;
use hmtt_format::frame::{ACCESSES_MASK, FrameKind, LOST_MASK, MAX_WORDS, SYNC_WORDS, Sync};
use hmtt_format::memory::PAGE_LOG2;
use hmtt_format::record::CLOCK_MASK;

use super::distance::{FARTHEST_DETOUR, WINDOW};
use super::frame::{Body, Frame};

/// Most accesses of a frame whose records are lines or bursts.
pub const FRAME_ACCESSES: u64 = (MAX_WORDS - SYNC_WORDS) as u64 * 2;
/// How far a sync's clock may be behind what came before: slices and reports run ahead of records.
pub const CLOCK_SLACK: u64 = 1 << 32;

/// Where a frame has led.
#[derive(Clone, Copy, Debug)]
pub struct CountsAfter {
    pub accesses: u64,
    pub lost: u32,
    pub clock: u64,
    /// It could not be read to its end.
    pub damaged: bool,
}

impl CountsAfter {
    /// Where a frame leads by itself; none if it cannot be read or has no sync.
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
        Some(CountsAfter { accesses, lost: sync.lost, clock: tally.clock.0, damaged })
    }

    /// Whether a sync states exactly the counts that were reached.
    pub fn is_exactly(&self, sync: Sync) -> bool {
        !self.damaged && (self.accesses, self.lost) == (sync.accesses, sync.lost)
    }

    /// Accesses and records lost up to a sync, if `missing` frames between them, and what could not be
    /// read of this one, could have held what is not in the records lost.
    pub fn counts_to(&self, sync: Sync, missing: u64) -> Option<(u64, u32)> {
        let missing = missing + u64::from(self.damaged);
        let accesses = sync.accesses.wrapping_sub(self.accesses) & ACCESSES_MASK;
        let lost = sync.lost.wrapping_sub(self.lost) & LOST_MASK;
        let most = match (counts_each_access(sync), missing, lost) {
            (_, 0, 0) => 0,
            (true, ..) => missing.saturating_mul(FRAME_ACCESSES).saturating_add(lost.into()),
            (false, ..) => ACCESSES_MASK / 2,
        };
        let possible = accesses <= most.min(ACCESSES_MASK / 2) && lost <= LOST_MASK / 2;
        possible.then_some((accesses, lost))
    }

    /// Whether a frame that states `sync` and leads here counts no more than was reached.
    pub fn is_past(&self, reached: u64, sync: Sync) -> bool {
        let behind = reached.wrapping_sub(self.accesses) & ACCESSES_MASK;
        behind
            <= if counts_each_access(sync) {
                FARTHEST_DETOUR * FRAME_ACCESSES
            } else {
                ACCESSES_MASK / 2
            }
    }

    /// As [`End::counts_to`], if the clock, too, could have gone on to the sync's.
    pub fn leads_to(&self, sync: Sync, missing: u64) -> Option<(u64, u32)> {
        let back = self.clock.wrapping_sub(sync.clock) & CLOCK_MASK;
        self.counts_to(sync, missing).filter(|_| back > CLOCK_MASK / 2 || back <= CLOCK_SLACK)
    }
}

/// What a frame that waits says of its place: read once, since many frames may be compared with it.
#[derive(Clone, Copy, Debug)]
pub enum FrameSummary {
    /// What it states, and where it leads.
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

/// Whether two frames, of each what it states and where it leads, may be of one session and so close that their order
/// matters: one of them could lead to the other, or count no more.
pub fn may_be_near(one: (Sync, CountsAfter), other: (Sync, CountsAfter)) -> bool {
    let ((stated, end), (sync, other_end)) = (one, other);
    let leads = |end: CountsAfter, sync| end.leads_to(sync, FARTHEST_DETOUR + WINDOW).is_some();
    leads(end, sync) || leads(other_end, stated) || other_end.is_past(end.accesses, sync)
}

/// Whether records name lines or bursts, so that each stands for one access.
pub fn counts_each_access(sync: Sync) -> bool {
    sync.unit_log2 != UNIT_NONE && sync.unit_log2 < PAGE_LOG2
}

/// How far apart two clocks of frames are.
pub fn apart(one: u64, other: u64) -> u64 {
    let ahead = one.wrapping_sub(other) & CLOCK_MASK;
    ahead.min((CLOCK_MASK + 1) - ahead)
}
