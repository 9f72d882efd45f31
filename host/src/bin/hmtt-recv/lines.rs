//! What is known of a capture to lines of JSON on standard output, on a thread of its own.
//!
//! Invariant: who reads them, however slowly, holds up nothing but the last line: what does not fit
//! is left out, and the next line that fits says how many were.

use std::io::{self, Write};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use serde::Serialize;

/// Lines that may wait, beside the one being written and what a pipe holds.
const WAITING_LINES: usize = 2;
/// How long a request to give up may wait.
const TICK: Duration = Duration::from_millis(20);

/// A line that says what it is.
#[derive(Serialize)]
struct Line<'a, T> {
    #[serde(rename = "type")]
    kind: &'static str,
    /// Lines that were left out before this one.
    skipped_lines: u64,
    #[serde(flatten)]
    value: &'a T,
}

/// The way to standard output.
pub struct Lines {
    waiting: SyncSender<Vec<u8>>,
    thread: JoinHandle<io::Result<()>>,
    skipped: u64,
}

impl Lines {
    /// Starts the thread.
    pub fn start() -> Self {
        let (waiting, lines) = sync_channel(WAITING_LINES);
        Lines { waiting, thread: thread::spawn(|| print(lines)), skipped: 0 }
    }

    fn line(&self, kind: &'static str, value: &impl Serialize) -> io::Result<Vec<u8>> {
        let mut line = serde_json::to_vec(&Line { kind, skipped_lines: self.skipped, value })?;
        line.push(b'\n');
        Ok(line)
    }

    /// Prints a line if there is room for it. Who stops reading does not stop the capture.
    pub fn offer(&mut self, kind: &'static str, value: &impl Serialize) {
        let Ok(line) = self.line(kind, value) else { return };
        if let Err(TrySendError::Full(_)) = self.waiting.try_send(line) {
            self.skipped += 1;
        }
    }

    /// Prints the last line, for which there is always time, unless `is_given_up`.
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
                    thread::sleep(TICK);
                }
                // Why nothing can be printed any more is the thread's to say.
                Ok(()) | Err(TrySendError::Disconnected(_)) => {}
            }
        }
        drop(self.waiting);
        while !self.thread.is_finished() {
            if is_given_up() {
                return Ok(());
            }
            thread::sleep(TICK);
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
