//! Holds the counts of a capture at one moment, for its displays.

use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use hmtt::decode::Counts;
use hmtt::pcapng::InterfaceStatistics;
use serde::Serialize;

use super::ClockSteps;
use crate::capture::Outage;
use crate::files::LostFiles;

fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// Counts of one interface.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Link {
    /// Name of the interface.
    pub interface: String,
    /// Why the interface failed; `None` if it did not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failed: Option<String>,
    /// Another interface with the same frames; known only at the end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub same_frames_as: Option<String>,
    /// Whether the interface is down.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub is_down: bool,
    /// How often the interface was down.
    #[serde(skip_serializing_if = "is_zero")]
    pub outage_count: u64,
    /// The first of these outages.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub outages: Vec<Outage>,
    /// Frames captured, foreign ones included.
    pub captured_frames: u64,
    /// Counts of the kernel and of the interface.
    #[serde(flatten)]
    pub statistics: InterfaceStatistics,
    /// Missing frames that the kernel did not drop: lost between the card and the kernel.
    pub wire_lost_frames: u64,
    /// Counts of the frames' content, and of missing frames, records and accesses.
    #[serde(flatten)]
    pub counts: Counts,
    /// The same counts for each card, if the wire has several.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub cards: Vec<Counts>,
}

/// Counts of a capture at one moment.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// Wall-clock time of the snapshot.
    pub wall: SystemTime,
    /// Time since the capture began.
    pub elapsed: Duration,
    /// The file being written, if one is.
    pub file: Option<PathBuf>,
    /// Bytes written to all files so far.
    pub written_bytes: u64,
    /// Files begun so far.
    pub files: u64,
    /// Captured frames that could not be written.
    pub unwritten_frames: u64,
    /// Files that were not at their paths when they were finished.
    pub lost_files: LostFiles,
    /// Steps of the wall clock.
    pub clock_steps: ClockSteps,
    /// Number of queued batches (of about 1 MiB), and the queue's capacity.
    pub queue: (usize, usize),
    /// Captured frames that the online statistics skipped.
    pub skipped_frames: u64,
    /// Counts of each interface, in the order of the command line.
    pub links: Vec<Link>,
}

impl Snapshot {
    /// Sums the counts of all interfaces.
    pub fn total(&self) -> Link {
        let names: Vec<&str> = self.links.iter().map(|link| link.interface.as_str()).collect();
        let mut total = Link { interface: names.join(" "), ..Link::default() };
        for (index, link) in self.links.iter().enumerate() {
            total.captured_frames += link.captured_frames;
            total.wire_lost_frames += link.wire_lost_frames;
            total.outage_count += link.outage_count;
            total.is_down |= link.is_down;
            if index == 0 {
                (total.statistics, total.counts) = (link.statistics, link.counts.clone());
            } else {
                total.statistics += link.statistics;
                total.counts.add(&link.counts);
            }
        }
        total
    }
}

impl Link {
    /// Whether anything is known to be missing. While the interface is down, it is not known what
    /// the card has sent, so this counts as a loss.
    pub fn has_loss(&self) -> bool {
        self.is_down
            || self.counts.has_loss()
            || self.statistics.kernel_dropped_frames.unwrap_or(0) != 0
    }
}
