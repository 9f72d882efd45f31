//! Defines the items of a trace.

use std::fmt;

use hmtt_format::info::ReportError;
use hmtt_format::{BlockError, Cycles, Event, Report};
use serde::{Deserialize, Serialize};

use super::frame::{FrameError, Origin};
use super::gap::Gap;

/// The reason why a frame was dropped, wholly or from some word on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Malformation {
    /// The frame's headers are invalid.
    #[error(transparent)]
    Frame(#[from] FrameError),
    /// The frame's records are invalid.
    #[error(transparent)]
    Block(#[from] BlockError),
    /// The report that the frame carries is invalid.
    #[error(transparent)]
    Report(#[from] ReportError),
    /// The frames before and after this one can follow each other, and this one does not fit
    /// between them.
    #[error("frame counter or counts contradict those of the frames around")]
    Contradiction,
    /// The frame does not state the clock at which the previous data frame ended, and the next
    /// frame shows that the stated clock is wrong.
    #[error("clock contradicts those of the frames around")]
    StatedClock,
    /// The frame was decoded, but ends at another clock than the next data frame states.
    #[error("records end at another clock than the next frame states")]
    EndClock,
    /// The frame was decoded, but does not state the clock at which the previous data frame ended.
    /// No other frame shows which of the two clocks is wrong.
    #[error("clock differs from that of the frame before: one of the two frames is damaged")]
    Clock,
    /// The frame was decoded, but to more accesses than it can have held. Holds the number of
    /// excess accesses.
    #[error("records represent {0} accesses more than the next frame states")]
    Excess(u64),
}

/// One element of a trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Item {
    /// A record.
    Event(Event),
    /// Records are missing here.
    Gap(Box<Gap>),
    /// A report of the card, from an info or end frame, or from before the capture (see
    /// [`super::Links::continue_from`]).
    Report {
        /// Clock of the report's sync.
        clock: Cycles,
        /// Whether an end frame carried the report, so that it is the session's last.
        end: bool,
        /// The content of the report.
        report: Box<Report>,
    },
    /// A frame was dropped, wholly or from some word on.
    Malformed {
        /// The place of the frame in the capture.
        origin: Origin,
        /// The reason why the frame was dropped.
        error: Malformation,
    },
    /// The card restarted: its counters and its clock begin again at 0. No gap extends across a
    /// restart.
    Restart,
    /// The card's DDR clock was lost or found again, as a heartbeat states.
    DdrClock(DdrClock),
    /// The session has no end frame: records after its last frame may be missing.
    NoEnd,
}

/// A change of the DDR clock that a heartbeat states. While the clock is stopped, the card sees no
/// commands and its event clock does not count. The serde aliases are the names of the fields in
/// tables of version 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DdrClock {
    /// Whether the DDR clock runs.
    pub running: bool,
    /// Losses of the DDR clock since the heartbeat before.
    #[serde(rename = "new_losses", alias = "lost")]
    pub lost: u16,
    /// Losses of the DDR clock since the card's power-on, modulo 2^16.
    pub losses: u16,
    /// Time at which the heartbeat was sent, in nanoseconds of the transmit clock since the card's
    /// power-on.
    #[serde(alias = "transmit_nanos")]
    pub transmit_ns: u64,
}

/// `DDR clock lost at 12.345 ms of the transmit clock (losses since power-on: 1)`
impl fmt::Display for DdrClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { running, lost, losses, transmit_ns } = *self;
        let what = match (running, lost) {
            (false, _) => "lost",
            (true, 0) => "found again",
            (true, _) => "lost and found again",
        };
        let milliseconds = transmit_ns as f64 / 1e6;
        write!(f, "DDR clock {what} at {milliseconds:.3} ms of the transmit clock")?;
        write!(f, " (losses since power-on: {losses})")
    }
}

impl Item {
    /// Clock of the item, in clock cycles; `None` unless it is an event or a report.
    pub fn clock(&self) -> Option<Cycles> {
        match self {
            Item::Report { clock, .. } => Some(*clock),
            Item::Event(event) => event.clock(),
            _ => None,
        }
    }
}
