//! Limits the bytes that one command of a stream may have.
//!
//! The vcd crate keeps a whole command in memory, including comments. A small compressed file may contain a comment of
//! many gigabytes.

use std::io::{self, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Maximum length of a command in bytes, including white space before it.
const MAX_COMMAND_BYTES: usize = 1 << 20;

/// Bytes left for the current command. The parser owns the stream, so the count is shared with it.
#[derive(Clone, Debug, Default)]
pub struct Bound(Arc<AtomicUsize>);

impl Bound {
    /// Starts another command: resets the count.
    pub fn begin(&self) {
        self.0.store(MAX_COMMAND_BYTES, Ordering::Relaxed);
    }
}

/// A stream whose commands have a limited length.
pub struct Bounded<R> {
    /// The stream.
    pub reader: R,
    /// The bytes left for the current command.
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
