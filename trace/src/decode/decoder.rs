//! Decodes the frames of one card, in counter order, into items, and states the gaps between them.
//!
//! The frames come from the quarantine, which has dropped contradictory frames. The decoder
//! compares the counts in each sync with the counts after the previous frame; a difference becomes
//! a [`Gap`]. For example, if a frame ends at 100 accesses and the next sync states 130, the gap
//! has 30 lost accesses.

mod records;

use hmtt_format::account::Account;
use hmtt_format::block::UNIT_NONE;
use hmtt_format::frame::{
    ACCESSES_MASK, FrameKind, Heartbeat, LOST_MASK, SYNC_WORDS, Sync, TRANSMIT_CLOCK_NS,
};
use hmtt_format::record::CLOCK_MASK;
use hmtt_format::{Block, Cycles, Event, Report};

use super::clock::LongClock;
use super::clock_check::ClockBefore;
use super::counts::Counts;
use super::counts_after::{CountsAfter, FRAME_ACCESSES, counts_each_access};
use super::frame::{Body, Origin};
use super::gap::Gap;
use super::item::{DdrClock, Item, Malformation};
use super::sequence::Step;
use super::sink::{CardSink, Sink};

/// Clock and counts after the last frame of a session that was decoded.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reached {
    pub clock: Cycles,
    pub accesses: u64,
    pub lost: u32,
    /// Origin of the last decoded frame.
    pub origin: Origin,
    /// Sync of the last decoded frame.
    entered: Sync,
    /// End of the last data frame; `None` if anything after it is missing.
    data_clock: Option<ClockBefore>,
}

impl Reached {
    /// Whether a sync states fewer accesses or lost records than the frames before it. The card was
    /// then reset, although its frame counter continued. Counts are modular, so "fewer" means "more
    /// than half the range ahead".
    fn is_after(self, sync: Sync) -> bool {
        sync.accesses.wrapping_sub(self.accesses) & ACCESSES_MASK > ACCESSES_MASK / 2
            || sync.lost.wrapping_sub(self.lost) & LOST_MASK > LOST_MASK / 2
    }

    /// Accesses that were decoded from the last frame although the frame cannot have held them.
    /// `sync`: the sync of the next frame, whose count lies between the counts before and after the
    /// last frame. For example, the last frame begins at 100 accesses and ends at 108: if the next
    /// sync states 105, the excess is 3. `None` if there is no excess, and for the first sync after
    /// a restart of the card, which states 0 accesses at clock 0.
    fn excess(self, sync: Sync) -> Option<u64> {
        let since = |count: u64| count.wrapping_sub(self.entered.accesses) & ACCESSES_MASK;
        let clocks = sync.clock.wrapping_sub(self.entered.clock) & CLOCK_MASK;
        let excess = since(self.accesses).checked_sub(since(sync.accesses))?;
        let is_first = (sync.accesses, sync.clock) == (0, 0);
        let possible = !is_first && sync.lost == self.lost && clocks <= CLOCK_MASK / 2;
        (possible && excess != 0).then_some(excess)
    }
}

impl From<Reached> for CountsAfter {
    fn from(reached: Reached) -> Self {
        let Reached { accesses, lost, clock, entered, .. } = reached;
        CountsAfter {
            accesses,
            lost,
            clock: clock.0 & CLOCK_MASK,
            damaged: false,
            counts_each_access: counts_each_access(entered),
        }
    }
}

/// First clock of the first slice in a frame that holds only slices; `None` for other frames. The
/// clock in the sync of such a frame is older.
fn first_slice(sync: Sync, body: &Body<'_>) -> Option<Cycles> {
    if sync.unit_log2 != UNIT_NONE {
        return None;
    }
    match Block::new(body.words()).ok()?.next() {
        Some(Ok(Event::Slice { clock, .. } | Event::Interval { clock, .. })) => Some(clock),
        _ => None,
    }
}

/// A decoder of one card's frames.
#[derive(Clone, Debug)]
pub(super) struct Decoder {
    pub counts: Counts,
    pub reached: Option<Reached>,
    clock: LongClock,
    /// First clock of the last slice. It may be later than the clocks of the frames.
    last_slice: Cycles,
    /// A gap whose end is not known yet, because no readable frame has followed.
    pub pending: Gap,
    any_frame: bool,
    ended: bool,
    /// The last heartbeat of the session; [`POWER_ON`] before the first.
    pub heartbeat: Heartbeat,
    /// Whether the DDR clock was lost since the card last restarted its counts. If so, the card
    /// will restart them again.
    clock_lost: bool,
    /// Bytes that a burst moves, by the session's last report; 0 before the first report.
    burst_bytes: u64,
    /// Bursts that the session's records account for, since the capture was last started on the
    /// card.
    account: Account,
}

impl Default for Decoder {
    fn default() -> Self {
        Decoder {
            counts: Counts::default(),
            reached: None,
            clock: LongClock::default(),
            last_slice: Cycles(0),
            pending: Gap::default(),
            any_frame: false,
            ended: false,
            heartbeat: POWER_ON,
            clock_lost: false,
            burst_bytes: 0,
            account: Account::default(),
        }
    }
}

/// The state of a card that was just switched on.
const POWER_ON: Heartbeat = Heartbeat { running: true, losses: 0, transmit_clocks: 0 };

impl Decoder {
    /// A decoder with the state of this decoder and with empty counts.
    pub fn successor(&self) -> Self {
        Decoder { counts: Counts::default(), ..*self }
    }

    pub fn step(&mut self, step: Step<'_>, sink: &mut CardSink<'_, impl Sink>) {
        match step {
            Step::Missing { first, frames } => {
                self.pending.frames = self.pending.frames.saturating_add(frames);
                self.pending.first_frame.get_or_insert(first);
            }
            Step::Restart => {
                self.close_session(sink);
                self.restart(sink);
                (self.any_frame, self.ended) = (false, false);
                (self.heartbeat, self.burst_bytes) = (POWER_ON, 0);
                self.clock_lost = false;
            }
            Step::Stray(arrival) => self.counts.note_stray(arrival.bytes.len()),
            Step::Frame(arrival) => {
                self.any_frame = true;
                let origin = arrival.origin;
                let read = arrival
                    .frame
                    .body
                    .map_err(Malformation::from)
                    .and_then(|body| self.body(origin, &body, sink));
                if let Err(error) = read {
                    self.leave_out(origin, error, sink);
                }
                sink.frame_read(origin);
            }
        }
    }

    /// Counts a frame of the sequence that could not be read to its end, as a part of the next gap.
    pub fn leave_out(
        &mut self,
        origin: Origin,
        error: Malformation,
        sink: &mut CardSink<'_, impl Sink>,
    ) {
        self.pending.malformed_frames += 1;
        self.note_malformed(origin, error, sink);
    }

    /// Counts a damaged frame, and passes it to `sink` as [`Item::Malformed`].
    pub fn note_malformed(
        &mut self,
        origin: Origin,
        error: Malformation,
        sink: &mut CardSink<'_, impl Sink>,
    ) {
        self.counts.malformed_frames += 1;
        sink.item(Item::Malformed { origin, error });
    }

    /// Whether a frame is the first one that the card sent after its DDR clock was found again. The
    /// card's counts and clock then start from 0. `reported`: returns whether a frame that is not
    /// decoded yet may report a loss of the DDR clock.
    pub fn restarts_counts(
        &self,
        kind: FrameKind,
        sync: Sync,
        reported: impl FnOnce() -> bool,
    ) -> bool {
        kind == FrameKind::Info
            && (sync.accesses, sync.lost) == (0, 0)
            && (self.clock_lost || reported())
            && self.reached.is_some_and(|reached| {
                (reached.accesses, reached.lost) != (0, 0) || sync.clock < reached.entered.clock
            })
    }

    /// End of the data frame that directly precedes a sync; `None` if anything between the two is
    /// missing.
    pub fn clock_before(&self, sync: Sync) -> Option<ClockBefore> {
        let is_adjacent = self.pending.frames == 0 && self.pending.malformed_frames == 0;
        let reached = self.reached.filter(|_| is_adjacent)?;
        let is_exact = (reached.accesses, reached.lost) == (sync.accesses, sync.lost);
        reached.data_clock.filter(|_| is_exact)
    }

    /// Counts the last frame as damaged, although it was decoded.
    pub fn note_last_malformed(&mut self, error: Malformation, sink: &mut CardSink<'_, impl Sink>) {
        if let Some(reached) = self.reached {
            self.note_malformed(reached.origin, error, sink);
        }
    }

    /// Whether the last decoded frame may be damaged. If so, a sync can be correct although it does
    /// not state the counts after that frame.
    pub fn may_be_misled(&self, sync: Sync) -> bool {
        self.reached.is_some_and(|reached| {
            let more = sync.accesses.wrapping_sub(reached.accesses) & ACCESSES_MASK;
            let most = if counts_each_access(sync) { FRAME_ACCESSES } else { ACCESSES_MASK / 2 };
            let lost_some = reached.accesses != reached.entered.accesses && more <= most;
            reached.excess(sync).is_some() || lost_some && reached.lost == sync.lost
        })
    }

    fn body(
        &mut self,
        origin: Origin,
        body: &Body<'_>,
        sink: &mut CardSink<'_, impl Sink>,
    ) -> Result<(), Malformation> {
        self.counts.words += body.words().len() as u64;
        if let Some(heartbeat) = body.heartbeat() {
            self.heartbeat(heartbeat, sink);
            return Ok(());
        }
        let sync = Block::new(body.words())?.sync();
        if self.restarts_counts(body.kind, sync, || false) {
            self.restart_unended(sink);
        }
        let mut data_clock = self.clock_before(sync);
        self.compare(origin, sync, first_slice(sync, body), sink);
        let last = self.reached.map(|reached| reached.clock);
        let (clock, accesses, result) = match body.kind {
            FrameKind::Data | FrameKind::Heartbeat => {
                self.ended = false;
                let (tally, result) = self.records(body, sink)?;
                data_clock =
                    Some(ClockBefore { clock: tally.clock.0 & CLOCK_MASK, reported: false });
                let clock = self.clock.extend(tally.clock).max(self.last_slice);
                (clock, tally.accesses, result)
            }
            FrameKind::Info => {
                let result = self.report(body, sync, false, sink);
                // The card sends a report at once; a record in its queue may carry an older clock.
                (last.unwrap_or(self.clock.extend(Cycles(sync.clock))), 0, result)
            }
            FrameKind::End => {
                self.ended = true;
                let result = self.report(body, sync, true, sink);
                (self.clock.extend(Cycles(sync.clock)).max(self.last_slice), 0, result)
            }
        };
        if body.kind != FrameKind::Data {
            data_clock = data_clock.map(|before| ClockBefore { reported: true, ..before });
        }
        let entered = self.clock.extend(Cycles(sync.clock)).0;
        let clocks = self.counts.clocks.get_or_insert((entered, entered));
        clocks.1 = if body.kind == FrameKind::Data { clock.0 } else { entered };
        let accesses = sync.accesses.wrapping_add(accesses) & ACCESSES_MASK;
        let (lost, entered) = (sync.lost, sync);
        self.reached = Some(Reached { clock, accesses, lost, origin, entered, data_clock });
        result
    }

    /// Counts a heartbeat, and reports a change of the DDR clock that the heartbeat states.
    fn heartbeat(&mut self, heartbeat: Heartbeat, sink: &mut CardSink<'_, impl Sink>) {
        self.counts.heartbeats += 1;
        let before = std::mem::replace(&mut self.heartbeat, heartbeat);
        let lost = heartbeat.losses.wrapping_sub(before.losses);
        if lost != 0 || heartbeat.running != before.running {
            self.counts.ddr_clock_losses += u64::from(lost);
            self.clock_lost |= lost != 0;
            sink.item(Item::DdrClock(DdrClock {
                running: heartbeat.running,
                lost,
                losses: heartbeat.losses,
                transmit_ns: heartbeat.transmit_clocks * TRANSMIT_CLOCK_NS,
            }));
        }
    }

    /// Reports a gap if a sync states more than the counts after the last frame.
    fn compare(
        &mut self,
        origin: Origin,
        sync: Sync,
        slice: Option<Cycles>,
        sink: &mut CardSink<'_, impl Sink>,
    ) {
        if let Some(reached) = self.reached
            && let Some(excess) = reached.excess(sync)
        {
            self.note_malformed(reached.origin, Malformation::Excess(excess), sink);
            self.reached = Some(Reached { accesses: sync.accesses, ..reached });
        } else if self.reached.is_some_and(|reached| reached.is_after(sync)) {
            self.restart_unended(sink);
        }
        let mut gap = std::mem::take(&mut self.pending);
        let from = self.reached;
        let (accesses, lost) = from.map_or((0, 0), |reached| (reached.accesses, reached.lost));
        let accesses = sync.accesses.wrapping_sub(accesses) & ACCESSES_MASK;
        gap.accesses = Some(accesses);
        gap.records = sync.lost.wrapping_sub(lost) & LOST_MASK;
        let entered = self.clock.enter_frame(sync.clock);
        // An unreadable report makes no gap: it holds no access, and its frame is already counted
        // as malformed.
        if gap.frames != 0 || gap.records != 0 || accesses != 0 {
            gap.after = from.map(|reached| reached.clock);
            gap.before = Some(slice.map_or(entered, |slice| self.clock.extend(slice)));
            gap.after_packet = from.map(|reached| reached.origin.packet);
            gap.after_time = from.and_then(|reached| reached.origin.time);
            (gap.before_packet, gap.before_time) = (Some(origin.packet), origin.time);
            self.gap(gap, sink);
        }
    }

    fn gap(&mut self, gap: Gap, sink: &mut CardSink<'_, impl Sink>) {
        let frames = gap.frames.saturating_add(gap.malformed_frames);
        self.account.gap(gap.accesses.unwrap_or(0), gap.records, frames);
        self.counts.gap(gap);
        sink.item(Item::Gap(Box::new(gap)));
    }

    /// Handles a restart that only the counts or the DDR clock show. The records that the card held
    /// at that time are lost.
    fn restart_unended(&mut self, sink: &mut CardSink<'_, impl Sink>) {
        if !std::mem::take(&mut self.ended) {
            sink.item(Item::NoEnd);
        }
        self.clock_lost = false;
        self.restart(sink);
    }

    fn restart(&mut self, sink: &mut CardSink<'_, impl Sink>) {
        self.counts.order.restarts += 1;
        self.reached = None;
        self.account = Account::default();
        self.last_slice = Cycles(0);
        self.clock = LongClock::default();
        sink.item(Item::Restart);
    }

    fn report(
        &mut self,
        body: &Body<'_>,
        sync: Sync,
        end: bool,
        sink: &mut CardSink<'_, impl Sink>,
    ) -> Result<(), Malformation> {
        let words: Vec<u64> = body.words().skip(usize::from(SYNC_WORDS)).collect();
        let report = Box::new(Report::decode(&words)?);
        self.note_report(&report);
        if let Some(balance) = self.account.report(&report, end) {
            self.counts.balance(balance);
        }
        let clock = self.clock.extend(Cycles(sync.clock));
        sink.item(Item::Report { clock, end, report });
        Ok(())
    }

    /// Stores the burst length of a report, which the following records need.
    pub fn note_report(&mut self, report: &Report) {
        let burst_length = report.burst_length.unwrap_or(report.memory.burst_length);
        self.burst_bytes = u64::from(burst_length) << report.memory.bus_log2.min(32);
    }

    pub fn close_session(&mut self, sink: &mut CardSink<'_, impl Sink>) {
        let mut gap = std::mem::take(&mut self.pending);
        if gap.frames != 0 || gap.malformed_frames != 0 {
            gap.after = Some(self.reached.map_or(Cycles(0), |reached| reached.clock));
            gap.after_packet = self.reached.map(|reached| reached.origin.packet);
            gap.after_time = self.reached.and_then(|reached| reached.origin.time);
            self.gap(gap, sink);
        }
        self.counts.complete_tail = self.ended;
        if self.any_frame && !self.ended {
            sink.item(Item::NoEnd);
        }
    }
}
