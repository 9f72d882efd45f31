//! Writes bytes to a pipe, a socket or a device whose reader may stop reading.
//!
//! Only a signal to the writing thread ends a blocking `write` to a full pipe, and `O_NONBLOCK`
//! would apply to every process that shares standard output. So each write is preceded by `poll`
//! and is at most as long as a pipe that polls writable accepts without blocking (`PIPE_BUF`,
//! pipe(7)).

use std::fs::File;
use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// Bytes that a pipe accepts without blocking once it polls writable.
const PIECE_BYTES: usize = 4096;
/// Interval at which the stop flags are checked while the reader does not read.
const POLL_INTERVAL: Timespec = Timespec { tv_sec: 0, tv_nsec: 20_000_000 };
/// Pause before the next attempt, if `poll` returns at once and the write would block.
const RETRY_INTERVAL: Duration = Duration::from_millis(20);
/// How long the reader may stop reading once the capture was asked to end.
const STALL_TIMEOUT: Duration = Duration::from_secs(1);

/// Flags that request the end of the capture.
#[derive(Clone, Debug, Default)]
pub struct Stop(Vec<Arc<AtomicBool>>);

impl Stop {
    /// Combines flags: any of them requests the end.
    pub fn new(flags: Vec<Arc<AtomicBool>>) -> Self {
        Stop(flags)
    }

    /// Whether the end of the capture was requested.
    pub fn is_asked(&self) -> bool {
        self.0.iter().any(|flag| flag.load(Ordering::Relaxed))
    }
}

/// The reader did not read for [`STALL_TIMEOUT`].
#[derive(Debug, thiserror::Error)]
#[error("the reader stopped reading")]
pub(in crate::files) struct Stalled;

/// Writes all of `bytes`, however long the reader takes, unless the capture was asked to end and
/// the reader does not read for a second. Returns the number of bytes that were written, and the
/// error.
pub(super) fn write(file: &File, bytes: &[u8], stop: &Stop) -> (usize, io::Result<()>) {
    let mut written = 0;
    let mut idle: Option<Instant> = None;
    while written < bytes.len() {
        let piece = &bytes[written..bytes.len().min(written + PIECE_BYTES)];
        match write_piece(file, piece) {
            Ok(Some(count)) => {
                written += count;
                idle = None;
            }
            Ok(None) if !stop.is_asked() => {}
            Ok(None) if idle.get_or_insert_with(Instant::now).elapsed() < STALL_TIMEOUT => {}
            Ok(None) => return (written, Err(io::Error::other(Stalled))),
            Err(error) => return (written, Err(error)),
        }
    }
    (written, Ok(()))
}

/// Writes as much of a piece as the stream accepts without blocking; `None` if it accepted nothing
/// in one interval.
fn write_piece(mut file: &File, piece: &[u8]) -> io::Result<Option<usize>> {
    match poll(&mut [PollFd::new(file, PollFlags::OUT)], Some(&POLL_INTERVAL)) {
        Ok(0) | Err(rustix::io::Errno::INTR) => return Ok(None),
        Ok(_) => {}
        Err(error) => return Err(error.into()),
    }
    match file.write(piece) {
        Ok(0) => Err(io::ErrorKind::WriteZero.into()),
        Ok(count) => Ok(Some(count)),
        Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(None),
        // Another process that writes to the same stream has filled it.
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
            std::thread::sleep(RETRY_INTERVAL);
            Ok(None)
        }
        Err(error) => Err(error),
    }
}
