//! What a capture came to.

use serde::Serialize;

use super::{Link, ReceiveError, Snapshot};

/// What was received.
#[derive(Debug, Serialize)]
pub struct Outcome {
    /// All interfaces together.
    #[serde(flatten)]
    pub total: Link,
    /// Seconds from the first wait to the end.
    pub seconds: f64,
    /// Bytes written to all files.
    pub written_bytes: u64,
    /// Files written.
    pub files: u64,
    /// Captured frames that could not be written.
    pub unwritten_frames: u64,
    /// Captured frames the online statistics left out because they lagged.
    pub skipped_frames: u64,
    /// Each interface.
    pub links: Vec<Link>,
    /// Why the capture ended early, if it did.
    #[serde(skip)]
    pub error: Option<ReceiveError>,
}

impl Outcome {
    /// What a capture came to at this moment.
    pub fn new(snapshot: Snapshot, error: Option<ReceiveError>) -> Self {
        Outcome {
            total: snapshot.total(),
            seconds: snapshot.elapsed.as_secs_f64(),
            written_bytes: snapshot.written_bytes,
            files: snapshot.files,
            unwritten_frames: snapshot.unwritten_frames,
            skipped_frames: snapshot.skipped_frames,
            links: snapshot.links,
            error,
        }
    }

    /// Whether anything is known to be missing.
    pub fn has_loss(&self) -> bool {
        self.unwritten_frames != 0 || self.links.iter().any(Link::has_loss)
    }
}
