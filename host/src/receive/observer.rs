//! Batches that were written to whoever watches them, on a thread that may lag and that takes no more
//! than its share of a processor.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Sender, SyncSender, TrySendError, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

use crate::capture::Batch;

/// Batches that may wait for the observer.
const WAITING_BATCHES: usize = 8;

/// How long the observer may save up what it does not use.
const SAVED: Duration = Duration::from_millis(500);

/// Sees batches, each of the interface with this number, when there is time for it.
pub type Observe = Box<dyn FnMut(usize, &Batch) + Send>;

/// The way to the observer's thread, and the thread.
type Watching = (SyncSender<(usize, Batch)>, JoinHandle<()>);

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

/// Passes batches on, and gives them back to be filled again.
#[derive(Debug)]
pub(super) struct Observer {
    empties: Vec<Sender<Batch>>,
    thread: Option<Watching>,
    skipped: Arc<AtomicU64>,
}

impl Observer {
    /// `share`: of a processor that the watcher may use, up to 1.
    pub fn start(watcher: Option<Observe>, share: f64, empties: Vec<Sender<Batch>>) -> Self {
        let skipped = Arc::new(AtomicU64::new(0));
        let thread = watcher.map(|mut watcher| {
            let (batches, written) = sync_channel::<(usize, Batch)>(WAITING_BATCHES);
            let (back, skipped) = (empties.clone(), Arc::clone(&skipped));
            let thread = thread::spawn(move || {
                let mut budget = Budget::new(share);
                for (link, batch) in written {
                    if budget.is_left() {
                        watcher(link, &batch);
                    } else {
                        skipped.fetch_add(batch.len() as u64, Ordering::Relaxed);
                    }
                    recycle(&back, link, batch);
                }
            });
            (batches, thread)
        });
        Observer { empties, thread, skipped }
    }

    /// Passes a batch on, if there is room.
    pub fn pass(&mut self, link: usize, batch: Batch) {
        let Some((batches, _)) = &self.thread else { return recycle(&self.empties, link, batch) };
        match batches.try_send((link, batch)) {
            Ok(()) => {}
            Err(TrySendError::Full((link, batch)) | TrySendError::Disconnected((link, batch))) => {
                self.skipped.fetch_add(batch.len() as u64, Ordering::Relaxed);
                recycle(&self.empties, link, batch);
            }
        }
    }

    /// Frames the observer did not see.
    pub fn skipped(&self) -> u64 {
        self.skipped.load(Ordering::Relaxed)
    }

    /// Waits until all that was passed on has been seen, or left out; says how many frames were.
    pub fn finish(self) -> u64 {
        if let Some((batches, thread)) = self.thread {
            drop(batches);
            if let Err(panic) = thread.join() {
                std::panic::resume_unwind(panic);
            }
        }
        self.skipped.load(Ordering::Relaxed)
    }
}

/// An ended source needs no more batches: that the way back is closed is no error.
fn recycle(empties: &[Sender<Batch>], link: usize, mut batch: Batch) {
    batch.clear();
    let _ = empties[link].send(batch);
}
