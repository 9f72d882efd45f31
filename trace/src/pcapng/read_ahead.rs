//! Reads a file ahead of its reader, in a thread. The thread makes direct reads, which bypass the
//! page cache.
//!
//! Reading an uncached file through the page cache takes about twice as long as the disk needs.
//! This is processor time, because each page is allocated, filled and copied. A direct read costs
//! almost no processor time, but its caller waits for the disk. Therefore a thread makes the reads.
//!
//! ```text
//!            empty:  pieces to fill
//! reader  -------------------------->  thread   direct reads, one piece after the other
//!         <--------------------------
//!            full:  pieces in the file's order, then perhaps an error; closed at the end
//! ```
//!
//! [`PIECES`] pieces circulate, so a reader holds 16 MiB, and neither side ever waits to send.
//! Direct reads begin at multiples of a page, in the file and in memory. If the file ends within a
//! page, or if its file system refuses direct reads, the rest is read through the page cache. The
//! rest extends to the end that the file has at that time.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use std::panic::resume_unwind;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};

use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};

/// Alignment of direct reads, in the file and in memory, and unit of their length, in bytes.
const PAGE_BYTES: usize = 4096;
/// Bytes of a piece, which is read with one call. Reads of this size are enough for the full speed
/// of a disk.
pub const PIECE_BYTES: usize = 4 << 20;
/// Number of pieces: one is filled, one is read from, and two absorb delays of either side.
const PIECES: usize = 4;

/// Reads a file from its beginning, ahead of its user.
pub struct ReadAhead {
    /// The thread that reads; `None` after the end of the file or an error.
    thread: Option<Thread>,
    piece: Piece,
    /// Bytes of the current piece that were already returned.
    taken: usize,
    /// Kind of the error that has ended reading, which is returned again by further reads.
    failed: Option<io::ErrorKind>,
}

/// A buffer for one read. Its bytes begin at `memory[start..]`, which is at a multiple of
/// [`PAGE_BYTES`] in memory. `filled`: number of bytes that were read.
#[derive(Default)]
struct Piece {
    memory: Vec<u8>,
    start: usize,
    filled: usize,
}

/// The reader's ends of the channels to the thread, and the handle of the thread.
struct Thread {
    full: Receiver<io::Result<Piece>>,
    empty: SyncSender<Piece>,
    handle: JoinHandle<()>,
}

/// The state of the thread.
struct Filler {
    file: File,
    direct: bool,
    /// File offset of the next read.
    at: u64,
}

impl ReadAhead {
    /// Starts to read a file. `piece_bytes`: bytes of a piece. If the file system has no direct
    /// reads, the thread reads through the page cache.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub fn start(file: File, piece_bytes: usize) -> io::Result<ReadAhead> {
        let direct = set_direct(&file, true).is_ok();
        let filler = Filler { file, direct, at: 0 };
        let (to_full, full) = sync_channel(PIECES);
        let (empty, from_empty) = sync_channel(PIECES);
        for _ in 0..PIECES {
            // The channel has space for all pieces, and its other end is in this function.
            let _ = empty.send(Piece::new(piece_bytes));
        }
        let work = move || filler.run(&from_empty, &to_full);
        let handle = thread::Builder::new().name("read-ahead".into()).spawn(work)?;
        let thread = Some(Thread { full, empty, handle });
        Ok(ReadAhead { thread, piece: Piece::default(), taken: 0, failed: None })
    }

    /// Returns the current piece to the thread, and takes the next one. Returns `false` at the end
    /// of the file.
    fn next_piece(&mut self) -> io::Result<bool> {
        let Some(thread) = &self.thread else {
            return self.failed.map_or(Ok(false), |kind| Err(kind.into()));
        };
        self.taken = 0;
        let read = std::mem::take(&mut self.piece);
        if !read.memory.is_empty() {
            // A thread that has ended needs no more pieces.
            let _ = thread.empty.send(read);
        }
        match thread.full.recv() {
            Ok(Ok(piece)) => {
                self.piece = piece;
                Ok(true)
            }
            Ok(Err(error)) => {
                self.failed = Some(error.kind());
                self.end();
                Err(error)
            }
            Err(_) => {
                self.end();
                Ok(false)
            }
        }
    }

    /// Ends the thread and waits for it, which takes at most one read. A panic of the thread is
    /// passed on.
    fn end(&mut self) {
        let Some(Thread { full, empty, handle }) = self.thread.take() else { return };
        drop((full, empty));
        if let Err(panic) = handle.join()
            && !thread::panicking()
        {
            resume_unwind(panic);
        }
    }
}

impl Read for ReadAhead {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.taken == self.piece.filled {
            if !self.next_piece()? {
                return Ok(0);
            }
        }
        let rest = &self.piece.bytes()[self.taken..self.piece.filled];
        let count = rest.len().min(buffer.len());
        buffer[..count].copy_from_slice(&rest[..count]);
        self.taken += count;
        Ok(count)
    }
}

impl Drop for ReadAhead {
    fn drop(&mut self) {
        self.end();
    }
}

impl Piece {
    fn new(bytes: usize) -> Piece {
        let bytes = bytes.next_multiple_of(PAGE_BYTES);
        let mut memory = vec![0; bytes + PAGE_BYTES];
        let start = memory.as_ptr().align_offset(PAGE_BYTES);
        memory.truncate(start + bytes);
        Piece { memory, start, filled: 0 }
    }

    fn bytes(&self) -> &[u8] {
        &self.memory[self.start..]
    }
}

impl Filler {
    /// Fills pieces until the file ends, a read fails, or the reader was dropped.
    fn run(mut self, empty: &Receiver<Piece>, full: &SyncSender<io::Result<Piece>>) {
        for mut piece in empty {
            let filled = self.read(&mut piece.memory[piece.start..]);
            let is_last = filled.is_err();
            match filled {
                Ok(0) => return,
                Ok(count) => piece.filled = count,
                Err(_) => {}
            }
            if full.send(filled.map(|_| piece)).is_err() || is_last {
                return;
            }
        }
    }

    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        if self.direct && !self.at.is_multiple_of(PAGE_BYTES as u64) {
            self.go_through_cache()?;
        }
        loop {
            match self.file.read_at(bytes, self.at) {
                Ok(count) => {
                    self.at += count as u64;
                    return Ok(count);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // Some file systems open files for direct reads and then refuse the reads.
                Err(error) if error.kind() == io::ErrorKind::InvalidInput && self.direct => {
                    self.go_through_cache()?;
                }
                Err(error) => return Err(error),
            }
        }
    }

    fn go_through_cache(&mut self) -> io::Result<()> {
        self.direct = false;
        set_direct(&self.file, false)
    }
}

/// Switches direct reads of an open file on or off. The open file itself is changed. It is not
/// opened again by name, because the name may belong to another file by now.
///
/// # Errors
/// The file system does not support direct reads.
pub fn set_direct(file: &File, direct: bool) -> io::Result<()> {
    let mut flags = fcntl_getfl(file)?;
    flags.set(OFlags::DIRECT, direct);
    Ok(fcntl_setfl(file, flags)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_cannot_be_read_fails_each_time() {
        let unreadable = File::create(tempfile::NamedTempFile::new().unwrap().path()).unwrap();
        let mut ahead = ReadAhead::start(unreadable, PAGE_BYTES).unwrap();
        for _ in 0..2 {
            assert!(ahead.read(&mut [0]).is_err());
        }
    }
}
