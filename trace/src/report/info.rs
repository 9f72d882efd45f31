//! Describes a capture: the cards, their memory and settings, and the time covered.

use std::fmt;
use std::time::Duration;

use hmtt_format::{Report, config, escape};
use serde::Serialize;

use super::memory::{Memory, row};
use crate::decode::{CardCounts, Counts, DdrClock, Item, earlier_report};
use crate::identity::CardId;
use crate::pcapng::{Interface, Packet};

/// Settings and counters of a card.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Settings {
    /// Version of the wire format.
    pub format_version: u8,
    /// Whether the card is capturing.
    pub running: bool,
    /// `line`, `page`, `frequency` or `analysis`.
    pub mode: &'static str,
    /// `line` or `burst`.
    pub granularity: &'static str,
    /// Whether frequency slices are enabled.
    pub slices: bool,
    /// Length of a slice in microseconds.
    pub slice_us: u32,
    /// Number of words at which a frame is sent.
    pub threshold_words: u8,
    /// Base address of the tag window, hexadecimal, if it is enabled.
    pub tag_window_address: Option<String>,
    /// READ bursts counted by the card.
    pub reads: u64,
    /// WRITE bursts counted by the card.
    pub writes: u64,
    /// Protocol faults counted by the card.
    pub faults: u32,
    /// Tags and marks counted by the card.
    pub tags: u32,
    /// Protocol faults for which the card had no free clock to report them; saturates at 255.
    pub unreported_faults: u8,
    /// Burst length in force, in bus words; `None` if each command selects 4 or 8.
    pub burst_length: Option<u8>,
}

/// Description of a capture.
///
/// ```
/// # const CAPTURE: &[u8] = include_bytes!(concat!(env!("CARGO_MANIFEST_DIR"), "/examples/worked.pcapng"));
/// # fn main() -> Result<(), hmtt::pcapng::ReadError> {
/// use hmtt::report::info::{Info, Packets};
///
/// let mut trace = hmtt::Trace::from_reader(CAPTURE)?;
/// let mut info = Info::default();
/// for next in trace.items() {
///     let (card, item) = next?;
///     info.item(card, &item);
/// }
/// let counts = trace.counts()?.clone();
/// let (sum, interfaces) = (counts.sum(), trace.interfaces().to_vec());
/// let info = info.finish(Packets::default(), sum, counts.cards, interfaces);
/// let memory = info.status.memory.expect("the end frame describes the memory");
/// assert_eq!((memory.generation, memory.tck_ps), ("DDR1", 10_000));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Info {
    /// Interfaces of the capture.
    pub interfaces: Vec<Interface>,
    /// Number of frames in the file, including foreign ones.
    pub packets: u64,
    /// Arrival of the first frame, in seconds since the epoch.
    pub first_time_seconds: Option<f64>,
    /// Seconds from the first frame to the last.
    pub duration_seconds: Option<f64>,
    /// Clock at which the first card's first frame begins.
    pub first_clock: Option<u64>,
    /// Clock at which the first card's last frame ends.
    pub last_clock: Option<u64>,
    /// Last reports of the first card.
    #[serde(flatten)]
    pub status: CardStatus,
    /// Counts of the contents and losses of all cards' frames.
    pub counts: Counts,
    /// Description of each card.
    pub cards: Vec<Card>,
}

/// The state of a card by its last reports and heartbeats.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct CardStatus {
    /// Settings and counters of the card's last report; `None` without a report.
    pub settings: Option<Settings>,
    /// Memory description of the card's last report; `None` without a report.
    pub memory: Option<Memory>,
    /// State of the DDR clock by the last heartbeat, if the clock was ever lost.
    pub ddr_clock: Option<DdrClock>,
}

/// A card in the capture.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Card {
    /// Number of the card, from 1, in the order in which cards appear.
    pub card: usize,
    /// Name of the interface on which the card's frames arrived.
    pub interface: Option<String>,
    /// Clock at which the card's first frame begins.
    pub first_clock: Option<u64>,
    /// Clock at which the card's last frame ends.
    pub last_clock: Option<u64>,
    /// Last reports of the card.
    #[serde(flatten)]
    pub status: CardStatus,
    /// Counts of the contents and losses of the card's frames.
    pub counts: Counts,
}

/// Number and arrival times of the frames of a capture.
#[derive(Clone, Copy, Debug, Default)]
pub struct Packets {
    count: u64,
    arrivals: Option<(Duration, Duration)>,
}

impl Packets {
    /// Counts a frame.
    pub fn packet(&mut self, packet: &Packet<'_>) {
        self.count += 1;
        if let Some(time) = packet.time {
            let (first, last) = self.arrivals.unwrap_or((time, time));
            self.arrivals = Some((first.min(time), last.max(time)));
        }
    }
}

impl Info {
    /// Processes an item of a card. Cards are numbered from 0.
    pub fn item(&mut self, CardId(card): CardId, item: &Item) {
        if self.cards.len() <= card {
            self.cards.resize_with(card + 1, Card::default);
        }
        let status = &mut self.cards[card].status;
        if let Item::DdrClock(ddr_clock) = item {
            status.ddr_clock = Some(*ddr_clock);
        }
        if let Item::Report { report, .. } = item {
            status.settings = Some(Settings::new(report));
            status.memory = Some(Memory::new(&report.memory, report.digest));
        }
    }

    /// Completes the description at the end of the file.
    pub fn finish(
        mut self,
        packets: Packets,
        counts: Counts,
        cards: Vec<CardCounts>,
        interfaces: Vec<Interface>,
    ) -> Self {
        self.packets = packets.count;
        self.first_time_seconds = packets.arrivals.map(|(first, _)| first.as_secs_f64());
        self.duration_seconds = packets.arrivals.map(|(first, last)| (last - first).as_secs_f64());
        self.cards.resize_with(cards.len(), Card::default);
        for ((card, card_counts), number) in self.cards.iter_mut().zip(cards).zip(1..) {
            card.card = number;
            card.interface = interfaces
                .get(card_counts.link.index())
                .and_then(|interface| interface.name.clone());
            (card.first_clock, card.last_clock) = card_counts.counts.clocks.unzip();
            card.counts = card_counts.counts;
        }
        if let Some(first) = self.cards.first() {
            (self.first_clock, self.last_clock) = (first.first_clock, first.last_clock);
            self.status = first.status.clone();
        }
        self.counts = counts;
        self.interfaces = interfaces;
        self
    }
}

impl Settings {
    /// Describes the settings that a report states.
    pub fn new(report: &Report) -> Self {
        Settings {
            format_version: report.version,
            running: report.running,
            mode: report.mode.name(),
            granularity: report.granularity.name(),
            slices: report.frequency,
            slice_us: config::slice_micros(report.slice_code),
            threshold_words: report.threshold,
            tag_window_address: report.tag_window.map(|base| format!("{base:#x}")),
            reads: report.reads,
            writes: report.writes,
            faults: report.faults,
            tags: report.tags,
            unreported_faults: report.unreported,
            burst_length: report.burst_length,
        }
    }
}

impl fmt::Display for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        row(f, "format version", self.format_version)?;
        row(f, "mode", format_args!("{}, granularity {}", self.mode, self.granularity))?;
        let state = if self.slices { "on" } else { "off" };
        let micros = self.slice_us;
        row(f, "frequency slices", format_args!("{state}, {micros} us"))?;
        row(f, "frame threshold", format_args!("{} words", self.threshold_words))?;
        row(f, "tag window", self.tag_window_address.as_deref().unwrap_or("off"))?;
        row(f, "READ bursts on the card", self.reads)?;
        row(f, "WRITE bursts on the card", self.writes)?;
        row(f, "faults on the card", self.faults)?;
        // The card's counter saturates.
        let at_least = if self.unreported_faults == u8::MAX { "at least " } else { "" };
        row(f, "faults not reported", format_args!("{at_least}{}", self.unreported_faults))?;
        row(f, "tags on the card", self.tags)?;
        match self.burst_length {
            Some(words) => row(f, "burst length in force", words),
            None => row(f, "burst length in force", "4 or 8, on the fly"),
        }
    }
}

impl fmt::Display for CardStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.settings, &self.memory) {
            (Some(settings), Some(memory)) => write!(f, "{settings}{memory}"),
            _ => row(f, "card", "no report in this capture"),
        }
    }
}

fn clocks(f: &mut fmt::Formatter<'_>, first: Option<u64>, last: Option<u64>) -> fmt::Result {
    match first.zip(last) {
        Some((first, last)) => row(f, "clocks", format_args!("{first} to {last}")),
        None => Ok(()),
    }
}

/// Prints the losses of the DDR clock: their number and the last report, since the last report
/// alone would hide earlier losses.
fn ddr_clock(f: &mut fmt::Formatter<'_>, status: &CardStatus, counts: &Counts) -> fmt::Result {
    match status.ddr_clock {
        Some(last) => {
            let times = counts.ddr_clock_losses;
            writeln!(f, "warning: DDR clock lost {times} times; at last: {last}")
        }
        None => Ok(()),
    }
}

fn counts(f: &mut fmt::Formatter<'_>, counts: &Counts) -> fmt::Result {
    let mut text = Vec::new();
    super::summary::write_counts(counts, &mut text).map_err(|_| fmt::Error)?;
    f.write_str(&String::from_utf8_lossy(&text))
}

impl fmt::Display for Card {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let interface = escape::name(self.interface.as_deref().unwrap_or("unnamed"));
        writeln!(f, "\ncard {} on {interface}", self.card)?;
        clocks(f, self.first_clock, self.last_clock)?;
        self.status.fmt(f)?;
        ddr_clock(f, &self.status, &self.counts)?;
        counts(f, &self.counts)
    }
}

impl fmt::Display for Info {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for interface in &self.interfaces {
            row(f, "interface", escape::name(interface.name.as_deref().unwrap_or("unnamed")))?;
            let count = |count: Option<u64>| count.map_or("not known".into(), |n| n.to_string());
            let statistics = interface.statistics.unwrap_or_default();
            row(f, "dropped by the kernel", count(statistics.kernel_dropped_frames))?;
            row(f, "dropped by the interface", count(statistics.interface_dropped_frames))?;
            for comment in interface.comments.iter().chain(&interface.statistics_comment) {
                if earlier_report::is_comment(comment) {
                    row(f, "comment", "has the card's last report before this file")?
                } else {
                    row(f, "comment", escape::name(comment))?
                }
            }
        }
        row(f, "packets", self.packets)?;
        if let Some(seconds) = self.duration_seconds {
            row(f, "wall time", format_args!("{seconds:.6} s"))?;
        }
        if self.cards.len() > 1 {
            row(f, "cards", self.cards.len())?;
            counts(f, &self.counts)?;
            return self.cards.iter().try_for_each(|card| card.fmt(f));
        }
        clocks(f, self.first_clock, self.last_clock)?;
        self.status.fmt(f)?;
        ddr_clock(f, &self.status, &self.counts)?;
        counts(f, &self.counts)
    }
}
