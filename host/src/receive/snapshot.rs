//! What a capture has brought up to one moment, for people and programs that watch it.

use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use hmtt::decode::Counts;
use hmtt::pcapng::InterfaceStatistics;
use serde::Serialize;

use super::ClockSteps;
use crate::files::LostFiles;

/// What one interface has brought.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Link {
    /// Its name.
    pub interface: String,
    /// Why nothing more comes from it, if it failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failed: Option<String>,
    /// The interface whose frames are the same, known at the end only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub same_frames_as: Option<String>,
    /// Frames captured, foreign ones included.
    pub captured: u64,
    /// What kernel and interface counted.
    #[serde(flatten)]
    pub statistics: InterfaceStatistics,
    /// Missing frames that the kernel did not drop: lost between the card and here.
    pub missing_on_wire: u64,
    /// What the frames held, and what was missing.
    #[serde(flatten)]
    pub counts: Counts,
    /// The same for each card, if the wire has several.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub cards: Vec<Counts>,
}

/// What a capture has brought up to a moment.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// The moment.
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
    /// When the wall clock was set.
    pub clock_steps: ClockSteps,
    /// Batches (of about 1 MiB) that wait for the writer, and how many may.
    pub queue: (usize, usize),
    /// Captured frames the online statistics left out because they lagged.
    pub skipped_frames: u64,
    /// The interfaces, in the order they were given.
    pub links: Vec<Link>,
}

impl Snapshot {
    /// All interfaces together.
    pub fn total(&self) -> Link {
        let names: Vec<&str> = self.links.iter().map(|link| link.interface.as_str()).collect();
        let mut total = Link { interface: names.join(" "), ..Link::default() };
        for (index, link) in self.links.iter().enumerate() {
            total.captured += link.captured;
            total.missing_on_wire += link.missing_on_wire;
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
    /// Whether anything is known to be missing.
    pub fn has_loss(&self) -> bool {
        self.counts.has_loss() || self.statistics.kernel_drops.unwrap_or(0) != 0
    }
}
