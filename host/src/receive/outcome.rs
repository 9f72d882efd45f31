//! Holds the result of a capture, for the summary and the last line of JSON.

use serde::Serialize;

use super::{ClockStep, Link, ReceiveError, Snapshot};
use crate::files::LostFile;

/// Result of a capture.
#[derive(Debug, Serialize)]
pub struct Outcome {
    /// Counts of all interfaces together.
    #[serde(flatten)]
    pub total: Link,
    /// Duration of the capture in seconds.
    #[serde(rename = "duration_seconds")]
    pub seconds: f64,
    /// Bytes written to all files.
    pub written_bytes: u64,
    /// Number of files written.
    pub files: u64,
    /// Captured frames that could not be written.
    pub unwritten_frames: u64,
    /// Captured frames that the online statistics skipped.
    pub skipped_frames: u64,
    /// Number of files that were removed or replaced while they were written.
    pub lost_file_count: u64,
    /// The first of these files.
    pub lost_files: Vec<LostFile>,
    /// Number of steps of the wall clock.
    pub clock_step_count: u64,
    /// The first of these steps.
    pub clock_steps: Vec<ClockStep>,
    /// Counts of each interface.
    #[serde(rename = "interfaces")]
    pub links: Vec<Link>,
    /// Why the capture ended early, if it did.
    #[serde(skip)]
    pub error: Option<ReceiveError>,
}

impl Outcome {
    /// Result at the time of a snapshot.
    pub fn new(snapshot: Snapshot, error: Option<ReceiveError>) -> Self {
        Outcome {
            total: snapshot.total(),
            seconds: snapshot.elapsed.as_secs_f64(),
            written_bytes: snapshot.written_bytes,
            files: snapshot.files,
            unwritten_frames: snapshot.unwritten_frames,
            skipped_frames: snapshot.skipped_frames,
            lost_file_count: snapshot.lost_files.count,
            lost_files: snapshot.lost_files.listed,
            clock_step_count: snapshot.clock_steps.count,
            clock_steps: snapshot.clock_steps.listed,
            links: snapshot.links,
            error,
        }
    }

    /// Whether anything is known to be missing.
    pub fn has_loss(&self) -> bool {
        let is_lost = self.unwritten_frames != 0 || self.lost_file_count != 0;
        is_lost || self.links.iter().any(Link::has_loss)
    }
}
