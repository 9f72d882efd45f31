//! Copies of batches to whoever watches them, on a thread that may lag and that takes no more than its
//! share of a processor.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

use crate::capture::Batch;

/// Batches that may wait for the observer.
const WAITING_BATCHES: usize = 8;

/// How long the observer may save up what it does not use.
const SAVED: Duration = Duration::from_millis(500);

/// How long is slept while there is no share left.
const NAP: Duration = Duration::from_millis(20);

/// Sees batches, each of the interface with this number, when there is time for it.
pub type Observe = Box<dyn FnMut(usize, &Batch) + Send>;

/// Processor time that may be used: a share of the time that passes.
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

    /// Whether some of it is left.
    fn is_left(&mut self) -> bool {
        if self.share >= 1.0 {
            return true;
        }
        let (now, used) = (Instant::now(), thread_time());
        let passed = now.duration_since(self.renewed).as_secs_f64();
        let spent = used.saturating_sub(self.used).as_secs_f64();
        self.left = (self.left + passed * self.share - spent).min(SAVED.as_secs_f64() * self.share);
        (self.renewed, self.used) = (now, used);
        self.left > 0.0
    }
}

/// Processor time this thread has used.
fn thread_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// What both threads know.
#[derive(Debug, Default)]
struct Shared {
    /// Batches that wait.
    waiting: AtomicUsize,
    /// Frames that were left out.
    skipped: AtomicU64,
    /// Nothing more comes.
    ending: AtomicBool,
}

/// The observer's thread.
struct Watcher {
    observe: Observe,
    budget: Budget,
    batches: Receiver<(usize, Batch)>,
    /// The way back, for batches to be filled again.
    empties: Sender<Batch>,
    shared: Arc<Shared>,
}

impl Watcher {
    fn run(mut self) {
        while let Ok((link, mut batch)) = self.batches.recv() {
            if self.wait_for_budget() {
                (self.observe)(link, &batch);
            } else {
                self.shared.skipped.fetch_add(batch.len() as u64, Ordering::Relaxed);
            }
            batch.clear();
            // The recorder may be gone.
            let _ = self.empties.send(batch);
            self.shared.waiting.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Sleeps until there is some; at the end nobody waits, and there may be none.
    fn wait_for_budget(&mut self) -> bool {
        while !self.budget.is_left() {
            if self.shared.ending.load(Ordering::Relaxed) {
                return false;
            }
            thread::park_timeout(NAP);
        }
        true
    }
}

/// The way to the observer's thread, and the thread.
#[derive(Debug)]
struct Watching {
    batches: Sender<(usize, Batch)>,
    empties: Receiver<Batch>,
    thread: JoinHandle<()>,
}

/// Passes copies of batches on.
#[derive(Debug)]
pub(super) struct Observer {
    watching: Option<Watching>,
    shared: Arc<Shared>,
}

impl Observer {
    /// `share`: of a processor that the watcher may use, up to 1.
    pub fn start(observe: Option<Observe>, share: f64) -> Self {
        let shared = Arc::new(Shared::default());
        let watching = observe.map(|observe| {
            let ((batches, received), (empties, reusable)) = (channel(), channel());
            let shared = Arc::clone(&shared);
            let start = move || {
                let budget = Budget::new(share);
                Watcher { observe, budget, batches: received, empties, shared }.run();
            };
            Watching { batches, empties: reusable, thread: thread::spawn(start) }
        });
        Observer { watching, shared }
    }

    /// Passes a copy of a batch on, if there is room. The batch itself is not kept: it may be the
    /// kernel's memory, which a thread that lags must not hold.
    pub fn pass(&self, link: usize, batch: &Batch) {
        let Some(watching) = &self.watching else { return };
        let skip = || self.shared.skipped.fetch_add(batch.len() as u64, Ordering::Relaxed);
        if self.shared.waiting.load(Ordering::Relaxed) >= WAITING_BATCHES {
            skip();
            return;
        }
        let mut copy = watching.empties.try_recv().unwrap_or_default();
        copy.copy_from(batch);
        self.shared.waiting.fetch_add(1, Ordering::Relaxed);
        if watching.batches.send((link, copy)).is_err() {
            skip();
        }
    }

    /// Frames the observer did not see.
    pub fn skipped(&self) -> u64 {
        self.shared.skipped.load(Ordering::Relaxed)
    }

    /// Waits until all that was passed on has been seen, or left out; says how many frames were.
    pub fn finish(self) -> u64 {
        if let Some(Watching { batches, thread, .. }) = self.watching {
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
