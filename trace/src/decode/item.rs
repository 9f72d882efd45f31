//! What a trace is made of, and where its elements go.

use std::fmt;

use hmtt_format::info::ReportError;
use hmtt_format::{BlockError, Cycles, Event, Report};
use serde::Serialize;

use super::clock::clock_of;
use super::columns::Columns;
use super::frame::{FrameError, Origin};
use super::gap::Gap;

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
    /// The frames around it follow each other without it, and it does not fit between them.
    #[error("frame counter or counts contradict those of the frames around")]
    Contradiction,
    /// The frame was read, with records that it cannot have had.
    #[error("records stand for {0} accesses more than the next frame tells of")]
    Excess(u64),
}

/// One element of a trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Item {
    /// A record.
    Event(Event),
    /// Something is missing here.
    Gap(Box<Gap>),
    /// The card said what it is and does, or had said so before the capture (see
    /// [`super::Links::continue_from`]).
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

/// `DDR clock lost at 12.345 ms of the transmit clock (losses since power-on: 1)`
impl fmt::Display for DdrClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { running, lost, losses, transmit_nanos } = *self;
        let what = match (running, lost) {
            (false, _) => "lost",
            (true, 0) => "found again",
            (true, _) => "lost and found again",
        };
        let milliseconds = transmit_nanos as f64 / 1e6;
        write!(f, "DDR clock {what} at {milliseconds:.3} ms of the transmit clock")?;
        write!(f, " (losses since power-on: {losses})")
    }
}

impl Item {
    /// When the item happened, if it is an event or a report.
    pub fn clock(&self) -> Option<Cycles> {
        match self {
            Item::Report { clock, .. } => Some(*clock),
            Item::Event(event) => clock_of(*event),
            _ => None,
        }
    }
}

/// Takes the items of one trace, in its order. [`Items`] and [`Counted`] make sinks of closures.
pub trait Sink {
    /// Whether events are wanted; if not, they are counted and everything else comes as an item.
    const EVENTS: bool = true;

    /// Takes an item.
    fn item(&mut self, item: Item);

    /// Takes note that all items of a frame, which came by `origin`, were given.
    fn frame_read(&mut self, _origin: Origin) {}

    /// Where accesses go; if this is none, each is an item of its own. Whoever has columns finds in
    /// their length, when an item comes, which accesses were before it.
    fn columns(&mut self) -> Option<&mut Columns> {
        None
    }
}

/// Every element is an item.
#[derive(Debug)]
pub struct Items<F>(pub F);

impl<F: FnMut(Item)> Sink for Items<F> {
    fn item(&mut self, item: Item) {
        (self.0)(item);
    }
}

/// Events are counted only; what else a trace has are items.
#[derive(Debug)]
pub struct Counted<F>(pub F);

impl<F: FnMut(Item)> Sink for Counted<F> {
    const EVENTS: bool = false;

    fn item(&mut self, item: Item) {
        (self.0)(item);
    }
}
