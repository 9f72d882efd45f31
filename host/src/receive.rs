//! Frames from interfaces to files and counts, on threads of their own.
//!
//! ```text
//! source threads -> bounded queue -> recorder thread -> files
//!                                       | checks every frame, counts every loss
//!                                       '-> bounded queue -> observer thread (may be left out)
//! ```
//!
//! Invariants: a frame is written before it is checked, and everything that was captured before the
//! end was asked for is written, or counted as not written. The observer never holds up the
//! recorder: what it has no time for is counted. An interface that fails ends nothing but itself,
//! unless it is the last.

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
pub use observer::Observe;
pub use outcome::Outcome;
pub use snapshot::{Link, Snapshot};

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::capture::queue::Queue;
use crate::capture::{CaptureError, Standing};
use crate::files::WriteError;
use recorder::Recorder;

/// How long a snapshot may take: the recorder waits for the disk at times.
const SNAPSHOT_PATIENCE: Duration = Duration::from_millis(500);

/// Why a capture ended early.
#[derive(Debug, thiserror::Error)]
pub enum ReceiveError {
    /// Frames could not be captured.
    #[error(transparent)]
    Capture(#[from] CaptureError),
    /// They could not be written.
    #[error(transparent)]
    Write(#[from] WriteError),
}

/// What a capture needs.
pub struct Setup {
    /// Where batches come from.
    pub queue: Queue,
    /// The interfaces, in the order of the queue's sources.
    pub interfaces: Vec<String>,
    /// Where frames go, if they are to be kept: the first file is open already, because it is opened with
    /// rights that no thread of a capture has.
    pub files: Option<CaptureFiles>,
    /// When to stop by itself.
    pub limits: Limits,
    /// Once it is set the capture ends, though whoever watches it is held up.
    pub interrupted: Arc<AtomicBool>,
    /// Set by [`Capture::stop`].
    pub stop: Arc<AtomicBool>,
    /// Sees the frames when there is time for it.
    pub observer: Option<Observe>,
    /// Share of a processor that the observer may use, 0 to 1; what it has no share for it does not
    /// see.
    pub observer_share: f64,
}

/// A capture that runs.
#[derive(Debug)]
pub struct Capture {
    thread: JoinHandle<Outcome>,
    requests: Sender<SyncSender<Snapshot>>,
    stop: Arc<AtomicBool>,
    standings: Vec<Arc<Standing>>,
    deadline: Option<Instant>,
}

impl Capture {
    /// Starts.
    pub fn start(setup: Setup) -> Self {
        let (requests, asked): (_, Receiver<SyncSender<Snapshot>>) = channel();
        let stop = Arc::clone(&setup.stop);
        let standings = setup.queue.standings();
        let deadline =
            setup.limits.duration.and_then(|duration| Instant::now().checked_add(duration));
        let recorder = Recorder::new(setup, asked);
        Capture { thread: thread::spawn(|| recorder.run()), requests, stop, standings, deadline }
    }

    /// Asks it to end once it has lasted as long as it is to. It sees that itself, unless a reader that has stalled
    /// holds it up, which is given up only when the capture is to end.
    pub fn stop_if_due(&self) {
        if self.deadline.is_some_and(|deadline| Instant::now() >= deadline) {
            self.stop();
        }
    }

    /// Asks it to take what has arrived, and to end.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    /// Whether it has ended.
    pub fn is_finished(&self) -> bool {
        self.thread.is_finished()
    }

    /// Why interfaces failed, those that did, in the order of the sources.
    pub fn failures(&self) -> Vec<Option<String>> {
        self.standings.iter().map(|standing| standing.failure()).collect()
    }

    /// What it has brought so far; `None` when it has ended, or waits for the disk.
    pub fn snapshot(&self) -> Option<Snapshot> {
        let (answer, snapshot) = sync_channel(1);
        self.requests.send(answer).ok()?;
        snapshot.recv_timeout(SNAPSHOT_PATIENCE).ok()
    }

    /// Waits for its end.
    pub fn finish(self) -> Outcome {
        self.thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }
}
