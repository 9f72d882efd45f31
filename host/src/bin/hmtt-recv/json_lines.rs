//! Prints the state of a capture as lines of JSON on standard output, on a separate thread.
//!
//! Invariant: a slow reader of standard output delays only the last line. A line for which the
//! queue has no space is skipped, and the next line states how many were skipped.

use std::io::{self, Write};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use serde::Serialize;

/// Number of lines that may wait in the queue. The line being written and the lines in the pipe do
/// not count.
const WAITING_LINES: usize = 2;
/// Interval at which [`JsonLines::finish`] checks whether to stop waiting.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// A line of output, with its type.
#[derive(Serialize)]
struct JsonLine<'a, T> {
    kind: &'static str,
    /// Number of lines that were skipped since the previous line.
    skipped_lines: u64,
    #[serde(flatten)]
    value: &'a T,
}

/// Queue of lines to the thread that writes standard output.
pub struct JsonLines {
    waiting: SyncSender<Vec<u8>>,
    thread: JoinHandle<io::Result<()>>,
    skipped: u64,
}

impl JsonLines {
    /// Starts the thread.
    pub fn start() -> Self {
        let (waiting, lines) = sync_channel(WAITING_LINES);
        JsonLines { waiting, thread: thread::spawn(|| print(lines)), skipped: 0 }
    }

    fn line(&self, kind: &'static str, value: &impl Serialize) -> io::Result<Vec<u8>> {
        let line = JsonLine { kind, skipped_lines: self.skipped, value };
        let mut line = hmtt_format::json::to_string(&line)?.into_bytes();
        line.push(b'\n');
        Ok(line)
    }

    /// Queues a line if there is space for it, and counts it as skipped otherwise: a reader that
    /// stops reading must not stop the capture.
    pub fn offer(&mut self, kind: &'static str, value: &impl Serialize) {
        let Ok(line) = self.line(kind, value) else { return };
        if let Err(TrySendError::Full(_)) = self.waiting.try_send(line) {
            self.skipped += 1;
        }
    }

    /// Prints the last line. Waits for the reader until `is_given_up` returns true.
    ///
    /// # Errors
    /// If standard output cannot be written.
    pub fn finish(
        self,
        kind: &'static str,
        value: &impl Serialize,
        is_given_up: impl Fn() -> bool,
    ) -> io::Result<()> {
        let mut last = Some(self.line(kind, value)?);
        while let Some(line) = last.take() {
            match self.waiting.try_send(line) {
                Err(TrySendError::Full(_)) if is_given_up() => return Ok(()),
                Err(TrySendError::Full(line)) => {
                    last = Some(line);
                    thread::sleep(POLL_INTERVAL);
                }
                // If the thread has ended, its error is returned by `join` below.
                Ok(()) | Err(TrySendError::Disconnected(_)) => {}
            }
        }
        drop(self.waiting);
        while !self.thread.is_finished() {
            if is_given_up() {
                return Ok(());
            }
            thread::sleep(POLL_INTERVAL);
        }
        self.thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }
}

fn print(lines: Receiver<Vec<u8>>) -> io::Result<()> {
    for line in lines {
        let mut output = io::stdout().lock();
        output.write_all(&line)?;
        output.flush()?;
    }
    Ok(())
}
