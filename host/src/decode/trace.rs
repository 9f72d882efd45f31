//! Frames as captured to the items of their trace.
//!
//! Each frame decodes alone; what its sync says is compared with what the frames before it led to,
//! and every difference becomes a [`Gap`] placed between two clocks. Invariant: the accesses of a
//! session's items, of its gaps and before its start add up to the count in its last sync. Refuses
//! nothing: a frame that cannot be read becomes [`Item::Malformed`].

use hmtt_format::block::UNIT_NONE;
use hmtt_format::frame::{
    ACCESSES_MASK, FrameKind, Heartbeat, LOST_MASK, SYNC_WORDS, Sync, TRANSMIT_CLOCK_NS,
};
use hmtt_format::info::ReportError;
use hmtt_format::{Block, BlockError, Cycles, Event, Report};
use serde::Serialize;

use super::clock::{LongClock, clock_of};
use super::counts::Counts;
use super::frame::{Body, Frame, FrameError, Origin};
use super::sequence::{Order, Sequencer, Step};

/// Something is missing from the trace here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Gap {
    /// Missing frames.
    pub frames: u64,
    /// Counter of the first missing frame.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_frame: Option<u64>,
    /// Records lost on the card.
    pub records: u32,
    /// Frames that came but could not be read to their end.
    pub damaged_frames: u64,
    /// Lost accesses; unknown when no readable frame of the session follows.
    pub accesses: Option<u64>,
    /// Clock of the last record before; none at the start of a session.
    #[serde(serialize_with = "serialize_clock")]
    pub after: Option<Cycles>,
    /// Clock from which the trace goes on; none when no readable frame of the session follows.
    #[serde(serialize_with = "serialize_clock")]
    pub before: Option<Cycles>,
}

fn serialize_clock<S: serde::Serializer>(
    clock: &Option<Cycles>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    clock.map(|clock| clock.0).serialize(serializer)
}

/// Why a frame was left out, wholly or from some word on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Malformation {
    /// The frame's headers.
    #[error(transparent)]
    Frame(#[from] FrameError),
    /// Its records.
    #[error(transparent)]
    Block(#[from] BlockError),
    /// The report it carries.
    #[error(transparent)]
    Report(#[from] ReportError),
}

/// One element of a trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Item {
    /// A record.
    Event(Event),
    /// Something is missing here.
    Gap(Gap),
    /// The card said what it is and does.
    Report {
        /// When.
        clock: Cycles,
        /// It said so for the last time.
        end: bool,
        /// What it said.
        report: Box<Report>,
    },
    /// A frame was left out, wholly or from some word on.
    Malformed {
        /// The frame.
        origin: Origin,
        /// Why.
        error: Malformation,
    },
    /// The card started to count anew: clocks and gaps do not reach across.
    Restart,
    /// The card's DDR clock was lost or found again.
    DdrClock(DdrClock),
    /// The session has no end frame: what follows its last frame is unknown.
    NoEnd,
}

/// What a heartbeat says of the DDR clock that the one before did not. While it stands still the card
/// sees no commands, and its event clock does not count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct DdrClock {
    /// It runs, again if it was lost.
    pub running: bool,
    /// Losses that the frames before did not tell of.
    pub lost: u16,
    /// All losses since the card's power-on, modulo 2^16.
    pub losses: u16,
    /// When the heartbeat was sent, in nanoseconds since the card's power-on by its transmit clock.
    pub transmit_nanos: u64,
}

impl Item {
    /// When the item happened, if it is an event or a report.
    pub fn clock(&self) -> Option<Cycles> {
        match self {
            Item::Report { clock, .. } => Some(*clock),
            Item::Event(event) => clock_of(event),
            _ => None,
        }
    }
}

/// Where the frames of a session have led to so far.
#[derive(Clone, Copy, Debug)]
struct Reached {
    clock: Cycles,
    accesses: u64,
    lost: u32,
}

impl Reached {
    /// Whether a sync counts less than what came before it: the card was reset, though its frame
    /// counter went on. Counts are modular, so "less" is "more than half the range ahead".
    fn is_after(self, sync: Sync) -> bool {
        sync.accesses.wrapping_sub(self.accesses) & ACCESSES_MASK > ACCESSES_MASK / 2
            || sync.lost.wrapping_sub(self.lost) & LOST_MASK > LOST_MASK / 2
    }
}

/// Decodes frames as they come.
#[derive(Debug, Default)]
pub struct Trace {
    sequencer: Sequencer,
    decoder: Decoder,
}

impl Trace {
    /// Takes the next captured frame; its items, or those of frames that waited for it, go to `sink`.
    pub fn push(&mut self, origin: Origin, bytes: &[u8], sink: &mut impl FnMut(Item)) {
        let Some(frame) = Frame::parse(bytes) else {
            self.decoder.counts.foreign += 1;
            return;
        };
        self.decoder.counts.frames += 1;
        self.decoder.counts.bytes += bytes.len() as u64;
        self.decoder.counts.ends += u64::from(frame.kind() == Some(FrameKind::End));
        let decoder = &mut self.decoder;
        self.sequencer.push(origin, bytes, &frame, &mut |step| decoder.step(step, sink));
    }

    /// The counts so far; those of the order are final only after [`Trace::finish`].
    pub fn counts(&self) -> &Counts {
        &self.decoder.counts
    }

    /// Decodes what still waits and closes the trace.
    pub fn finish(mut self, sink: &mut impl FnMut(Item)) -> Counts {
        let decoder = &mut self.decoder;
        self.sequencer.finish(&mut |step| decoder.step(step, sink));
        self.decoder.close_session(sink);
        let restarts = self.decoder.counts.order.restarts;
        self.decoder.counts.order = Order { restarts, ..self.sequencer.order() };
        self.decoder.counts
    }
}

/// First clock of the slice a frame of nothing but slices begins with: its sync's clock is older.
fn first_slice<I: Iterator<Item = u64> + Clone>(sync: Sync, block: &Block<I>) -> Option<Cycles> {
    match block.clone().next() {
        Some(Ok(Event::Slice { clock, .. } | Event::Interval { clock, .. }))
            if sync.unit_log2 == UNIT_NONE =>
        {
            Some(clock)
        }
        _ => None,
    }
}

/// Reads frames that are in order.
#[derive(Debug)]
struct Decoder {
    counts: Counts,
    reached: Option<Reached>,
    clock: LongClock,
    /// First clock of the last slice: slices do not move the clocks of frames.
    last_slice: Cycles,
    /// What is known of a gap whose other side has not been read yet.
    pending: Gap,
    any_frame: bool,
    ended: bool,
    /// The last heartbeat of the session, or what stands for it at its start.
    heartbeat: Heartbeat,
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
        }
    }
}

/// A card that was just switched on.
const POWER_ON: Heartbeat = Heartbeat { running: true, losses: 0, transmit_clocks: 0 };

impl Decoder {
    fn step(&mut self, step: Step<'_>, sink: &mut impl FnMut(Item)) {
        match step {
            Step::Missing { first, frames } => {
                self.pending.frames += frames;
                self.pending.first_frame.get_or_insert(first);
            }
            Step::Restart => {
                self.close_session(sink);
                self.restart(sink);
                (self.any_frame, self.ended) = (false, false);
                self.heartbeat = POWER_ON;
            }
            Step::Frame(origin, bytes) => {
                self.any_frame = true;
                let Some(frame) = Frame::parse(bytes) else { return };
                let read =
                    frame.body.map_err(Malformation::from).and_then(|body| self.body(&body, sink));
                if let Err(error) = read {
                    self.pending.damaged_frames += 1;
                    self.counts.malformed += 1;
                    sink(Item::Malformed { origin, error });
                }
            }
        }
    }

    fn body(&mut self, body: &Body<'_>, sink: &mut impl FnMut(Item)) -> Result<(), Malformation> {
        self.counts.words += body.words().len() as u64;
        if let Some(heartbeat) = body.heartbeat() {
            self.heartbeat(heartbeat, sink);
            return Ok(());
        }
        let mut block = Block::new(body.words())?;
        let sync = block.sync();
        self.compare(sync, first_slice(sync, &block), sink);
        let last = self.reached.map(|reached| reached.clock);
        let result = match body.kind {
            FrameKind::Data | FrameKind::Heartbeat => {
                self.ended = false;
                self.records(&mut block, sink)
            }
            FrameKind::Info => self.report(body, sync, false, sink),
            FrameKind::End => {
                self.ended = true;
                self.report(body, sync, true, sink)
            }
        };
        self.counts.accesses += block.accesses();
        self.reached = Some(Reached {
            clock: match body.kind {
                // A report is sent at once; a record that still waits may carry an older clock.
                FrameKind::Info => last.unwrap_or(self.clock.extend(block.clock())),
                _ => self.clock.extend(block.clock()).max(self.last_slice),
            },
            accesses: sync.accesses.wrapping_add(block.accesses()) & ACCESSES_MASK,
            lost: sync.lost,
        });
        result
    }

    /// States what a heartbeat says of the DDR clock that was not known.
    fn heartbeat(&mut self, heartbeat: Heartbeat, sink: &mut impl FnMut(Item)) {
        self.counts.heartbeats += 1;
        let before = std::mem::replace(&mut self.heartbeat, heartbeat);
        let lost = heartbeat.losses.wrapping_sub(before.losses);
        if lost != 0 || heartbeat.running != before.running {
            self.counts.ddr_clock_losses += u64::from(lost);
            sink(Item::DdrClock(DdrClock {
                running: heartbeat.running,
                lost,
                losses: heartbeat.losses,
                transmit_nanos: heartbeat.transmit_clocks * TRANSMIT_CLOCK_NS,
            }));
        }
    }

    /// States what is missing between what was reached and a sync.
    fn compare(&mut self, sync: Sync, slice: Option<Cycles>, sink: &mut impl FnMut(Item)) {
        if self.reached.is_some_and(|reached| reached.is_after(sync)) {
            self.restart(sink);
        }
        let mut gap = std::mem::take(&mut self.pending);
        let from = self.reached.unwrap_or(Reached { clock: Cycles(0), accesses: 0, lost: 0 });
        let accesses = sync.accesses.wrapping_sub(from.accesses) & ACCESSES_MASK;
        gap.accesses = Some(accesses);
        gap.records = sync.lost.wrapping_sub(from.lost) & LOST_MASK;
        gap.after = self.reached.map(|reached| reached.clock);
        let entered = self.clock.enter_frame(sync.clock);
        gap.before = Some(slice.map_or(entered, |slice| self.clock.extend(slice)));
        // A report damaged beyond reading cost no access, and its frame is counted as malformed.
        if gap.frames != 0 || gap.records != 0 || accesses != 0 {
            self.counts.gap(gap);
            sink(Item::Gap(gap));
        }
    }

    fn restart(&mut self, sink: &mut impl FnMut(Item)) {
        self.counts.order.restarts += 1;
        self.reached = None;
        self.last_slice = Cycles(0);
        self.clock = LongClock::default();
        sink(Item::Restart);
    }

    fn records<I: Iterator<Item = u64>>(
        &mut self,
        block: &mut Block<I>,
        sink: &mut impl FnMut(Item),
    ) -> Result<(), Malformation> {
        for event in block {
            self.counts.records += 1;
            let event = self.clock.extend_event(event?);
            match event {
                Event::Slice { clock, .. } => self.last_slice = clock,
                Event::Fault { kind, .. } => {
                    *self.counts.faults.entry(kind.name()).or_default() += 1
                }
                _ => {}
            }
            sink(Item::Event(event));
        }
        Ok(())
    }

    fn report(
        &self,
        body: &Body<'_>,
        sync: Sync,
        end: bool,
        sink: &mut impl FnMut(Item),
    ) -> Result<(), Malformation> {
        let words: Vec<u64> = body.words().skip(usize::from(SYNC_WORDS)).collect();
        let report = Box::new(Report::decode(&words)?);
        let clock = self.clock.extend(Cycles(sync.clock));
        sink(Item::Report { clock, end, report });
        Ok(())
    }

    fn close_session(&mut self, sink: &mut impl FnMut(Item)) {
        let mut gap = std::mem::take(&mut self.pending);
        if gap.frames != 0 || gap.damaged_frames != 0 {
            gap.after = Some(self.reached.map_or(Cycles(0), |reached| reached.clock));
            self.counts.gap(gap);
            sink(Item::Gap(gap));
        }
        self.counts.complete_tail = self.ended;
        if self.any_frame && !self.ended {
            sink(Item::NoEnd);
        }
    }
}
