//! Sources on threads of their own, and one bounded queue of batches from them to the writer.
//!
//! When the queue is full the sources wait, the kernel's rings fill, and what they drop is counted:
//! frames are never lost in here. Batches travel back to be filled again. A source that fails hands
//! over what had arrived; the others go on.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, channel, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use hmtt::pcapng::InterfaceStatistics;

use super::standing::Standing;
use super::{Batch, CaptureError, Source, WAIT_MILLIS};

/// What comes out of the queue.
#[derive(Debug)]
pub enum Delivery {
    /// Frames of the source with this number.
    Batch(usize, Batch),
    /// Nothing came for a while.
    Idle,
    /// The sources have stopped; nothing follows.
    Ended,
}

/// What a source leaves behind.
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
    batches: Receiver<(usize, Batch)>,
    waiting: Arc<AtomicUsize>,
    capacity: usize,
    stop: Arc<AtomicBool>,
    sources: Vec<Started>,
}

#[derive(Debug)]
struct Started {
    empty: Sender<Batch>,
    standing: Arc<Standing>,
    thread: JoinHandle<Ending>,
}

/// What a source's thread holds.
struct Feed {
    number: usize,
    filled: SyncSender<(usize, Batch)>,
    waiting: Arc<AtomicUsize>,
    reusable: Receiver<Batch>,
    stop: Arc<AtomicBool>,
    standing: Arc<Standing>,
}

impl Queue {
    /// Starts a thread for each source; at most `capacity` batches wait for the reader.
    pub fn start(sources: Vec<Box<dyn Source>>, capacity: usize) -> Self {
        let (filled, batches) = sync_channel(capacity);
        let stop = Arc::new(AtomicBool::new(false));
        let waiting = Arc::new(AtomicUsize::new(0));
        let start = |(number, source)| {
            let (empty, reusable) = channel();
            let standing = Arc::new(Standing::default());
            let feed = Feed {
                number,
                filled: filled.clone(),
                waiting: Arc::clone(&waiting),
                reusable,
                stop: Arc::clone(&stop),
                standing: Arc::clone(&standing),
            };
            Started { empty, standing, thread: thread::spawn(move || feed.run(source)) }
        };
        let sources = sources.into_iter().enumerate().map(start).collect();
        Queue { batches, waiting, capacity, stop, sources }
    }

    /// Waits a little for the next batch.
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

    /// Batches that wait, and how many may.
    pub fn fill(&self) -> (usize, usize) {
        (self.waiting.load(Ordering::Relaxed), self.capacity)
    }

    /// Gives a batch back to its source, to be filled again.
    pub fn recycle(&self, source: usize, mut batch: Batch) {
        batch.clear();
        // An ended source needs no more batches.
        let _ = self.sources[source].empty.send(batch);
    }

    /// How each source is doing, for as long as anyone wants to know.
    pub fn standings(&self) -> Vec<Arc<Standing>> {
        self.sources.iter().map(|source| Arc::clone(&source.standing)).collect()
    }

    /// Asks the sources to hand over what has arrived and then to stop.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    /// Stops the sources, dropping what still waits, and waits for their ends.
    pub fn finish(self) -> Vec<Ending> {
        self.stop();
        drop(self.batches);
        let join = |source: Started| {
            source.thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        };
        self.sources.into_iter().map(join).collect()
    }
}

impl Feed {
    fn run(self, mut source: Box<dyn Source>) -> Ending {
        let mut left = source.depth();
        let (mut error, mut closed) = (None, false);
        loop {
            let ending = error.is_some() || self.stop.load(Ordering::Relaxed);
            if ending && !closed {
                // A source that cannot be closed ends after its depth.
                let _ = source.close();
                closed = true;
            }
            let mut batch = self.reusable.try_recv().unwrap_or_default();
            match source.next_batch(&mut batch) {
                Ok(()) => {}
                // Known at once; what had arrived before is still taken.
                Err(failed) if error.is_none() => {
                    self.standing.fail(&failed);
                    error = Some(failed);
                    continue;
                }
                Err(_) => break,
            }
            if ending {
                left -= 1;
            }
            // Counted before it is handed over: nobody sees more frames than were received. What
            // cannot be read now is an error at the end.
            let _ = self.count(source.as_mut(), false);
            let last = ending && (batch.is_empty() || left == 0);
            if !self.deliver(batch) || last {
                break;
            }
        }
        match self.count(source.as_mut(), true) {
            Ok(statistics) => Ending { statistics, error },
            Err(unread) => {
                if error.is_none() {
                    self.standing.fail(&unread);
                }
                Ending { statistics: InterfaceStatistics::default(), error: error.or(Some(unread)) }
            }
        }
    }

    fn count(
        &self,
        source: &mut dyn Source,
        fresh: bool,
    ) -> Result<InterfaceStatistics, CaptureError> {
        let statistics = source.statistics(fresh)?;
        self.standing.count(statistics);
        Ok(statistics)
    }

    /// Whether anyone still takes batches.
    fn deliver(&self, batch: Batch) -> bool {
        if batch.is_empty() {
            return true;
        }
        self.waiting.fetch_add(1, Ordering::Relaxed);
        self.filled.send((self.number, batch)).is_ok()
    }
}
