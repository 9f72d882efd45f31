//! What a decoder counted: everything that came, and everything that did not.

use std::collections::BTreeMap;

use hmtt_format::Tally;
use hmtt_format::account::Balance;
use hmtt_format::frame::Sync;
use serde::Serialize;

use super::gap::Gap;
use super::sequence::Order;

/// Gaps kept one by one; further ones are only counted.
pub const MAX_PLACED_GAPS: usize = 10_000;

/// Mismatches of bursts kept one by one; further ones are only counted.
const MAX_MISMATCHES: usize = 20;

/// A capture, from a start to a stop, whose records do not stand for the bursts that the card counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct BurstMismatch {
    /// Bursts the card counted.
    pub card: u64,
    /// Fewest that its records stand for.
    pub least: u64,
    /// Most that its records, and those it lost, stand for.
    pub most: u64,
    /// Those of its slices and tags, where slices were on all the time and nothing was lost.
    pub in_slices: Option<u64>,
}

/// Counts of a trace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// Frames of a card, copies and unreadable ones included.
    pub frames: u64,
    /// Bytes of those frames, without FCS.
    pub bytes: u64,
    /// Words in frames that were decoded, syncs and reports included.
    pub words: u64,
    /// Records decoded.
    pub records: u64,
    /// Accesses those records stand for.
    pub accesses: u64,
    /// Those of them that are READs.
    pub reads: u64,
    /// Those of them that are WRITEs.
    pub writes: u64,
    /// Bytes of the lines and bursts that were accessed; a page run, a slice and a tag count bursts,
    /// whose length is known once the card has reported.
    pub access_bytes: u64,
    /// Protocol faults among the records, by name.
    pub faults: BTreeMap<&'static str, u64>,
    /// What happened to the order of frames.
    #[serde(flatten)]
    pub order: Order,
    /// Frames that no card sent, strays included.
    pub foreign: u64,
    /// Frames with a card's addresses that go on from no card: forged, or damaged beyond recognition.
    pub strays: u64,
    /// Frames of a card that could not be read, or not to their end.
    pub malformed: u64,
    /// Records the card says it lost.
    pub card_lost_records: u64,
    /// Accesses that are not in the trace, whatever the reason, as far as the card's counts tell.
    pub lost_accesses: u64,
    /// The card's accesses before the first frame.
    pub accesses_before_start: u64,
    /// Heartbeat frames.
    pub heartbeats: u64,
    /// Times the card's DDR clock was lost, by what heartbeats say.
    pub ddr_clock_losses: u64,
    /// End frames.
    pub ends: u64,
    /// The trace is followed by an end frame, so nothing is missing at its tail.
    pub complete_tail: bool,
    /// Captures, from a start to a stop, whose bursts on the card were compared with the records.
    pub captures_compared: u64,
    /// Those of them in which the records do not stand for as many bursts.
    pub captures_mismatched: u64,
    /// The first of these.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub burst_mismatches: Vec<BurstMismatch>,
    /// Clocks at which the first frame began and the last ended; the last may be of a later session.
    #[serde(skip)]
    pub clocks: Option<(u64, u64)>,
    /// Number of gaps.
    pub gap_count: u64,
    /// The gaps, at most [`MAX_PLACED_GAPS`].
    pub gaps: Vec<Gap>,
}

impl Counts {
    /// Whether anything between the first frame and the last is known to be missing.
    pub fn has_loss(&self) -> bool {
        self.order.missing != 0
            || self.card_lost_records != 0
            || self.lost_accesses != 0
            || self.malformed != 0
            || self.captures_mismatched != 0
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
        let room = MAX_PLACED_GAPS.saturating_sub(self.gaps.len());
        self.gaps.extend(other.gaps.iter().take(room));
    }

    /// Goes on with what the same card counted later. Each gap is moved, not copied.
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

    /// What was before these counts has turned out to be another card's: so is the restart or the gap
    /// with which they begin. `opening`: what the first frame says of what was before it.
    pub(super) fn drop_predecessor(&mut self, restarted: bool, opening: Sync) {
        self.clocks = self.clocks.map(|(_, last)| (opening.clock, last));
        if restarted {
            self.order.restarts = self.order.restarts.saturating_sub(1);
        } else {
            let missing = self.start_at_first_gap(opening.accesses);
            self.order.missing = self.order.missing.saturating_sub(missing);
        }
    }

    fn combine(&mut self, other: &Counts, with: fn(u64, u64) -> u64) {
        let pairs = [
            (&mut self.frames, other.frames),
            (&mut self.bytes, other.bytes),
            (&mut self.words, other.words),
            (&mut self.records, other.records),
            (&mut self.accesses, other.accesses),
            (&mut self.reads, other.reads),
            (&mut self.writes, other.writes),
            (&mut self.access_bytes, other.access_bytes),
            (&mut self.foreign, other.foreign),
            (&mut self.strays, other.strays),
            (&mut self.malformed, other.malformed),
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

    /// The first gap becomes what came before the start, because its other side was another card's.
    /// `before`: accesses before the start. What the gap said of missing frames comes back.
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

    /// Notes what a frame held. `burst_bytes`: what a burst moves; 0 if not known.
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

    /// Notes what a capture's bursts came to.
    pub(super) fn balance(&mut self, balance: Balance) {
        self.captures_compared = self.captures_compared.saturating_add(1);
        if !balance.holds() {
            self.captures_mismatched = self.captures_mismatched.saturating_add(1);
            let Balance { card, least, most, sliced } = balance;
            self.mismatches(&[BurstMismatch { card, least, most, in_slices: sliced }]);
        }
    }

    fn mismatches(&mut self, more: &[BurstMismatch]) {
        let room = MAX_MISMATCHES.saturating_sub(self.burst_mismatches.len());
        self.burst_mismatches.extend(more.iter().take(room));
    }

    /// Notes a gap.
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
