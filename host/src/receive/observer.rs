//! Passes copies of batches to an observer, on a thread that may lag and that uses no more than its
//! share of a processor.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

use crate::capture::Batch;

/// Number of batches that may be queued for the observer.
const WAITING_BATCHES: usize = 8;

/// The observer may save at most the budget of this elapsed time.
const MAX_CREDIT: Duration = Duration::from_millis(500);

/// Interval at which the budget is checked while it is used up.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Function that receives batches, each with the index of its interface.
pub type BatchObserver = Box<dyn FnMut(usize, &Batch) + Send>;

/// Budget of processor time: a share of the elapsed time.
struct Budget {
    share: f64,
    left: f64,
    renewed: Instant,
    used: Duration,
}

impl Budget {
    fn new(share: f64) -> Self {
        Budget { share, left: 0.0, renewed: Instant::now(), used: thread_time() }
    }

    /// Updates the budget, and returns whether any of it is left.
    fn is_left(&mut self) -> bool {
        if self.share >= 1.0 {
            return true;
        }
        let (now, used) = (Instant::now(), thread_time());
        let passed = now.duration_since(self.renewed).as_secs_f64();
        let spent = used.saturating_sub(self.used).as_secs_f64();
        self.left =
            (self.left + passed * self.share - spent).min(MAX_CREDIT.as_secs_f64() * self.share);
        (self.renewed, self.used) = (now, used);
        self.left > 0.0
    }
}

/// Processor time this thread has used.
fn thread_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// State that both threads share.
#[derive(Debug, Default)]
struct Shared {
    /// Number of queued batches.
    waiting: AtomicUsize,
    /// Number of skipped frames.
    skipped: AtomicU64,
    /// Set when no more batches follow.
    ending: AtomicBool,
}

/// State of the observer's thread.
struct ObserverThread {
    observe: BatchObserver,
    budget: Budget,
    batches: Receiver<(usize, Batch)>,
    /// Returns batches to the recorder, to be filled again.
    empties: Sender<Batch>,
    shared: Arc<Shared>,
}

impl ObserverThread {
    fn run(mut self) {
        while let Ok((link, mut batch)) = self.batches.recv() {
            if self.wait_for_budget() {
                (self.observe)(link, &batch);
            } else {
                self.shared.skipped.fetch_add(batch.len() as u64, Ordering::Relaxed);
            }
            batch.clear();
            // Fails only if the recorder has ended.
            let _ = self.empties.send(batch);
            self.shared.waiting.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Sleeps until some budget is left. Returns false if none is left and the capture is ending.
    fn wait_for_budget(&mut self) -> bool {
        while !self.budget.is_left() {
            if self.shared.ending.load(Ordering::Relaxed) {
                return false;
            }
            thread::park_timeout(POLL_INTERVAL);
        }
        true
    }
}

/// Channels to and from the observer's thread, and the thread.
#[derive(Debug)]
struct ObserverHandle {
    batches: Sender<(usize, Batch)>,
    empties: Receiver<Batch>,
    thread: JoinHandle<()>,
}

/// Passes copies of batches to the observer's thread.
#[derive(Debug)]
pub(super) struct Observer {
    handle: Option<ObserverHandle>,
    shared: Arc<Shared>,
}

impl Observer {
    /// Starts the thread. `share`: share of a processor that the observer may use, up to 1.
    pub fn start(observe: Option<BatchObserver>, share: f64) -> Self {
        let shared = Arc::new(Shared::default());
        let handle = observe.map(|observe| {
            let ((batches, received), (empties, reusable)) = (channel(), channel());
            let shared = Arc::clone(&shared);
            let start = move || {
                let budget = Budget::new(share);
                ObserverThread { observe, budget, batches: received, empties, shared }.run();
            };
            ObserverHandle { batches, empties: reusable, thread: thread::spawn(start) }
        });
        Observer { handle, shared }
    }

    /// Queues a copy of a batch if there is space. The batch itself is not kept: it may be a block
    /// of the ring, which a lagging thread must not hold.
    pub fn pass(&self, link: usize, batch: &Batch) {
        let Some(handle) = &self.handle else { return };
        let skip = || self.shared.skipped.fetch_add(batch.len() as u64, Ordering::Relaxed);
        if self.shared.waiting.load(Ordering::Relaxed) >= WAITING_BATCHES {
            skip();
            return;
        }
        let mut copy = handle.empties.try_recv().unwrap_or_default();
        copy.copy_from(batch);
        self.shared.waiting.fetch_add(1, Ordering::Relaxed);
        if handle.batches.send((link, copy)).is_err() {
            skip();
        }
    }

    /// Number of frames that the observer skipped.
    pub fn skipped(&self) -> u64 {
        self.shared.skipped.load(Ordering::Relaxed)
    }

    /// Waits until all queued batches have been observed or skipped. Returns the number of skipped
    /// frames.
    pub fn finish(self) -> u64 {
        if let Some(ObserverHandle { batches, thread, .. }) = self.handle {
            self.shared.ending.store(true, Ordering::Relaxed);
            thread.thread().unpark();
            drop(batches);
            if let Err(panic) = thread.join() {
                std::panic::resume_unwind(panic);
            }
        }
        self.shared.skipped.load(Ordering::Relaxed)
    }
}
