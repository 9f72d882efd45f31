//! Runs each source on a separate thread, and passes the batches of all sources to the recorder
//! through one bounded queue.
//!
//! When the queue is full, the sources wait, the kernel's rings fill, and the kernel counts the
//! frames that it drops. This module loses no frame. Empty batches are returned to their source and
//! used again. A source that fails still passes on the frames that had arrived; the other sources
//! continue.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, channel, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use hmtt::pcapng::InterfaceStatistics;

use super::source_status::SourceStatus;
use super::{Batch, CaptureError, Source, WAIT_MILLIS};

/// Result of waiting for the queue.
#[derive(Debug)]
pub enum Delivery {
    /// Frames of the source with this number.
    Batch(usize, Batch),
    /// No batch arrived within [`WAIT_MILLIS`].
    Idle,
    /// All sources have stopped; no batch follows.
    Ended,
}

/// Final state of a source.
#[derive(Debug)]
pub struct SourceEnd {
    /// Counts of the source.
    pub statistics: InterfaceStatistics,
    /// Why the source stopped, unless it was asked to stop.
    pub error: Option<CaptureError>,
}

/// The reading end of the queue, and the threads that fill it.
#[derive(Debug)]
pub struct Queue {
    batches: Receiver<(usize, Batch)>,
    waiting: Arc<AtomicUsize>,
    capacity: usize,
    stop: Arc<AtomicBool>,
    sources: Vec<RunningSource>,
}

/// A source that runs on its thread.
#[derive(Debug)]
struct RunningSource {
    empty: Sender<Batch>,
    status: Arc<SourceStatus>,
    thread: JoinHandle<SourceEnd>,
}

/// State of a source's thread.
struct SourceThread {
    number: usize,
    filled: SyncSender<(usize, Batch)>,
    waiting: Arc<AtomicUsize>,
    reusable: Receiver<Batch>,
    stop: Arc<AtomicBool>,
    status: Arc<SourceStatus>,
}

impl Queue {
    /// Starts a thread for each source; at most `capacity` batches wait for the reader.
    pub fn start(sources: Vec<Box<dyn Source>>, capacity: usize) -> Self {
        let (filled, batches) = sync_channel(capacity);
        let stop = Arc::new(AtomicBool::new(false));
        let waiting = Arc::new(AtomicUsize::new(0));
        let start = |(number, source)| {
            let (empty, reusable) = channel();
            let status = Arc::new(SourceStatus::default());
            let runner = SourceThread {
                number,
                filled: filled.clone(),
                waiting: Arc::clone(&waiting),
                reusable,
                stop: Arc::clone(&stop),
                status: Arc::clone(&status),
            };
            RunningSource { empty, status, thread: thread::spawn(move || runner.run(source)) }
        };
        let sources = sources.into_iter().enumerate().map(start).collect();
        Queue { batches, waiting, capacity, stop, sources }
    }

    /// Waits up to [`WAIT_MILLIS`] for the next batch.
    pub fn next(&self) -> Delivery {
        match self.batches.recv_timeout(Duration::from_millis(WAIT_MILLIS.into())) {
            Ok((source, batch)) => {
                self.waiting.fetch_sub(1, Ordering::Relaxed);
                Delivery::Batch(source, batch)
            }
            Err(RecvTimeoutError::Timeout) => Delivery::Idle,
            Err(RecvTimeoutError::Disconnected) => Delivery::Ended,
        }
    }

    /// Number of batches in the queue, and the queue's capacity.
    pub fn fill(&self) -> (usize, usize) {
        (self.waiting.load(Ordering::Relaxed), self.capacity)
    }

    /// Returns a batch to its source, to be filled again.
    pub fn recycle(&self, source: usize, mut batch: Batch) {
        batch.clear();
        // Fails only if the source has ended, which needs no more batches.
        let _ = self.sources[source].empty.send(batch);
    }

    /// The status of each source, which stays valid after the source has ended.
    pub fn statuses(&self) -> Vec<Arc<SourceStatus>> {
        self.sources.iter().map(|source| Arc::clone(&source.status)).collect()
    }

    /// Asks the sources to pass on the frames that have arrived, and then to stop.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    /// Stops the sources, drops batches that are still queued, and waits for the threads.
    pub fn finish(self) -> Vec<SourceEnd> {
        self.stop();
        drop(self.batches);
        let join = |source: RunningSource| {
            source.thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        };
        self.sources.into_iter().map(join).collect()
    }
}

impl SourceThread {
    fn run(self, mut source: Box<dyn Source>) -> SourceEnd {
        let mut left = source.depth();
        let (mut error, mut closed) = (None, false);
        loop {
            let ending = error.is_some() || self.stop.load(Ordering::Relaxed);
            if ending && !closed {
                // A source that cannot be closed ends after `depth` batches.
                let _ = source.close();
                closed = true;
            }
            let mut batch = self.reusable.try_recv().unwrap_or_default();
            match source.next_batch(&mut batch) {
                Ok(()) => {}
                // The failure is reported at once; frames that had arrived are still read.
                Err(failed) if error.is_none() => {
                    self.status.fail(&failed);
                    error = Some(failed);
                    continue;
                }
                Err(_) => break,
            }
            if ending {
                left -= 1;
            }
            // The counts are updated before the batch is passed on, so that no observer sees more
            // frames than were received. A failure to read them here shows up again in the last
            // call below.
            let _ = self.count(source.as_mut(), false);
            let last = ending && (batch.is_empty() || left == 0);
            if !self.deliver(batch) || last {
                break;
            }
        }
        match self.count(source.as_mut(), true) {
            Ok(statistics) => SourceEnd { statistics, error },
            Err(unread) => {
                if error.is_none() {
                    self.status.fail(&unread);
                }
                SourceEnd {
                    statistics: InterfaceStatistics::default(),
                    error: error.or(Some(unread)),
                }
            }
        }
    }

    fn count(
        &self,
        source: &mut dyn Source,
        fresh: bool,
    ) -> Result<InterfaceStatistics, CaptureError> {
        self.status.set_outages(source.outages());
        let statistics = source.statistics(fresh)?;
        self.status.count(statistics);
        Ok(statistics)
    }

    /// Queues a batch. Returns false if the reading end is gone.
    fn deliver(&self, batch: Batch) -> bool {
        if batch.is_empty() {
            return true;
        }
        self.waiting.fetch_add(1, Ordering::Relaxed);
        self.filled.send((self.number, batch)).is_ok()
    }
}
