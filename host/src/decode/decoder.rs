//! Frames that are in order to the items of their session.

use hmtt_format::block::UNIT_NONE;
use hmtt_format::frame::{
    ACCESSES_MASK, FrameKind, Heartbeat, LOST_MASK, SYNC_WORDS, Sync, TRANSMIT_CLOCK_NS,
};
use hmtt_format::{Block, Cycles, Event, Report, Tally};

use super::clock::LongClock;
use super::counts::Counts;
use super::frame::{Body, Frame, Origin};
use super::gap::Gap;
use super::item::{DdrClock, Item, Malformation, Sink};
use super::sequence::Step;

/// Where the frames of a session have led to so far.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reached {
    pub clock: Cycles,
    pub accesses: u64,
    pub lost: u32,
    /// The frame that led here.
    pub origin: Origin,
}

impl Reached {
    /// Whether a sync counts less than what came before it: the card was reset, though its frame
    /// counter went on. Counts are modular, so "less" is "more than half the range ahead".
    fn is_after(self, sync: Sync) -> bool {
        sync.accesses.wrapping_sub(self.accesses) & ACCESSES_MASK > ACCESSES_MASK / 2
            || sync.lost.wrapping_sub(self.lost) & LOST_MASK > LOST_MASK / 2
    }
}

/// First clock of the slice a frame of nothing but slices begins with: its sync's clock is older.
fn first_slice(sync: Sync, body: &Body<'_>) -> Option<Cycles> {
    if sync.unit_log2 != UNIT_NONE {
        return None;
    }
    match Block::new(body.words()).ok()?.next() {
        Some(Ok(Event::Slice { clock, .. } | Event::Interval { clock, .. })) => Some(clock),
        _ => None,
    }
}

/// Reads frames that are in order.
#[derive(Clone, Debug)]
pub(super) struct Decoder {
    pub counts: Counts,
    pub reached: Option<Reached>,
    clock: LongClock,
    /// First clock of the last slice: slices do not move the clocks of frames.
    last_slice: Cycles,
    /// What is known of a gap whose other side has not been read yet.
    pub pending: Gap,
    any_frame: bool,
    ended: bool,
    /// The last heartbeat of the session, or what stands for it at its start.
    pub heartbeat: Heartbeat,
    /// Bytes a burst moves, by the session's last report.
    burst_bytes: u64,
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
            burst_bytes: 0,
        }
    }
}

/// A card that was just switched on.
const POWER_ON: Heartbeat = Heartbeat { running: true, losses: 0, transmit_clocks: 0 };

impl Decoder {
    pub fn step(&mut self, step: Step<'_>, sink: &mut impl Sink) {
        match step {
            Step::Missing { first, frames } => {
                self.pending.frames += frames;
                self.pending.first_frame.get_or_insert(first);
            }
            Step::Restart => {
                self.close_session(sink);
                self.restart(sink);
                (self.any_frame, self.ended) = (false, false);
                (self.heartbeat, self.burst_bytes) = (POWER_ON, 0);
            }
            Step::Frame(origin, bytes) => {
                self.any_frame = true;
                let Some(frame) = Frame::parse(bytes) else { return };
                let read = frame
                    .body
                    .map_err(Malformation::from)
                    .and_then(|body| self.body(origin, &body, sink));
                if let Err(error) = read {
                    self.pending.damaged_frames += 1;
                    self.counts.malformed += 1;
                    sink.item(Item::Malformed { origin, error });
                }
            }
        }
    }

    fn body(
        &mut self,
        origin: Origin,
        body: &Body<'_>,
        sink: &mut impl Sink,
    ) -> Result<(), Malformation> {
        self.counts.words += body.words().len() as u64;
        if let Some(heartbeat) = body.heartbeat() {
            self.heartbeat(heartbeat, sink);
            return Ok(());
        }
        let sync = Block::new(body.words())?.sync();
        self.compare(origin, sync, first_slice(sync, body), sink);
        let last = self.reached.map(|reached| reached.clock);
        let (clock, accesses, result) = match body.kind {
            FrameKind::Data | FrameKind::Heartbeat => {
                self.ended = false;
                let (tally, result) = self.records(body, sink)?;
                let clock = self.clock.extend(tally.clock).max(self.last_slice);
                (clock, tally.accesses, result)
            }
            FrameKind::Info => {
                let result = self.report(body, sync, false, sink);
                // A report is sent at once; a record that still waits may carry an older clock.
                (last.unwrap_or(self.clock.extend(Cycles(sync.clock))), 0, result)
            }
            FrameKind::End => {
                self.ended = true;
                let result = self.report(body, sync, true, sink);
                (self.clock.extend(Cycles(sync.clock)).max(self.last_slice), 0, result)
            }
        };
        let entered = self.clock.extend(Cycles(sync.clock)).0;
        let clocks = self.counts.clocks.get_or_insert((entered, entered));
        clocks.1 = if body.kind == FrameKind::Data { clock.0 } else { entered };
        let accesses = sync.accesses.wrapping_add(accesses) & ACCESSES_MASK;
        self.reached = Some(Reached { clock, accesses, lost: sync.lost, origin });
        result
    }

    /// States what a heartbeat says of the DDR clock that was not known.
    fn heartbeat(&mut self, heartbeat: Heartbeat, sink: &mut impl Sink) {
        self.counts.heartbeats += 1;
        let before = std::mem::replace(&mut self.heartbeat, heartbeat);
        let lost = heartbeat.losses.wrapping_sub(before.losses);
        if lost != 0 || heartbeat.running != before.running {
            self.counts.ddr_clock_losses += u64::from(lost);
            sink.item(Item::DdrClock(DdrClock {
                running: heartbeat.running,
                lost,
                losses: heartbeat.losses,
                transmit_nanos: heartbeat.transmit_clocks * TRANSMIT_CLOCK_NS,
            }));
        }
    }

    /// States what is missing between what was reached and a sync.
    fn compare(&mut self, origin: Origin, sync: Sync, slice: Option<Cycles>, sink: &mut impl Sink) {
        if self.reached.is_some_and(|reached| reached.is_after(sync)) {
            self.restart(sink);
        }
        let mut gap = std::mem::take(&mut self.pending);
        let from = self.reached;
        let (accesses, lost) = from.map_or((0, 0), |reached| (reached.accesses, reached.lost));
        let accesses = sync.accesses.wrapping_sub(accesses) & ACCESSES_MASK;
        gap.accesses = Some(accesses);
        gap.records = sync.lost.wrapping_sub(lost) & LOST_MASK;
        let entered = self.clock.enter_frame(sync.clock);
        // A report damaged beyond reading cost no access, and its frame is counted as malformed.
        if gap.frames != 0 || gap.records != 0 || accesses != 0 {
            gap.after = from.map(|reached| reached.clock);
            gap.before = Some(slice.map_or(entered, |slice| self.clock.extend(slice)));
            gap.after_packet = from.map(|reached| reached.origin.packet);
            gap.after_time = from.and_then(|reached| reached.origin.time);
            (gap.before_packet, gap.before_time) = (Some(origin.packet), origin.time);
            self.gap(gap, sink);
        }
    }

    fn gap(&mut self, gap: Gap, sink: &mut impl Sink) {
        self.counts.gap(gap);
        sink.item(Item::Gap(Box::new(gap)));
    }

    fn restart(&mut self, sink: &mut impl Sink) {
        self.counts.order.restarts += 1;
        self.reached = None;
        self.last_slice = Cycles(0);
        self.clock = LongClock::default();
        sink.item(Item::Restart);
    }

    /// Reads the records of a data frame the way the sink wants them.
    fn records<S: Sink>(
        &mut self,
        body: &Body<'_>,
        sink: &mut S,
    ) -> Result<(Tally, Result<(), Malformation>), Malformation> {
        let fast = match sink.columns() {
            Some(columns) => {
                let clock = body.sync().map(|sync| self.clock.extend(Cycles(sync.clock)));
                clock.and_then(|clock| columns.append(body.bytes(), clock))
            }
            None if S::EVENTS => None,
            None => Tally::of_halves(body.bytes()),
        };
        let (tally, result) = match fast {
            Some(tally) => (tally, Ok(())),
            None => self.events(body, sink)?,
        };
        self.counts.records(&tally, self.burst_bytes);
        Ok((tally, result))
    }

    fn events<S: Sink>(
        &mut self,
        body: &Body<'_>,
        sink: &mut S,
    ) -> Result<(Tally, Result<(), Malformation>), Malformation> {
        let mut block = Block::new(body.words())?;
        let mut tally = Tally::new(block.sync());
        let mut result = Ok(());
        for event in &mut block {
            let event = match event {
                Ok(event) => self.clock.extend_event(event),
                Err(error) => {
                    result = Err(error.into());
                    break;
                }
            };
            tally.note(&event);
            match (event, S::EVENTS) {
                (Event::Access(access), true) => match sink.columns() {
                    Some(columns) => columns.push(access),
                    None => sink.item(Item::Event(event)),
                },
                (_, true) => {
                    self.note(&event);
                    sink.item(Item::Event(event));
                }
                (_, false) => self.note(&event),
            }
        }
        tally.clock = block.clock();
        Ok((tally, result))
    }

    fn note(&mut self, event: &Event) {
        match event {
            Event::Slice { clock, .. } => self.last_slice = *clock,
            Event::Fault { kind, .. } => *self.counts.faults.entry(kind.name()).or_default() += 1,
            _ => {}
        }
    }

    fn report(
        &mut self,
        body: &Body<'_>,
        sync: Sync,
        end: bool,
        sink: &mut impl Sink,
    ) -> Result<(), Malformation> {
        let words: Vec<u64> = body.words().skip(usize::from(SYNC_WORDS)).collect();
        let report = Box::new(Report::decode(&words)?);
        let burst_length = report.burst_length.unwrap_or(report.memory.burst_length);
        self.burst_bytes = u64::from(burst_length) << report.memory.bus_log2.min(32);
        let clock = self.clock.extend(Cycles(sync.clock));
        sink.item(Item::Report { clock, end, report });
        Ok(())
    }

    pub fn close_session(&mut self, sink: &mut impl Sink) {
        let mut gap = std::mem::take(&mut self.pending);
        if gap.frames != 0 || gap.damaged_frames != 0 {
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
