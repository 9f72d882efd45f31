//! Two snapshots and what the statistics saw between them to one second of a capture.
//!
//! All totals and losses are the exact counts of the snapshots; what is said of pages, rows and banks is
//! what the statistics saw. Serialised, a second is a line of `hmtt-recv --json`; its fields are in
//! docs/recv.md.

use std::path::PathBuf;
use std::time::SystemTime;

use hmtt_format::escape;
use serde::Serialize;

use super::activity::{Activity, BankUse, HotPage};
use crate::receive::{Link, Snapshot};

/// What Ethernet adds to a frame without FCS: preamble and start 8, FCS 4, shortest gap 12 bytes
/// (IEEE 802.3 clauses 3.2 and 4.4.2).
const WIRE_OVERHEAD_BYTES: u64 = 24;

/// A second, or however long it was, of a capture.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Second {
    /// When it ended, seconds since the epoch.
    pub time: f64,
    /// Seconds since the capture began.
    pub elapsed: f64,
    /// How long it was, in seconds.
    pub interval: f64,
    /// What happened in it, by the second.
    pub rates: Rates,
    /// Which memory it touched.
    pub memory: Memory,
    /// What is missing since the capture began, and what is odd.
    pub losses: Losses,
    /// What came since the capture began.
    pub totals: Totals,
    /// Batches that wait to be written.
    pub queue: QueueFill,
    /// The file being written, if one is.
    pub file: Option<PathBuf>,
    /// Bytes written to all files.
    pub written_bytes: u64,
    /// Names of the interfaces, which `link` counts from 0.
    pub interfaces: Vec<String>,
    /// Those of them that failed: nothing more comes from there.
    pub failed: Vec<Failed>,
}

/// An interface that failed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Failed {
    /// Index of the interface.
    pub link: usize,
    /// Why.
    pub reason: String,
}

/// What happened, by the second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Rates {
    /// Frames of the card.
    pub frames: f64,
    /// Bytes they took on the wire, FCS, preamble and gap included: 125,000,000 is a full gigabit.
    pub wire_bytes: f64,
    /// Accesses.
    pub accesses: f64,
    /// READs.
    pub reads: f64,
    /// WRITEs.
    pub writes: f64,
    /// Bytes that those moved.
    pub moved_bytes: f64,
}

/// Which memory was touched, as far as the statistics saw.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Memory {
    /// Accesses the statistics saw.
    pub accesses: u64,
    /// Different pages of 4 KiB.
    pub pages: u64,
    /// Accesses without a page, or beyond the pages that are tracked.
    pub unpaged: u64,
    /// Of the accesses whose row is known, 0 to 1: those to the row their bank used last.
    pub row_hit_rate: Option<f64>,
    /// The pages with most accesses, most first.
    pub hot_pages: Vec<HotPage>,
    /// Every bank.
    pub banks: Vec<BankUse>,
}

/// What is missing, by the place where it got lost, and what is odd. All since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Losses {
    /// Accesses that are not in the trace, whatever the reason.
    pub accesses: u64,
    /// Records the card lost.
    pub card_records: u64,
    /// Frames missing between the card and here.
    pub wire_frames: u64,
    /// Frames the kernel dropped; `None` if it is not known.
    pub kernel_frames: Option<u64>,
    /// Frames the interfaces dropped, by their own counts; `None` if they do not tell.
    pub interface_frames: Option<u64>,
    /// Frames of a card that could not be read, or not to their end.
    pub malformed_frames: u64,
    /// Copies of frames, left out.
    pub duplicates: u64,
    /// Frames that came after a later one.
    pub reordered: u64,
    /// Frames no card sent, strays included.
    pub foreign: u64,
    /// Frames with a card's addresses that go on from no card.
    pub strays: u64,
    /// Times a card started to count anew.
    pub restarts: u64,
    /// Times a card lost its DDR clock.
    pub ddr_clock_losses: u64,
    /// Captured frames that could not be written.
    pub unwritten_frames: u64,
    /// Captured frames the statistics left out: lost to `memory` only, not to the trace.
    pub skipped_frames: u64,
}

/// What came since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Totals {
    /// Frames captured, foreign ones included.
    pub captured: u64,
    /// Frames of a card.
    pub frames: u64,
    /// Their bytes, without FCS.
    pub frame_bytes: u64,
    /// Records.
    pub records: u64,
    /// Accesses.
    pub accesses: u64,
    /// READs.
    pub reads: u64,
    /// WRITEs.
    pub writes: u64,
    /// Bytes that those moved.
    pub moved_bytes: u64,
    /// Different pages of 4 KiB the statistics saw.
    pub pages: u64,
}

/// Batches that wait for the writer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct QueueFill {
    /// How many do.
    pub waiting: usize,
    /// How many may.
    pub capacity: usize,
}

impl Second {
    /// What lies between two snapshots of one capture. `activity`: what the statistics saw between
    /// them, [`Activity::default`] where there are none.
    pub fn new(before: &Snapshot, now: &Snapshot, activity: &Activity) -> Self {
        let totals = Totals::new(now, activity);
        let interval = now.elapsed.saturating_sub(before.elapsed).as_secs_f64();
        let time = now.wall.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        Second {
            time: time.as_secs_f64(),
            elapsed: now.elapsed.as_secs_f64(),
            interval,
            rates: Rates::new(&Totals::new(before, activity), &totals, interval),
            memory: Memory::new(activity),
            losses: Losses::new(now),
            totals,
            queue: QueueFill { waiting: now.queue.0, capacity: now.queue.1 },
            file: now.file.clone(),
            written_bytes: now.written_bytes,
            interfaces: now.links.iter().map(|link| link.interface.clone()).collect(),
            failed: Failed::all(now),
        }
    }

    /// Whether nothing is known to be missing, and no interface has failed.
    pub fn is_well(&self) -> bool {
        self.losses.places().is_empty() && self.failed.is_empty()
    }

    /// Names of the interfaces that failed, for a terminal.
    pub fn failed_names(&self) -> String {
        let name = |failed: &Failed| self.interfaces.get(failed.link).map_or("?", String::as_str);
        let names: Vec<&str> = self.failed.iter().map(name).collect();
        escape::name(&names.join(" ")).to_string()
    }

    /// READs of 1 access, 0 to 1; `None` without accesses.
    pub fn read_share(&self) -> Option<f64> {
        let Rates { reads, writes, .. } = self.rates;
        (reads + writes > 0.0).then(|| reads / (reads + writes))
    }
}

impl Failed {
    fn all(snapshot: &Snapshot) -> Vec<Self> {
        let failed = |(link, of): (usize, &Link)| Some(Failed { link, reason: of.failed.clone()? });
        snapshot.links.iter().enumerate().filter_map(failed).collect()
    }
}

impl Rates {
    fn new(before: &Totals, now: &Totals, seconds: f64) -> Self {
        let rate = |before: u64, now: u64| {
            if seconds > 0.0 { now.saturating_sub(before) as f64 / seconds } else { 0.0 }
        };
        Rates {
            frames: rate(before.frames, now.frames),
            wire_bytes: rate(before.wire_bytes(), now.wire_bytes()),
            accesses: rate(before.accesses, now.accesses),
            reads: rate(before.reads, now.reads),
            writes: rate(before.writes, now.writes),
            moved_bytes: rate(before.moved_bytes, now.moved_bytes),
        }
    }
}

impl Memory {
    fn new(activity: &Activity) -> Self {
        let slice = &activity.slice;
        Memory {
            accesses: slice.accesses,
            pages: slice.pages,
            unpaged: slice.pageless + slice.untracked,
            row_hit_rate: slice.row_hit_rate(),
            hot_pages: activity.hot_pages.clone(),
            banks: activity.banks.clone(),
        }
    }
}

impl Totals {
    /// At the moment of a snapshot.
    fn new(snapshot: &Snapshot, activity: &Activity) -> Self {
        let sum = |field| sum(&snapshot.links, field);
        Totals {
            captured: sum(|link| link.captured),
            frames: sum(|link| link.counts.frames),
            frame_bytes: sum(|link| link.counts.bytes),
            records: sum(|link| link.counts.records),
            accesses: sum(|link| link.counts.accesses),
            reads: sum(|link| link.counts.reads),
            writes: sum(|link| link.counts.writes),
            moved_bytes: sum(|link| link.counts.access_bytes),
            pages: activity.total.pages,
        }
    }

    fn wire_bytes(&self) -> u64 {
        self.frame_bytes + self.frames * WIRE_OVERHEAD_BYTES
    }
}

impl Losses {
    fn new(snapshot: &Snapshot) -> Self {
        let links = &snapshot.links;
        let sum = |field| sum(links, field);
        let known = |field: fn(&Link) -> Option<u64>| {
            links.iter().filter_map(field).reduce(|sum, drops| sum + drops)
        };
        Losses {
            accesses: sum(|link| link.counts.lost_accesses),
            card_records: sum(|link| link.counts.card_lost_records),
            wire_frames: sum(|link| link.missing_on_wire),
            kernel_frames: known(|link| link.statistics.kernel_drops),
            interface_frames: known(|link| link.statistics.interface_drops),
            malformed_frames: sum(|link| link.counts.malformed),
            duplicates: sum(|link| link.counts.order.duplicates),
            reordered: sum(|link| link.counts.order.reordered),
            foreign: sum(|link| link.counts.foreign),
            strays: sum(|link| link.counts.strays),
            restarts: sum(|link| link.counts.order.restarts),
            ddr_clock_losses: sum(|link| link.counts.ddr_clock_losses),
            unwritten_frames: snapshot.unwritten_frames,
            skipped_frames: snapshot.skipped_frames,
        }
    }

    /// The places where something of the trace got lost, with how much: empty while all is well.
    pub fn places(&self) -> Vec<(&'static str, u64)> {
        let places = [
            ("card", self.card_records),
            ("wire", self.wire_frames),
            ("kernel", self.kernel_frames.unwrap_or(0)),
            ("interface", self.interface_frames.unwrap_or(0)),
            ("malformed", self.malformed_frames),
            ("accesses", self.accesses),
            ("disk", self.unwritten_frames),
        ];
        places.into_iter().filter(|(_, lost)| *lost != 0).collect()
    }
}

fn sum(links: &[Link], field: fn(&Link) -> u64) -> u64 {
    links.iter().map(field).fold(0, u64::saturating_add)
}
