//! Batches that were written to whoever watches them, on a thread that may lag.

use std::sync::mpsc::{Sender, SyncSender, TrySendError, sync_channel};
use std::thread::{self, JoinHandle};

use crate::capture::Batch;

/// Batches that may wait for the observer.
const WAITING_BATCHES: usize = 8;

/// Sees frames when there is time for it.
pub trait Observe: Send {
    /// Takes note of a batch of the interface with this number.
    fn batch(&mut self, link: usize, batch: &Batch);
}

impl<F: FnMut(usize, &Batch) + Send> Observe for F {
    fn batch(&mut self, link: usize, batch: &Batch) {
        self(link, batch);
    }
}

/// The way to the observer's thread, and the thread.
type Watching = (SyncSender<(usize, Batch)>, JoinHandle<()>);

/// Passes batches on, and gives them back to be filled again.
#[derive(Debug)]
pub(super) struct Observer {
    empties: Vec<Sender<Batch>>,
    thread: Option<Watching>,
    skipped: u64,
}

impl Observer {
    pub fn start(watcher: Option<Box<dyn Observe>>, empties: Vec<Sender<Batch>>) -> Self {
        let thread = watcher.map(|mut watcher| {
            let (batches, written) = sync_channel::<(usize, Batch)>(WAITING_BATCHES);
            let back = empties.clone();
            let thread = thread::spawn(move || {
                for (link, batch) in written {
                    watcher.batch(link, &batch);
                    recycle(&back, link, batch);
                }
            });
            (batches, thread)
        });
        Observer { empties, thread, skipped: 0 }
    }

    /// Passes a batch on, if there is room.
    pub fn pass(&mut self, link: usize, batch: Batch) {
        let Some((batches, _)) = &self.thread else { return recycle(&self.empties, link, batch) };
        match batches.try_send((link, batch)) {
            Ok(()) => {}
            Err(TrySendError::Full((link, batch)) | TrySendError::Disconnected((link, batch))) => {
                self.skipped += batch.len() as u64;
                recycle(&self.empties, link, batch);
            }
        }
    }

    /// Frames that were not passed on.
    pub fn skipped(&self) -> u64 {
        self.skipped
    }

    /// Waits until all that was passed on has been seen.
    pub fn finish(self) {
        if let Some((batches, thread)) = self.thread {
            drop(batches);
            if let Err(panic) = thread.join() {
                std::panic::resume_unwind(panic);
            }
        }
    }
}

/// An ended source needs no more batches: that the way back is closed is no error.
fn recycle(empties: &[Sender<Batch>], link: usize, mut batch: Batch) {
    batch.clear();
    let _ = empties[link].send(batch);
}
