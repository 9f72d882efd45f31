//! Converts the items of a card's trace to [`Step`]s: accesses, tags, marks, gaps and restarts.
//!
//! Accesses to the configuration registers are left out, because the software that controls the
//! card makes them. Clocks continue to increase across restarts of the card. The time between two
//! sessions is not known and counts as 0.

use hmtt_format::config::{Granularity, REGISTERS_LOG2};
use hmtt_format::{Direction, Event, Report};
use serde::Serialize;

use super::traffic::Traffic;
use crate::decode::{Accesses, Item};

/// A step of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Accesses to a line, burst or page.
    Accesses {
        /// First byte of the line, burst or page.
        address: u64,
        /// Counts of the accesses.
        traffic: Traffic,
    },
    /// A write to the card's window, which may be a tag. Holds the offset from the window's base,
    /// in bytes.
    Tag(u64),
    /// A mark. Holds the number of its register.
    Mark(u32),
    /// A loss of accesses and possibly of tags.
    Gap,
    /// A restart of the card: a new session begins.
    Restart,
}

/// Counts of the contents of a trace other than accesses and tags.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct TraceContents {
    /// Clock period in picoseconds, if the card reported it.
    pub tck_ps: Option<u32>,
    /// Number of marks.
    pub marks: u64,
    /// Reads of the card's window, which tags never make.
    pub window_reads: u64,
    /// Accesses to the configuration registers.
    pub configuration_accesses: u64,
    /// Accesses that the card has only counted, so that their addresses are not known.
    pub counted_only: u64,
    /// Number of gaps with a loss.
    #[serde(rename = "gap_count")]
    pub gaps: u64,
    /// Accesses and tags that were lost in the gaps. Gaps whose loss is not known count as 0.
    pub lost_accesses: u64,
    /// Number of restarts of the card.
    pub restarts: u64,
}

/// Converts the trace of one card.
#[derive(Debug)]
pub struct Steps {
    /// Counts of the contents other than accesses and tags.
    pub found: TraceContents,
    /// Base address of the card's window, if the card reported it.
    pub window: Option<u64>,
    /// Size of the card's window in bytes, if the card reported it.
    pub window_bytes: Option<u64>,
    /// Number of reports of the card.
    pub reports: u64,
    /// Number of writes to the card's window.
    pub tags: u64,
    /// Bytes of an access that the card records: of a line or of a burst.
    unit_bytes: u64,
    /// Bytes of a burst.
    burst_bytes: u64,
    /// First address after the configuration registers.
    registers: u64,
    /// Clock at the last restart, which is added to the clocks of the current session.
    before: u64,
    /// Highest clock so far. It continues to increase across restarts.
    pub last: u64,
}

impl Default for Steps {
    fn default() -> Self {
        let (contents, window, window_bytes) = Default::default();
        let (unit_bytes, burst_bytes) = (64, 64);
        let registers = 8 << REGISTERS_LOG2;
        Steps {
            found: contents,
            window,
            window_bytes,
            reports: 0,
            tags: 0,
            unit_bytes,
            burst_bytes,
            registers,
            before: 0,
            last: 0,
        }
    }
}

impl Steps {
    /// Converts accesses. Calls `to` with the clock and the step of each.
    pub fn accesses(&mut self, accesses: &Accesses<'_>, to: &mut impl FnMut(u64, Step)) {
        for access in accesses.iter() {
            let (reads, writes) = match access.direction {
                Direction::Read => (1, 0),
                Direction::Write => (0, 1),
            };
            let bytes = self.unit_bytes;
            self.some(
                access.clock.0,
                access.address.0,
                Traffic { reads, writes, bytes, clocks: 0 },
                to,
            );
        }
    }

    /// Converts an item. Calls `to` with the clock and the step, if the item becomes a step.
    pub fn item(&mut self, item: &Item, to: &mut impl FnMut(u64, Step)) {
        match item {
            Item::Event(event) => self.event(event, to),
            Item::Report { report, .. } => self.report(report),
            Item::Gap(gap) if gap.is_loss() => {
                self.found.gaps += 1;
                self.found.lost_accesses += gap.accesses.unwrap_or_default();
                to(self.last, Step::Gap);
            }
            Item::Restart => {
                self.found.restarts += 1;
                self.before = self.last;
                to(self.last, Step::Restart);
            }
            Item::Gap(_) | Item::Malformed { .. } | Item::DdrClock(_) | Item::NoEnd => {}
        }
    }

    fn event(&mut self, event: &Event, to: &mut impl FnMut(u64, Step)) {
        match *event {
            Event::Access(access) => {
                let columns = ([access.clock.0], [access.address.0]);
                let writes = [access.direction == Direction::Write];
                let accesses =
                    Accesses { clocks: &columns.0, addresses: &columns.1, writes: &writes };
                self.accesses(&accesses, to);
            }
            Event::Page { clock, address, reads, writes, .. } => {
                let (reads, writes) = (u64::from(reads), u64::from(writes));
                let bytes = (reads + writes) * self.burst_bytes;
                self.some(clock.0, address.0, Traffic { reads, writes, bytes, clocks: 0 }, to);
            }
            Event::Tag { clock, direction: Direction::Write, offset, .. } => {
                self.tags += 1;
                to(self.clock(clock.0), Step::Tag(offset.into()));
            }
            Event::Tag { direction: Direction::Read, .. } => self.found.window_reads += 1,
            Event::Mark { clock, register } => {
                self.found.marks += 1;
                to(self.clock(clock.0), Step::Mark(register.0));
            }
            Event::Slice { reads, writes, .. } => {
                self.found.counted_only += u64::from(reads) + u64::from(writes);
            }
            Event::Fault { .. }
            | Event::Interval { .. }
            | Event::Count { .. }
            | Event::HotPage { .. } => {}
        }
    }

    /// Passes on accesses to an address, or counts them if they are to the configuration registers.
    fn some(&mut self, clock: u64, address: u64, traffic: Traffic, to: &mut impl FnMut(u64, Step)) {
        let clock = self.clock(clock);
        if address < self.registers {
            self.found.configuration_accesses += traffic.accesses();
            return;
        }
        to(clock, Step::Accesses { address, traffic });
    }

    /// Stores the settings of the card that a report states.
    fn report(&mut self, report: &Report) {
        let memory = &report.memory;
        self.reports += 1;
        self.found.tck_ps = Some(memory.tck_ps);
        self.burst_bytes = 1 << memory.burst_log2().min(62);
        self.unit_bytes = match report.granularity {
            Granularity::Line => 1 << memory.line_log2.min(62),
            Granularity::Burst => self.burst_bytes,
        };
        let size = 1_u64 << memory.tag_window_log2.min(62);
        if let Some(base) = report.tag_window {
            (self.window, self.window_bytes) = (Some(base & !(size - 1)), Some(size));
        }
        self.registers =
            1 << (u32::from(REGISTERS_LOG2) + u32::from(memory.config_stride_log2)).min(62);
    }

    /// Converts a clock of the card to a clock that continues across restarts.
    fn clock(&mut self, clock: u64) -> u64 {
        self.last = self.last.max(self.before.saturating_add(clock));
        self.before.saturating_add(clock)
    }
}
