//! A capture to what it says of itself: the card, its memory and settings, the time it covers.

use std::fmt;
use std::time::Duration;

use hmtt_format::{Report, config};
use serde::Serialize;

use super::memory::Memory;
use crate::decode::{Counts, DdrClock, Item};
use crate::pcapng::{Interface, Packet};

/// How a card is set.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Settings {
    /// Format version.
    pub version: u8,
    /// The capture runs.
    pub running: bool,
    /// `line`, `page`, `frequency` or `analysis`.
    pub mode: &'static str,
    /// `line` or `burst`.
    pub granularity: &'static str,
    /// Frequency slices are on.
    pub slices: bool,
    /// Length of a slice in microseconds, if its code has one.
    pub slice_micros: u32,
    /// Words after which a frame is sent.
    pub threshold_words: u8,
    /// Base of the tag window, hexadecimal, when it is on.
    pub tag_window: Option<String>,
    /// READ bursts counted by the card.
    pub reads: u64,
    /// WRITE bursts counted by the card.
    pub writes: u64,
    /// Protocol faults counted by the card.
    pub faults: u32,
    /// Tags and marks counted by the card.
    pub tags: u32,
    /// Protocol faults the card found no clock to report on, up to 255.
    pub unreported_faults: u8,
    /// Burst length in force, in bus words, if it is not each command that says 4 or 8.
    pub burst_length: Option<u8>,
}

/// What a capture says of itself.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Info {
    /// Where it was captured.
    pub interfaces: Vec<Interface>,
    /// Frames in the file, foreign ones included.
    pub packets: u64,
    /// Arrival of the first frame, in seconds since the epoch.
    pub first_arrival: Option<f64>,
    /// Seconds from the first frame to the last.
    pub seconds: Option<f64>,
    /// Clock of the first event or report.
    pub first_clock: Option<u64>,
    /// Clock of the last event or report.
    pub last_clock: Option<u64>,
    /// The card's settings and counters as of its last report.
    pub settings: Option<Settings>,
    /// The memory as of the last report.
    pub memory: Option<Memory>,
    /// The last that heartbeats said of the DDR clock, if it was ever lost.
    pub ddr_clock: Option<DdrClock>,
    /// What the frames hold, and what is missing.
    pub counts: Counts,
    #[serde(skip)]
    arrivals: Option<(Duration, Duration)>,
}

impl Info {
    /// Takes note of a frame.
    pub fn packet(&mut self, packet: &Packet<'_>) {
        self.packets += 1;
        if let Some(time) = packet.time {
            let (first, last) = self.arrivals.unwrap_or((time, time));
            self.arrivals = Some((first.min(time), last.max(time)));
        }
    }

    /// Takes note of an item.
    pub fn item(&mut self, item: &Item) {
        if let Some(clock) = item.clock() {
            self.first_clock.get_or_insert(clock.0);
            self.last_clock = Some(clock.0);
        }
        if let Item::DdrClock(ddr_clock) = item {
            self.ddr_clock = Some(*ddr_clock);
        }
        if let Item::Report { report, .. } = item {
            self.settings = Some(Settings::new(report));
            self.memory = Some(Memory::new(&report.memory, report.digest));
        }
    }

    /// Completes it with what is known at the end of the file.
    pub fn finish(mut self, counts: Counts, interfaces: &[Interface]) -> Self {
        self.counts = counts;
        self.interfaces = interfaces.to_vec();
        self.first_arrival = self.arrivals.map(|(first, _)| first.as_secs_f64());
        self.seconds = self.arrivals.map(|(first, last)| (last - first).as_secs_f64());
        self
    }
}

impl Settings {
    fn new(report: &Report) -> Self {
        Settings {
            version: report.version,
            running: report.running,
            mode: report.mode.name(),
            granularity: report.granularity.name(),
            slices: report.frequency,
            slice_micros: config::slice_micros(report.slice_code),
            threshold_words: report.threshold,
            tag_window: report.tag_window.map(|base| format!("{base:x}")),
            reads: report.reads,
            writes: report.writes,
            faults: report.faults,
            tags: report.tags,
            unreported_faults: report.unreported,
            burst_length: report.burst_length,
        }
    }
}

/// One line: what, and its value.
pub(super) fn row(f: &mut fmt::Formatter<'_>, name: &str, value: impl fmt::Display) -> fmt::Result {
    writeln!(f, "{name:<25} {value}")
}

impl fmt::Display for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        row(f, "format version", self.version)?;
        row(f, "mode", format_args!("{}, granularity {}", self.mode, self.granularity))?;
        let state = if self.slices { "on" } else { "off" };
        let micros = self.slice_micros;
        row(f, "frequency slices", format_args!("{state}, {micros} us"))?;
        row(f, "frame threshold", format_args!("{} words", self.threshold_words))?;
        row(f, "tag window", self.tag_window.as_deref().unwrap_or("off"))?;
        row(f, "READ bursts on the card", self.reads)?;
        row(f, "WRITE bursts on the card", self.writes)?;
        row(f, "faults on the card", self.faults)?;
        // The card stops counting there.
        let at_least = if self.unreported_faults == u8::MAX { "at least " } else { "" };
        row(f, "faults not reported", format_args!("{at_least}{}", self.unreported_faults))?;
        row(f, "tags on the card", self.tags)?;
        match self.burst_length {
            Some(words) => row(f, "burst length in force", words),
            None => row(f, "burst length in force", "4 or 8, on the fly"),
        }
    }
}

impl fmt::Display for Info {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for interface in &self.interfaces {
            row(f, "interface", interface.name.as_deref().unwrap_or("unnamed"))?;
            let count = |count: Option<u64>| count.map_or("not known".into(), |n| n.to_string());
            let statistics = interface.statistics.unwrap_or_default();
            row(f, "dropped by the kernel", count(statistics.kernel_drops))?;
            row(f, "dropped by the interface", count(statistics.interface_drops))?;
        }
        row(f, "packets", self.packets)?;
        if let Some(seconds) = self.seconds {
            row(f, "wall time", format_args!("{seconds:.6} s"))?;
        }
        if let Some((first, last)) = self.first_clock.zip(self.last_clock) {
            row(f, "clocks", format_args!("{first} to {last}"))?;
        }
        match (&self.settings, &self.memory) {
            (Some(settings), Some(memory)) => write!(f, "{settings}{memory}")?,
            _ => row(f, "card", "no report in this capture")?,
        }
        if let Some(ddr_clock) = self.ddr_clock {
            // The last word alone would hide how it came to that.
            let times = self.counts.ddr_clock_losses;
            writeln!(f, "warning: DDR clock lost {times} times; at last: {ddr_clock}")?;
        }
        let mut counts = Vec::new();
        super::summary::write_counts(&self.counts, &mut counts).map_err(|_| fmt::Error)?;
        f.write_str(&String::from_utf8_lossy(&counts))
    }
}
