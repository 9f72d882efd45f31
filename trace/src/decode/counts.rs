//! Counts the received and the missing frames, records and accesses of a decoder.
//!
//! Invariant: all additions saturate, so forged counts cannot overflow.

use std::collections::BTreeMap;

use hmtt_format::Tally;
use hmtt_format::account::Balance;
use hmtt_format::frame::Sync;
use serde::Serialize;

use super::gap::Gap;
use super::sequence::Order;

/// Maximum number of gaps that are kept one by one; further gaps are only counted.
pub const MAX_PLACED_GAPS: usize = 10_000;

/// Maximum number of burst mismatches that are kept one by one; further mismatches are only
/// counted.
const MAX_MISMATCHES: usize = 20;

/// A capture on the card, from a start to a stop, whose records do not account for the bursts that
/// the card counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct BurstMismatch {
    /// Bursts that the card counted.
    pub card_bursts: u64,
    /// Minimum number of bursts that the card's records account for.
    pub at_least: u64,
    /// Maximum number of bursts that the card's records and its lost records account for.
    pub at_most: u64,
    /// Bursts of the card's slices and tags; `None` unless slices were on all the time and nothing
    /// was lost.
    pub slice_bursts: Option<u64>,
}

/// The counts of one trace, or of several traces together.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// Frames of a card, copies and unreadable frames included.
    pub frames: u64,
    /// Bytes of these frames, from the destination address on, without FCS.
    pub frame_bytes: u64,
    /// 64-bit words in frames that were decoded, syncs and reports included.
    pub words: u64,
    /// Records that were decoded.
    pub records: u64,
    /// Accesses that these records stand for.
    pub accesses: u64,
    /// Accesses that are READs.
    pub reads: u64,
    /// Accesses that are WRITEs.
    pub writes: u64,
    /// Bytes of the lines and bursts that were accessed. Page runs, slices and tags count bursts,
    /// whose length in bytes is known once the card has reported; bursts before that add nothing.
    pub access_bytes: u64,
    /// Protocol faults among the records, by name.
    pub faults: BTreeMap<&'static str, u64>,
    /// Frames that were missing, copied or out of order.
    #[serde(flatten)]
    pub order: Order,
    /// Frames that no card sent, strays included.
    pub foreign_frames: u64,
    /// Frames with a card's addresses that continue no card's frames: forged, or damaged beyond
    /// recognition.
    pub stray_frames: u64,
    /// Frames of a card that could not be read, or could not be read to their end.
    pub malformed_frames: u64,
    /// Records that the card states it lost.
    pub card_lost_records: u64,
    /// Accesses that are missing from the trace for any reason, as far as the card's counts show.
    pub lost_accesses: u64,
    /// Accesses that the card counted before the first frame of the capture.
    pub accesses_before_start: u64,
    /// Heartbeat frames.
    pub heartbeats: u64,
    /// Times the card's DDR clock was lost, as heartbeats state.
    pub ddr_clock_losses: u64,
    /// End frames.
    pub ends: u64,
    /// Whether an end frame follows the trace, so that nothing is missing at its tail.
    pub complete_tail: bool,
    /// Captures on the card, from a start to a stop, whose counted bursts were compared with the
    /// records.
    pub captures_compared: u64,
    /// Compared captures whose records do not account for the bursts that the card counted.
    pub captures_mismatched: u64,
    /// The first mismatched captures, at most 20.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub burst_mismatches: Vec<BurstMismatch>,
    /// Extended clocks at which the first frame began and the last frame ended. The last frame may
    /// be of a later session.
    #[serde(skip)]
    pub clocks: Option<(u64, u64)>,
    /// Number of gaps, including gaps beyond [`MAX_PLACED_GAPS`].
    pub gap_count: u64,
    /// The first gaps, in the order of the trace, at most [`MAX_PLACED_GAPS`].
    pub gaps: Vec<Gap>,
}

impl Counts {
    /// Whether anything between the first frame and the last is known to be missing.
    pub fn has_loss(&self) -> bool {
        self.order.missing_frames != 0
            || self.card_lost_records != 0
            || self.lost_accesses != 0
            || self.malformed_frames != 0
            || self.captures_mismatched != 0
    }

    /// Moves a frame of `bytes` bytes from the card's frames to the foreign frames.
    pub(super) fn note_stray(&mut self, bytes: usize) {
        self.frames = self.frames.saturating_sub(1);
        self.frame_bytes = self.frame_bytes.saturating_sub(bytes as u64);
        self.foreign_frames = self.foreign_frames.saturating_add(1);
    }

    /// Adds the counts of another card.
    pub fn add(&mut self, other: &Counts) {
        let first = self.frames == 0;
        self.combine(other, u64::saturating_add);
        for (name, count) in &other.faults {
            let total = self.faults.entry(name).or_default();
            *total = total.saturating_add(*count);
        }
        self.mismatches(&other.burst_mismatches);
        self.complete_tail = other.complete_tail && (first || self.complete_tail);
        self.clocks = self.clocks.or(other.clocks);
        let free = MAX_PLACED_GAPS.saturating_sub(self.gaps.len());
        self.gaps.extend(other.gaps.iter().take(free));
    }

    /// Appends later counts of the same card. Gaps are moved, not copied.
    pub(super) fn append(&mut self, mut later: Counts) {
        self.combine(&later, u64::saturating_add);
        for (name, count) in &later.faults {
            let total = self.faults.entry(name).or_default();
            *total = total.saturating_add(*count);
        }
        self.mismatches(&later.burst_mismatches);
        self.complete_tail = later.complete_tail;
        let first = self.clocks.or(later.clocks).map(|(first, _)| first);
        self.clocks = first.zip(later.clocks.or(self.clocks).map(|(_, last)| last));
        if self.gaps.is_empty() {
            self.gaps = later.gaps;
        } else {
            self.gaps.append(&mut later.gaps);
            self.gaps.truncate(MAX_PLACED_GAPS);
        }
    }

    /// Removes the restart or the gap with which these counts begin, because the frames before it
    /// were another card's. `restarted`: whether the counts begin with a restart; `opening`: the
    /// sync of the first frame, which states the counts before it.
    pub(super) fn drop_predecessor(&mut self, restarted: bool, opening: Sync) {
        self.clocks = self.clocks.map(|(_, last)| (opening.clock, last));
        if restarted {
            self.order.restarts = self.order.restarts.saturating_sub(1);
        } else {
            let missing = self.start_at_first_gap(opening.accesses);
            self.order.missing_frames = self.order.missing_frames.saturating_sub(missing);
        }
    }

    fn combine(&mut self, other: &Counts, with: fn(u64, u64) -> u64) {
        let pairs = [
            (&mut self.frames, other.frames),
            (&mut self.frame_bytes, other.frame_bytes),
            (&mut self.words, other.words),
            (&mut self.records, other.records),
            (&mut self.accesses, other.accesses),
            (&mut self.reads, other.reads),
            (&mut self.writes, other.writes),
            (&mut self.access_bytes, other.access_bytes),
            (&mut self.foreign_frames, other.foreign_frames),
            (&mut self.stray_frames, other.stray_frames),
            (&mut self.malformed_frames, other.malformed_frames),
            (&mut self.card_lost_records, other.card_lost_records),
            (&mut self.lost_accesses, other.lost_accesses),
            (&mut self.accesses_before_start, other.accesses_before_start),
            (&mut self.heartbeats, other.heartbeats),
            (&mut self.ddr_clock_losses, other.ddr_clock_losses),
            (&mut self.ends, other.ends),
            (&mut self.gap_count, other.gap_count),
            (&mut self.captures_compared, other.captures_compared),
            (&mut self.captures_mismatched, other.captures_mismatched),
        ];
        for (count, other) in pairs {
            *count = with(*count, other);
        }
        self.order.combine(&other.order, with);
    }

    /// Turns the first gap into a gap at the start of the trace, because the frames before the gap
    /// were another card's. `before`: accesses before the start. Returns the number of missing
    /// frames that the gap stated before.
    fn start_at_first_gap(&mut self, before: u64) -> u64 {
        let Some(gap) = self.gaps.first_mut() else { return 0 };
        let was = *gap;
        *gap = Gap {
            accesses: Some(before),
            before: was.before,
            before_packet: was.before_packet,
            before_time: was.before_time,
            ..Gap::default()
        };
        if before == 0 {
            self.gaps.remove(0);
            self.gap_count = self.gap_count.saturating_sub(1);
        }
        self.accesses_before_start = self.accesses_before_start.saturating_add(before);
        self.card_lost_records = self.card_lost_records.saturating_sub(was.records.into());
        self.lost_accesses = self.lost_accesses.saturating_sub(was.accesses.unwrap_or(0));
        was.frames
    }

    /// Adds the records of a frame. `burst_bytes`: bytes that a burst moves, 0 if not known.
    pub(super) fn records(&mut self, tally: &Tally, burst_bytes: u64) {
        let add = |count: &mut u64, more| *count = count.saturating_add(more);
        add(&mut self.records, tally.records);
        add(&mut self.accesses, tally.accesses);
        add(&mut self.reads, tally.reads);
        add(&mut self.writes, tally.writes);
        let units = tally.accesses.saturating_sub(tally.bursts);
        add(&mut self.access_bytes, units.saturating_mul(1 << tally.sync.unit_log2));
        add(&mut self.access_bytes, tally.bursts.saturating_mul(burst_bytes));
    }

    /// Adds the comparison of a capture's bursts with its records.
    pub(super) fn balance(&mut self, balance: Balance) {
        self.captures_compared = self.captures_compared.saturating_add(1);
        if !balance.holds() {
            self.captures_mismatched = self.captures_mismatched.saturating_add(1);
            let Balance { card, least, most, sliced } = balance;
            self.mismatches(&[BurstMismatch {
                card_bursts: card,
                at_least: least,
                at_most: most,
                slice_bursts: sliced,
            }]);
        }
    }

    fn mismatches(&mut self, more: &[BurstMismatch]) {
        let free = MAX_MISMATCHES.saturating_sub(self.burst_mismatches.len());
        self.burst_mismatches.extend(more.iter().take(free));
    }

    /// Counts a gap and what is missing in it, and keeps the gap itself if fewer than
    /// [`MAX_PLACED_GAPS`] gaps are kept.
    pub(super) fn gap(&mut self, gap: Gap) {
        let add = |count: &mut u64, more| *count = count.saturating_add(more);
        add(&mut self.gap_count, 1);
        if gap.after.is_some() {
            add(&mut self.card_lost_records, gap.records.into());
            add(&mut self.lost_accesses, gap.accesses.unwrap_or(0));
        } else {
            add(&mut self.accesses_before_start, gap.accesses.unwrap_or(0));
        }
        if self.gaps.len() < MAX_PLACED_GAPS {
            self.gaps.push(gap);
        }
    }
}
