//! A stream to the same stream, with a limit to the bytes of one command.
//!
//! The vcd crate keeps a whole command in memory, comments too. A small compressed file may hold a comment of
//! many gigabytes.

use std::io::{self, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Most bytes of a command, white space before it included.
const MAX_COMMAND_BYTES: usize = 1 << 20;

/// Bytes that the current command may still take. The parser owns the stream, so this is shared with it.
#[derive(Clone, Debug, Default)]
pub struct Bound(Arc<AtomicUsize>);

impl Bound {
    /// Another command begins.
    pub fn begin(&self) {
        self.0.store(MAX_COMMAND_BYTES, Ordering::Relaxed);
    }
}

/// A stream whose commands are bounded.
pub struct Bounded<R> {
    /// The stream.
    pub reader: R,
    /// What is left.
    pub bound: Bound,
}

impl<R: Read> Read for Bounded<R> {
    /// The parser reads byte by byte.
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let left = self.bound.0.load(Ordering::Relaxed);
        if left == 0 {
            let reason = format!("a command is longer than {MAX_COMMAND_BYTES} bytes");
            return Err(io::Error::new(io::ErrorKind::InvalidData, reason));
        }
        let most = left.min(buffer.len());
        let read = self.reader.read(&mut buffer[..most])?;
        self.bound.0.store(left - read, Ordering::Relaxed);
        Ok(read)
    }
}
