//! Batches from a capture to a file, while the order and the losses are checked.
//!
//! Joins `capture` with `pcapng` and `decode` on the calling thread. Invariant: a frame is written
//! before it is checked, and everything that was captured before the end was asked for is written.

mod snapshot;

pub use snapshot::{Link, Snapshot};

use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime};

use hmtt_format::frame::END_REPEATS;
use serde::Serialize;

use crate::capture::queue::{Delivery, Queue};
use crate::capture::{Batch, CaptureError};
use crate::decode::{Counted, Counts, Origin, Trace};
use crate::pcapng::{InterfaceStatistics, PcapngWriter, WriteError};

/// When to stop, besides being interrupted.
#[derive(Clone, Copy, Debug, Default)]
pub struct Limits {
    /// After this time.
    pub duration: Option<Duration>,
    /// After this many captured frames.
    pub frames: Option<u64>,
    /// After the card has said that its capture ended.
    pub until_end: bool,
}

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

/// What was received.
#[derive(Debug, Default, Serialize)]
pub struct Outcome {
    /// Frames captured, foreign ones included.
    pub captured: u64,
    /// Seconds from the first wait to the end.
    pub seconds: f64,
    /// What kernel and interface counted.
    #[serde(flatten)]
    pub statistics: InterfaceStatistics,
    /// Missing frames that the kernel did not drop: lost between the card and here.
    pub missing_on_wire: u64,
    /// What the frames held, and what was missing.
    #[serde(flatten)]
    pub counts: Counts,
    /// Why the capture ended early, if it did.
    #[serde(skip)]
    pub error: Option<ReceiveError>,
}

impl Outcome {
    /// Whether anything is known to be missing.
    pub fn has_loss(&self) -> bool {
        self.counts.has_loss() || self.statistics.kernel_drops.unwrap_or(0) != 0
    }
}

struct Receiver<'a, W: Write> {
    writer: Option<PcapngWriter<W>>,
    trace: Trace,
    limits: &'a Limits,
    captured: u64,
}

/// Receives until a limit or `interrupted` says to stop. With no `writer` only counts.
pub fn receive<W: Write>(
    queue: Queue,
    writer: Option<PcapngWriter<W>>,
    limits: &Limits,
    interrupted: &AtomicBool,
) -> Outcome {
    let begin = Instant::now();
    let mut receiver = Receiver { writer, trace: Trace::default(), limits, captured: 0 };
    let mut error = None;
    while !receiver.is_full() {
        let late = limits.duration.is_some_and(|duration| begin.elapsed() >= duration);
        if late || interrupted.load(Ordering::Relaxed) {
            queue.stop();
        }
        match queue.next() {
            Delivery::Batch(batch) => {
                if let Err(failed) = receiver.take(&batch) {
                    error = Some(failed.into());
                    break;
                }
                queue.recycle(batch);
                if limits.until_end && receiver.ends() >= u64::from(END_REPEATS) {
                    queue.stop();
                }
            }
            Delivery::Idle if limits.until_end && receiver.ends() != 0 => queue.stop(),
            Delivery::Idle => {}
            Delivery::Ended => break,
        }
    }
    let ending = queue.finish();
    let error: Option<ReceiveError> = error.or(ending.error.map(Into::into));
    let seconds = begin.elapsed().as_secs_f64();
    receiver.finish(Outcome { seconds, statistics: ending.statistics, error, ..Outcome::default() })
}

impl<W: Write> Receiver<'_, W> {
    fn is_full(&self) -> bool {
        self.limits.frames.is_some_and(|frames| self.captured >= frames)
    }

    fn ends(&self) -> u64 {
        self.trace.counts().ends
    }

    /// A batch is whole in the file before the next is waited for: a killed receiver leaves a
    /// readable capture.
    fn take(&mut self, batch: &Batch) -> Result<(), WriteError> {
        for frame in batch.frames() {
            if self.is_full() {
                break;
            }
            self.captured += 1;
            if let Some(writer) = &mut self.writer {
                writer.write_frame(frame.time, frame.original_len, frame.bytes)?;
            }
            let origin =
                Origin { packet: self.captured, time: Some(frame.time), ..Origin::default() };
            self.trace.count(origin, frame.bytes, &mut |_| {});
        }
        self.writer.as_mut().map_or(Ok(()), PcapngWriter::flush)
    }

    fn finish(self, mut outcome: Outcome) -> Outcome {
        outcome.captured = self.captured;
        outcome.counts = self.trace.finish_to(&mut Counted(|_| {}));
        let dropped = outcome.statistics.kernel_drops.unwrap_or(0);
        outcome.missing_on_wire = outcome.counts.order.missing.saturating_sub(dropped);
        if let Some(writer) = self.writer {
            let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
            if let Err(error) = writer.finish(now, &outcome.statistics) {
                outcome.error.get_or_insert(error.into());
            }
        }
        outcome
    }
}
