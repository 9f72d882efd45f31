//! Computes one second of a capture from two snapshots and the statistics between them.
//!
//! Totals and losses are the exact counts of the snapshots. Pages, rows and banks come from the
//! statistics, which may have skipped frames. Serialised, a second is a line of `hmtt-recv --json`;
//! docs/recv.md describes its fields.

use std::path::PathBuf;
use std::time::SystemTime;

use hmtt_format::escape;
use serde::Serialize;

use super::activity::{Activity, BankUse, HotPage};
use crate::receive::{Link, Snapshot};

/// Bytes that Ethernet adds to a frame without FCS: preamble and start delimiter 8, FCS 4,
/// interframe gap 12 (IEEE 802.3 clauses 3.2 and 4.4.2).
const WIRE_OVERHEAD_BYTES: u64 = 24;

/// One interval of a capture, nominally a second.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Second {
    /// End of the interval, in seconds since the Unix epoch.
    pub time_seconds: f64,
    /// Seconds since the capture began.
    pub elapsed_seconds: f64,
    /// Length of the interval in seconds.
    pub interval_seconds: f64,
    /// Rates in the interval.
    pub rates: Rates,
    /// Memory that was accessed in the interval.
    pub activity: Memory,
    /// Losses and irregularities since the capture began.
    pub losses: Losses,
    /// Totals since the capture began.
    pub totals: Totals,
    /// Batches that are queued for writing.
    pub queue: QueueFill,
    /// The file being written, if one is.
    pub file: Option<PathBuf>,
    /// Bytes written to all files.
    pub written_bytes: u64,
    /// Names of the interfaces; an `interface_index` is an index into this list.
    pub interfaces: Vec<String>,
    /// Interfaces that failed and are no longer captured.
    pub failed: Vec<Failed>,
}

/// An interface that failed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Failed {
    /// Index of the interface.
    #[serde(rename = "interface_index")]
    pub link: usize,
    /// Reason of the failure.
    pub reason: String,
}

/// Rates per second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Rates {
    /// Frames of the card.
    pub frames: f64,
    /// Bytes on the wire, including FCS, preamble and interframe gap: 125,000,000 is a full
    /// gigabit.
    pub wire_bytes: f64,
    /// Accesses that the card's records represent.
    pub accesses: f64,
    /// READs among the accesses.
    pub reads: f64,
    /// WRITEs among the accesses.
    pub writes: f64,
    /// Bytes of the lines and bursts accessed.
    pub access_bytes: f64,
}

/// Memory that was accessed, by the statistics.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Memory {
    /// Accesses that the statistics analysed.
    pub accesses: u64,
    /// Number of distinct pages of 4 KiB.
    pub pages: u64,
    /// Accesses without a page, or beyond the pages that are tracked.
    pub unpaged: u64,
    /// Share, 0 to 1, of the accesses with a known row that went to the row accessed last in their
    /// bank.
    pub row_hit_rate: Option<f64>,
    /// Pages with the most accesses, in descending order.
    pub hot_pages: Vec<HotPage>,
    /// Counts of every bank.
    pub banks: Vec<BankUse>,
}

/// Losses, by the place where they occurred, and irregularities; all since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Losses {
    /// Accesses that are not in the trace, whatever the reason.
    pub lost_accesses: u64,
    /// Records the card lost.
    pub card_lost_records: u64,
    /// Frames missing between the card and the kernel.
    pub wire_lost_frames: u64,
    /// Frames the kernel dropped, on all interfaces whose number is known; `None` if it is known of
    /// no interface.
    pub kernel_dropped_frames: Option<u64>,
    /// Frames the interfaces dropped, by their own counts. Interfaces without such counts are left
    /// out; `None` if no interface has them.
    pub interface_dropped_frames: Option<u64>,
    /// Frames of a card that could not be read, or not to their end.
    pub malformed_frames: u64,
    /// Copies of frames, left out.
    pub duplicate_frames: u64,
    /// Frames that arrived after a later one.
    pub reordered_frames: u64,
    /// Frames no card sent, strays included.
    pub foreign_frames: u64,
    /// Frames with a card's addresses that continue no card's frames.
    pub stray_frames: u64,
    /// Number of times a card restarted.
    pub restarts: u64,
    /// Number of times a card lost its DDR clock.
    pub ddr_clock_losses: u64,
    /// Captured frames that could not be written.
    pub unwritten_frames: u64,
    /// Captured frames that the statistics skipped. They are missing in `activity` only, and not in
    /// the trace.
    pub skipped_frames: u64,
}

/// Totals since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Totals {
    /// Frames captured, foreign ones included.
    pub captured_frames: u64,
    /// Frames of a card.
    pub frames: u64,
    /// Bytes of the frames, without FCS.
    pub frame_bytes: u64,
    /// Records in the frames.
    pub records: u64,
    /// Accesses that the records represent.
    pub accesses: u64,
    /// READs among the accesses.
    pub reads: u64,
    /// WRITEs among the accesses.
    pub writes: u64,
    /// Bytes of the lines and bursts accessed.
    pub access_bytes: u64,
    /// Number of distinct pages of 4 KiB that the statistics analysed.
    pub pages: u64,
}

/// Batches that are queued for the recorder.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct QueueFill {
    /// Number of queued batches.
    pub batches: usize,
    /// Largest number of queued batches.
    pub batches_limit: usize,
}

impl Second {
    /// Computes the second between two snapshots of one capture. `activity`: statistics of the time
    /// between them, [`Activity::default`] if there are none.
    pub fn new(before: &Snapshot, now: &Snapshot, activity: &Activity) -> Self {
        let totals = Totals::new(now, activity);
        let interval = now.elapsed.saturating_sub(before.elapsed).as_secs_f64();
        let time = now.wall.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        Second {
            time_seconds: time.as_secs_f64(),
            elapsed_seconds: now.elapsed.as_secs_f64(),
            interval_seconds: interval,
            rates: Rates::new(&Totals::new(before, activity), &totals, interval),
            activity: Memory::new(activity),
            losses: Losses::new(now),
            totals,
            queue: QueueFill { batches: now.queue.0, batches_limit: now.queue.1 },
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

    /// Names of the interfaces that failed, escaped for a terminal.
    pub fn failed_names(&self) -> String {
        let name = |failed: &Failed| self.interfaces.get(failed.link).map_or("?", String::as_str);
        let names: Vec<&str> = self.failed.iter().map(name).collect();
        escape::name(&names.join(" ")).to_string()
    }

    /// Share of accesses that are READs, 0 to 1; `None` without accesses.
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
            access_bytes: rate(before.access_bytes, now.access_bytes),
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
    /// Totals at the time of a snapshot.
    fn new(snapshot: &Snapshot, activity: &Activity) -> Self {
        let sum = |field| sum(&snapshot.links, field);
        Totals {
            captured_frames: sum(|link| link.captured_frames),
            frames: sum(|link| link.counts.frames),
            frame_bytes: sum(|link| link.counts.frame_bytes),
            records: sum(|link| link.counts.records),
            accesses: sum(|link| link.counts.accesses),
            reads: sum(|link| link.counts.reads),
            writes: sum(|link| link.counts.writes),
            access_bytes: sum(|link| link.counts.access_bytes),
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
            lost_accesses: sum(|link| link.counts.lost_accesses),
            card_lost_records: sum(|link| link.counts.card_lost_records),
            wire_lost_frames: sum(|link| link.wire_lost_frames),
            kernel_dropped_frames: known(|link| link.statistics.kernel_dropped_frames),
            interface_dropped_frames: known(|link| link.statistics.interface_dropped_frames),
            malformed_frames: sum(|link| link.counts.malformed_frames),
            duplicate_frames: sum(|link| link.counts.order.duplicate_frames),
            reordered_frames: sum(|link| link.counts.order.reordered_frames),
            foreign_frames: sum(|link| link.counts.foreign_frames),
            stray_frames: sum(|link| link.counts.stray_frames),
            restarts: sum(|link| link.counts.order.restarts),
            ddr_clock_losses: sum(|link| link.counts.ddr_clock_losses),
            unwritten_frames: snapshot.unwritten_frames,
            skipped_frames: snapshot.skipped_frames,
        }
    }

    /// Places where part of the trace was lost, with the number of losses; empty if nothing was
    /// lost.
    pub fn places(&self) -> Vec<(&'static str, u64)> {
        let places = [
            ("card", self.card_lost_records),
            ("wire", self.wire_lost_frames),
            ("kernel", self.kernel_dropped_frames.unwrap_or(0)),
            ("interface", self.interface_dropped_frames.unwrap_or(0)),
            ("malformed", self.malformed_frames),
            ("accesses", self.lost_accesses),
            ("disk", self.unwritten_frames),
        ];
        places.into_iter().filter(|(_, lost)| *lost != 0).collect()
    }
}

fn sum(links: &[Link], field: fn(&Link) -> u64) -> u64 {
    links.iter().map(field).fold(0, u64::saturating_add)
}
