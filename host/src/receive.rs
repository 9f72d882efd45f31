//! Records the frames of interfaces in files, checks and counts them, on separate threads.
//!
//! ```text
//! source threads -> bounded queue -> recorder thread -> files
//!                                       | checks every frame, counts every loss
//!                                       '-> bounded queue -> observer thread (may be left out)
//! ```
//!
//! Invariants: a frame is written before it is checked. Every frame that was captured before the
//! end was requested is written, or counted as not written. The observer never delays the recorder:
//! the frames that it skips are counted. The failure of an interface does not end the capture of
//! the others.

mod capture_files;
mod check;
mod clock_steps;
mod limits;
mod mirrors;
mod observer;
mod outcome;
mod recorder;
mod snapshot;
pub mod summary;

pub use capture_files::{CaptureFiles, FilePlan, Rotation, Target, descriptor, inherited};
pub use clock_steps::{ClockStep, ClockSteps};
pub use limits::{Condition, Limits, ParseConditionError};
pub use observer::BatchObserver;
pub use outcome::Outcome;
pub use snapshot::{Link, Snapshot};

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::capture::queue::Queue;
use crate::capture::{CaptureError, Outages, SourceStatus};
use crate::files::WriteError;
use recorder::Recorder;

/// Longest wait for a snapshot: the recorder may be waiting for the disk.
const SNAPSHOT_TIMEOUT: Duration = Duration::from_millis(500);

/// Why a capture ended early.
#[derive(Debug, thiserror::Error)]
pub enum ReceiveError {
    /// Frames could not be captured.
    #[error(transparent)]
    Capture(#[from] CaptureError),
    /// Frames could not be written.
    #[error(transparent)]
    Write(#[from] WriteError),
}

/// Everything that a capture needs.
pub struct Setup {
    /// Queue of captured batches.
    pub queue: Queue,
    /// The interfaces, in the order of the queue's sources.
    pub interfaces: Vec<String>,
    /// Files for the frames, if they are kept. The first file is already open, because opening it
    /// may need privileges that have been dropped.
    pub files: Option<CaptureFiles>,
    /// Conditions under which the capture stops.
    pub limits: Limits,
    /// Flag of the signal handlers that requests the end. The recorder itself polls the flag,
    /// because the display may be blocked.
    pub interrupted: Arc<AtomicBool>,
    /// Flag that [`Capture::stop`] sets.
    pub stop: Arc<AtomicBool>,
    /// Analyses the frames when there is time.
    pub observer: Option<BatchObserver>,
    /// Share of a processor that the observer may use, 0 to 1; frames beyond it are skipped.
    pub observer_share: f64,
}

/// A running capture.
#[derive(Debug)]
pub struct Capture {
    thread: JoinHandle<Outcome>,
    requests: Sender<SyncSender<Snapshot>>,
    stop: Arc<AtomicBool>,
    statuses: Vec<Arc<SourceStatus>>,
    deadline: Option<Instant>,
}

impl Capture {
    /// Starts the capture.
    pub fn start(setup: Setup) -> Self {
        let (requests, asked): (_, Receiver<SyncSender<Snapshot>>) = channel();
        let stop = Arc::clone(&setup.stop);
        let statuses = setup.queue.statuses();
        let deadline =
            setup.limits.duration.and_then(|duration| Instant::now().checked_add(duration));
        let recorder = Recorder::new(setup, asked);
        Capture { thread: thread::spawn(|| recorder.run()), requests, stop, statuses, deadline }
    }

    /// Requests the end once the time limit is reached. The recorder checks the limit too, but a
    /// stalled reader of its output can block the recorder. Such a reader is abandoned only after
    /// the end was requested.
    pub fn stop_if_due(&self) {
        if self.deadline.is_some_and(|deadline| Instant::now() >= deadline) {
            self.stop();
        }
    }

    /// Requests the end. Frames that have arrived are still recorded.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    /// Whether the capture has ended.
    pub fn is_finished(&self) -> bool {
        self.thread.is_finished()
    }

    /// The failure of each interface, in the order of the sources; `None` for an interface that did
    /// not fail.
    pub fn failures(&self) -> Vec<Option<String>> {
        self.statuses.iter().map(|status| status.failure()).collect()
    }

    /// When each interface was down, in the order of the sources.
    pub fn outages(&self) -> Vec<Outages> {
        self.statuses.iter().map(|status| status.outages()).collect()
    }

    /// Counts so far; `None` if the capture has ended, or waits for the disk.
    pub fn snapshot(&self) -> Option<Snapshot> {
        let (answer, snapshot) = sync_channel(1);
        self.requests.send(answer).ok()?;
        snapshot.recv_timeout(SNAPSHOT_TIMEOUT).ok()
    }

    /// Waits for the end of the capture.
    pub fn finish(self) -> Outcome {
        self.thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }
}
