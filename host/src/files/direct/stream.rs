//! Bytes to a pipe, a socket or a device, whose reader may stop reading.
//!
//! A blocking `write` to a full pipe can only be ended by a signal to its very thread, and `O_NONBLOCK` would
//! be set for everybody who shares standard output. So each write is preceded by `poll`, and is no longer
//! than what a pipe that polls writable takes at once (`PIPE_BUF`, pipe(7)).

use std::fs::File;
use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// Bytes that a pipe takes without waiting once it polls writable.
const PIECE_BYTES: usize = 4096;
/// How often the flags are looked at while the reader takes nothing.
const TICK: Timespec = Timespec { tv_sec: 0, tv_nsec: 20_000_000 };
/// The same, where `poll` does not wait.
const SLEEP: Duration = Duration::from_millis(20);
/// How long a reader may take nothing once the capture is to end.
const PATIENCE: Duration = Duration::from_secs(1);

/// Whether the capture is to end, whoever asked for that.
#[derive(Clone, Debug, Default)]
pub struct Stop(Vec<Arc<AtomicBool>>);

impl Stop {
    /// Asked for by any of these flags.
    pub fn new(flags: Vec<Arc<AtomicBool>>) -> Self {
        Stop(flags)
    }

    /// Whether the capture is to end.
    pub fn is_asked(&self) -> bool {
        self.0.iter().any(|flag| flag.load(Ordering::Relaxed))
    }
}

/// A reader took nothing for too long.
#[derive(Debug, thiserror::Error)]
#[error("the reader takes nothing")]
pub(in crate::files) struct Stalled;

/// Writes all of `bytes`, however long the reader takes, unless the capture is to end and the reader
/// takes nothing for a second. How many bytes were written comes back, and what failed.
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
            Ok(None) if idle.get_or_insert_with(Instant::now).elapsed() < PATIENCE => {}
            Ok(None) => return (written, Err(io::Error::other(Stalled))),
            Err(error) => return (written, Err(error)),
        }
    }
    (written, Ok(()))
}

/// Writes what the reader takes at once of a piece; `None`: nothing, for a while.
fn write_piece(mut file: &File, piece: &[u8]) -> io::Result<Option<usize>> {
    match poll(&mut [PollFd::new(file, PollFlags::OUT)], Some(&TICK)) {
        Ok(0) | Err(rustix::io::Errno::INTR) => return Ok(None),
        Ok(_) => {}
        Err(error) => return Err(error.into()),
    }
    match file.write(piece) {
        Ok(0) => Err(io::ErrorKind::WriteZero.into()),
        Ok(count) => Ok(Some(count)),
        Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(None),
        // Somebody else writes to it, too, and was quicker.
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
            std::thread::sleep(SLEEP);
            Ok(None)
        }
        Err(error) => Err(error),
    }
}
