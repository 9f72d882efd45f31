//! A capture to what it says of itself: the card, its memory and settings, the time it covers.

use std::fmt;
use std::time::Duration;

use hmtt_format::address_map::Axis;
use hmtt_format::{MemoryDescription, Report, config};
use serde::Serialize;

use crate::decode::{Counts, DdrClock, Item};
use crate::pcapng::{Interface, Packet};

/// The memory a card describes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Memory {
    /// `DDR1` to `DDR4`.
    pub generation: &'static str,
    /// Clock period in picoseconds.
    pub tck_ps: u32,
    /// Width of the data bus.
    pub bus_bytes: u32,
    /// Bus words of a burst.
    pub burst_length: u8,
    /// Bytes of a cache line.
    pub line_bytes: u32,
    /// Ranks.
    pub ranks: u32,
    /// Banks of a rank.
    pub banks: u32,
    /// Rows of a bank.
    pub rows: u32,
    /// Columns of a row.
    pub columns: u32,
    /// All of them, in bytes.
    pub capacity: u64,
    /// `bank[1]=p15^p18`, one entry for each coordinate bit.
    pub map: Vec<String>,
    /// Digest of the description, hexadecimal.
    pub digest: String,
}

/// How a card is set.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Settings {
    /// Format version.
    pub version: u8,
    /// The capture runs.
    pub running: bool,
    /// `line`, `page` or `frequency`.
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
        }
    }
}

impl Memory {
    fn new(memory: &MemoryDescription, digest: u64) -> Self {
        Memory {
            generation: memory.generation.name(),
            tck_ps: memory.tck_ps,
            bus_bytes: 1 << memory.bus_log2,
            burst_length: memory.burst_length,
            line_bytes: 1 << memory.line_log2,
            ranks: 1 << memory.bits(Axis::Rank),
            banks: 1 << memory.bits(Axis::Bank),
            rows: 1 << memory.bits(Axis::Row),
            columns: 1 << memory.bits(Axis::Column),
            capacity: memory.capacity(),
            map: map_entries(memory),
            digest: format!("{digest:016x}"),
        }
    }
}

fn map_entries(memory: &MemoryDescription) -> Vec<String> {
    let entry = |axis: Axis, bit: u8| {
        let mask = memory.map.mask(axis, bit);
        let sum: Vec<String> = (0..u64::BITS)
            .filter(|bit| mask >> bit & 1 != 0)
            .map(|bit| format!("p{bit}"))
            .collect();
        format!("{}[{bit}]={}", axis.name(), sum.join("^"))
    };
    Axis::ALL
        .into_iter()
        .flat_map(|axis| (0..memory.bits(axis)).map(move |bit| entry(axis, bit)))
        .collect()
}

fn row(f: &mut fmt::Formatter<'_>, name: &str, value: impl fmt::Display) -> fmt::Result {
    writeln!(f, "{name:<25} {value}")
}

impl fmt::Display for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        row(f, "memory", format_args!("{}, tCK {} ps", self.generation, self.tck_ps))?;
        let Memory { ranks, banks, rows, columns, bus_bytes, .. } = self;
        row(
            f,
            "geometry",
            format_args!(
                "{ranks} ranks x {banks} banks x {rows} rows x {columns} columns x {bus_bytes} bytes"
            ),
        )?;
        row(f, "capacity", format_args!("{} MiB", self.capacity >> 20))?;
        row(f, "burst length", self.burst_length)?;
        row(f, "line", format_args!("{} bytes", self.line_bytes))?;
        row(f, "description digest", &self.digest)?;
        for axis in Axis::ALL {
            let prefix = format!("{}[", axis.name());
            let of_axis: Vec<&str> = self
                .map
                .iter()
                .map(String::as_str)
                .filter(|map| map.starts_with(&prefix))
                .collect();
            if !of_axis.is_empty() {
                row(f, "map", of_axis.join(" "))?;
            }
        }
        Ok(())
    }
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
        row(f, "tags on the card", self.tags)
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
