//! Completes and writes the results of processes that are no longer followed, on a separate thread.
//!
//! Finding the names of functions takes time, in which other processes continue. If many processes
//! end at the same time, the tracer waits, so that the memory for their results is limited.

use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::JoinHandle;

use hmtt_probe::control::Ending;

use super::super::tracer::Seen;
use super::super::workers::Workers;
use super::{Followed, Output};

/// Maximum number of processes whose results wait to be written.
const WAITING: usize = 16;

/// A process that is no longer followed, with all that its result needs.
struct Ended {
    workers: Workers,
    seen: Seen,
    output: Option<Output>,
    ending: Ending,
}

/// The thread that writes results.
pub struct Writer(Option<(SyncSender<Ended>, JoinHandle<()>)>);

impl Writer {
    /// Starts the thread.
    pub fn start() -> Self {
        let (sender, ended) = sync_channel::<Ended>(WAITING);
        let thread = std::thread::spawn(move || {
            for Ended { workers, seen, output, ending } in ended {
                let outcome = workers.finish(seen, ending);
                if let Some(output) = output {
                    output(outcome);
                }
            }
        });
        Writer(Some((sender, thread)))
    }

    /// Queues the result of a process. Waits if the queue is full.
    pub fn write(&self, followed: Followed, ending: Ending) {
        let Followed { tracer, workers, output, .. } = followed;
        if let Some((sender, _)) = &self.0 {
            let _ = sender.send(Ended { workers, seen: tracer.seen(), output, ending });
        }
    }

    /// Ends the thread after it has written all queued results.
    pub fn finish(&mut self) {
        if let Some((sender, thread)) = self.0.take() {
            drop(sender);
            let _ = thread.join();
        }
    }
}
