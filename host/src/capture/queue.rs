//! A source on a thread of its own, and a bounded queue of batches from there to the writer.
//!
//! When the queue is full the source waits, the kernel's ring fills, and what it drops is counted:
//! frames are never lost in here. Batches travel back to be filled again.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, channel, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use super::{Batch, CaptureError, Source, WAIT_MILLIS};
use crate::pcapng::InterfaceStatistics;

/// Batches that may wait for the writer, about 1 MiB each.
const QUEUE_BATCHES: usize = 64;

/// What comes out of the queue.
#[derive(Debug)]
pub enum Delivery {
    /// Frames.
    Batch(Batch),
    /// Nothing came for a while.
    Idle,
    /// The source has stopped; nothing follows.
    Ended,
}

/// What the source leaves behind.
#[derive(Debug)]
pub struct Ending {
    /// What it counted.
    pub statistics: InterfaceStatistics,
    /// Why it stopped, unless it was asked to.
    pub error: Option<CaptureError>,
}

/// The reading end.
#[derive(Debug)]
pub struct Queue {
    batches: Receiver<Batch>,
    empty: Sender<Batch>,
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Ending>,
}

impl Queue {
    /// Starts the thread.
    pub fn start(source: impl Source + 'static) -> Self {
        let (filled, batches) = sync_channel(QUEUE_BATCHES);
        let (empty, reusable) = channel();
        let stop = Arc::new(AtomicBool::new(false));
        let asked = Arc::clone(&stop);
        let thread = thread::spawn(move || run(source, &filled, &reusable, &asked));
        Queue { batches, empty, stop, thread }
    }

    /// Waits a little for the next batch.
    pub fn next(&self) -> Delivery {
        match self.batches.recv_timeout(Duration::from_millis(WAIT_MILLIS.into())) {
            Ok(batch) => Delivery::Batch(batch),
            Err(RecvTimeoutError::Timeout) => Delivery::Idle,
            Err(RecvTimeoutError::Disconnected) => Delivery::Ended,
        }
    }

    /// Gives a batch back to be filled again.
    pub fn recycle(&self, mut batch: Batch) {
        batch.clear();
        // An ended source needs no more batches.
        let _ = self.empty.send(batch);
    }

    /// Asks the source to hand over what has arrived and then to stop.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    /// Stops the source, dropping what still waits, and waits for its end.
    pub fn finish(self) -> Ending {
        self.stop();
        drop(self.batches);
        self.thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }
}

fn run(
    mut source: impl Source,
    filled: &SyncSender<Batch>,
    reusable: &Receiver<Batch>,
    stop: &AtomicBool,
) -> Ending {
    let mut left = source.depth();
    let error = loop {
        let stopping = stop.load(Ordering::Relaxed);
        let mut batch = reusable.try_recv().unwrap_or_default();
        if let Err(error) = source.next_batch(&mut batch) {
            break Some(error);
        }
        if stopping {
            left -= 1;
        }
        if stopping && (batch.is_empty() || left == 0) {
            // The last batch still has to be handed over.
            deliver(filled, batch);
            break None;
        }
        if !deliver(filled, batch) {
            break None;
        }
    };
    match source.statistics() {
        Ok(statistics) => Ending { statistics, error },
        Err(unread) => {
            Ending { statistics: InterfaceStatistics::default(), error: error.or(Some(unread)) }
        }
    }
}

/// Whether anyone still takes batches.
fn deliver(filled: &SyncSender<Batch>, batch: Batch) -> bool {
    if batch.is_empty() {
        return true;
    }
    filled.send(batch).is_ok()
}
