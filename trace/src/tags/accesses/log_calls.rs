//! A log's chunks, which are in order for each thread only, to the calls of all threads in the order of time.
//!
//! A first reading notes where chunks are, 16 bytes each; then every live thread has one chunk in memory, and
//! the earliest event of all is next.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use hmtt_format::tag_log::{CHUNK_HEADER_BYTES, Chunk, Content, LogError, Mark, TagEvent};

use crate::tags::hash::FastMap;
use crate::tags::log_reader::TagLogError;
use crate::tags::stack::{Call, Exit, Listener, Stacks};

/// A function was entered or left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Boundary {
    /// When.
    pub tsc: u64,
    /// Number of the thread, in the order in which threads appear in the log.
    pub thread: usize,
    /// Function.
    pub number: u32,
    /// It was entered.
    pub is_entry: bool,
}

/// A chunk of a thread.
#[derive(Clone, Copy, Debug)]
struct Place {
    offset: u64,
    /// Time of its first event.
    tsc: u64,
}

/// Where a log's chunks are, and its marks.
#[derive(Debug, Default)]
pub struct LogIndex {
    /// Of each thread, in the order in which they appear, whether it has ended, and its chunks.
    threads: Vec<(bool, VecDeque<Place>)>,
    live: BTreeMap<u32, usize>,
    /// In the order of the log.
    pub marks: Vec<Mark>,
    /// The last time that is told.
    last: u64,
}

impl LogIndex {
    /// Takes note of a chunk at an offset of the file.
    pub fn note(&mut self, chunk: &Chunk<'_>, offset: u64) {
        match &chunk.content {
            Content::Events(events) => {
                let next = self.threads.len();
                let thread = *self.live.entry(chunk.thread).or_insert(next);
                if thread == next {
                    self.threads.push((false, VecDeque::new()));
                }
                let place = Place { offset, tsc: events.tsc };
                self.threads[thread].1.push_back(place);
                self.last = self.last.max(events.tsc);
            }
            Content::ThreadStart { .. } | Content::ThreadEnd => {
                if let Some(thread) = self.live.remove(&chunk.thread) {
                    self.threads[thread].0 = true;
                }
            }
            Content::Clocks(clocks) => self.last = self.last.max(clocks.tsc),
            Content::Mark(mark) => self.marks.push(*mark),
            _ => {}
        }
    }
}

/// A thread that is read.
#[derive(Debug, Default)]
struct Cursor {
    chunks: VecDeque<Place>,
    has_ended: bool,
    events: VecDeque<TagEvent>,
    stacks: Stacks<()>,
    now: u64,
}

/// Calls in the order of time.
#[derive(Debug)]
pub struct LogCalls {
    file: File,
    cursors: Vec<Cursor>,
    next: BinaryHeap<Reverse<(u64, usize)>>,
    blocks: FastMap<u32, ()>,
    found: Found,
    last: u64,
}

/// Gathers what a thread calls.
#[derive(Debug, Default)]
struct Found {
    thread: usize,
    waiting: VecDeque<Boundary>,
}

impl Listener for Found {
    type Note = ();

    fn enter(&mut self, _caller: Option<()>, number: u32, tsc: u64) {
        let thread = self.thread;
        self.waiting.push_back(Boundary { tsc, thread, number, is_entry: true });
    }

    fn pause(&mut self, (): (), number: u32, tsc: u64) {
        let thread = self.thread;
        self.waiting.push_back(Boundary { tsc, thread, number, is_entry: false });
    }

    fn resume(&mut self, (): (), number: u32, tsc: u64) {
        self.enter(None, number, tsc);
    }

    fn leave(&mut self, call: &Call<()>) {
        if !call.is_paused {
            self.pause((), call.number, call.left);
        }
    }
}

impl LogCalls {
    /// Of a log that was noted. `blocks`: the numbers that are not of functions.
    pub fn new(file: File, index: LogIndex, blocks: impl IntoIterator<Item = u32>) -> Self {
        let cursor = |(has_ended, chunks)| Cursor { chunks, has_ended, ..Cursor::default() };
        let cursors: Vec<Cursor> = index.threads.into_iter().map(cursor).collect();
        let first = |(thread, cursor): (usize, &Cursor)| {
            cursor.chunks.front().map(|chunk| Reverse((chunk.tsc, thread)))
        };
        let next = cursors.iter().enumerate().filter_map(first).collect();
        let blocks = blocks.into_iter().map(|block| (block, ())).collect();
        LogCalls { file, cursors, next, blocks, found: Found::default(), last: index.last }
    }

    /// The next call's begin or end; what has not ended by the end of the log has then.
    ///
    /// # Errors
    /// [`TagLogError`]
    pub fn next_call(&mut self) -> Result<Option<Boundary>, TagLogError> {
        while self.found.waiting.is_empty() {
            let Some(Reverse((_, thread))) = self.next.pop() else {
                self.end_all();
                return Ok(self.found.waiting.pop_front());
            };
            self.go_on(thread)?;
        }
        Ok(self.found.waiting.pop_front())
    }

    /// Takes the events of a thread that are before those of all others.
    fn go_on(&mut self, thread: usize) -> Result<(), TagLogError> {
        let LogCalls { file, cursors, next, blocks, found, .. } = self;
        let cursor = &mut cursors[thread];
        found.thread = thread;
        if cursor.events.is_empty() {
            cursor.load(file)?;
        }
        let others = next.peek().map_or(u64::MAX, |Reverse((time, _))| *time);
        while let Some(event) = cursor.events.front().copied() {
            // Handlers' events may come in between, and step back: they did in logs of earlier versions.
            let now = cursor.now.max(event.tsc);
            if now > others || !found.waiting.is_empty() {
                next.push(Reverse((now, thread)));
                return Ok(());
            }
            cursor.events.pop_front();
            cursor.now = now;
            match blocks.contains_key(&event.number) {
                true => cursor.stacks.block(event, found),
                false => cursor.stacks.event(event, found),
            }
        }
        match cursor.chunks.front() {
            Some(chunk) => next.push(Reverse((chunk.tsc.max(cursor.now), thread))),
            None if cursor.has_ended => cursor.stacks.close_all(Exit::Ended, found),
            None => {}
        }
        Ok(())
    }

    fn end_all(&mut self) {
        let LogCalls { cursors, found, last, .. } = self;
        for (thread, cursor) in cursors.iter_mut().enumerate() {
            found.thread = thread;
            let from = found.waiting.len();
            cursor.stacks.close_all(Exit::Open, found);
            found.waiting.iter_mut().skip(from).for_each(|end| end.tsc = end.tsc.max(*last));
        }
        found.waiting.make_contiguous().sort_by_key(|end| end.tsc);
    }
}

impl Cursor {
    /// Reads the next chunk.
    fn load(&mut self, file: &File) -> Result<(), TagLogError> {
        let Some(Place { offset, .. }) = self.chunks.pop_front() else { return Ok(()) };
        let failed = |source: LogError| TagLogError::Log { offset, source };
        let unread = |source: io::Error| TagLogError::Read { offset, source };
        let mut buffer = vec![0; CHUNK_HEADER_BYTES];
        file.read_exact_at(&mut buffer, offset).map_err(unread)?;
        buffer.resize(Chunk::length(&buffer).map_err(failed)?.unwrap_or(CHUNK_HEADER_BYTES), 0);
        file.read_exact_at(&mut buffer, offset).map_err(unread)?;
        let Some((chunk, _)) = Chunk::decode(&buffer).map_err(failed)? else { return Ok(()) };
        if let Content::Events(events) = chunk.content {
            for event in events.decode(true) {
                self.events.push_back(event.map_err(failed)?);
            }
        }
        Ok(())
    }
}
