//! Reads the calls of all threads from a log, and returns them in order of time. The log itself is
//! in order within each thread only.
//!
//! A first pass records the offset and the time of each chunk, which takes 16 bytes for each chunk.
//! In the second pass every thread has one chunk in memory, and the earliest event of all threads
//! is the next one.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use hmtt_files::tag_log::{
    CHUNK_HEADER_BYTES, Chunk, Content, FunctionId, LogError, Mark, TagEvent,
};

use super::current_blocks::CurrentBlocks;
use crate::tags::hash::FastMap;
use crate::tags::log_reader::TagLogError;
use crate::tags::stack::{Call, Exit, Listener, Stacks};

/// The kind of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallEventKind {
    /// A function was entered, or its call is running again.
    Entry,
    /// A function was left, or its call was paused.
    Exit,
    /// The innermost call has entered a block of its function.
    Block,
}

/// The entry or exit of a function, or the entry of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallEvent {
    /// Time of the event, in ticks of the log's clock.
    pub tsc: u64,
    /// Index of the thread, in the order in which threads appear in the log.
    pub thread: usize,
    /// Number of the function or block.
    pub number: FunctionId,
    /// Kind of the event.
    pub kind: CallEventKind,
}

/// Place of a chunk in the file, and its time.
#[derive(Clone, Copy, Debug)]
struct Place {
    offset: u64,
    /// Time of the chunk's first event, in ticks.
    tsc: u64,
}

/// The index of a log, from the first pass: places of chunks, and marks.
#[derive(Debug, Default)]
pub struct LogIndex {
    /// For each thread, in the order in which threads appear: whether the log states its end, and
    /// its chunks.
    threads: Vec<(bool, VecDeque<Place>)>,
    /// Index of each thread that has not ended, by the kernel's number.
    live: BTreeMap<u32, usize>,
    /// Marks, in the order of the log.
    pub marks: Vec<Mark>,
    /// Latest time of a chunk or a pair of clocks, in ticks.
    last: u64,
}

impl LogIndex {
    /// Adds a chunk of the log, which is at `offset` in the file. Chunks must come in the order of
    /// the file.
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

/// Position of the second pass in one thread.
#[derive(Debug, Default)]
struct Cursor {
    /// Chunks that are not in memory yet.
    chunks: VecDeque<Place>,
    has_ended: bool,
    /// Events of the current chunk that are not processed yet.
    events: VecDeque<TagEvent>,
    stacks: Stacks<usize>,
    /// Time of the last processed event, in ticks.
    now: u64,
}

/// A reader of entries, exits and blocks in order of time: the second pass.
#[derive(Debug)]
pub struct LogCalls {
    file: File,
    cursors: Vec<Cursor>,
    /// For each thread that has more events: the time of its next event or chunk, and its index.
    next: BinaryHeap<Reverse<(u64, usize)>>,
    /// Function of each block.
    blocks: FastMap<FunctionId, FunctionId>,
    found: CallEventCollector,
    last: u64,
}

/// A [`Listener`] that collects the calls of a thread as events.
#[derive(Debug, Default)]
struct CallEventCollector {
    thread: usize,
    waiting: VecDeque<CallEvent>,
    current: CurrentBlocks,
}

impl CallEventCollector {
    fn push(&mut self, tsc: u64, number: FunctionId, kind: CallEventKind) {
        self.waiting.push_back(CallEvent { tsc, thread: self.thread, number, kind });
    }
}

impl Listener for CallEventCollector {
    /// Index of the call in [`CurrentBlocks`].
    type Note = usize;

    fn enter(&mut self, _caller: Option<usize>, number: FunctionId, tsc: u64) -> usize {
        self.push(tsc, number, CallEventKind::Entry);
        self.current.enter()
    }

    fn pause(&mut self, _note: usize, number: FunctionId, tsc: u64) {
        self.push(tsc, number, CallEventKind::Exit);
    }

    fn resume(&mut self, note: usize, number: FunctionId, tsc: u64) {
        self.push(tsc, number, CallEventKind::Entry);
        if let Some(block) = self.current.get(note) {
            self.push(tsc, block, CallEventKind::Block);
        }
    }

    fn block(&mut self, note: usize, block: FunctionId, tsc: u64) {
        self.current.begin(note, block);
        self.push(tsc, block, CallEventKind::Block);
    }

    fn leave(&mut self, call: &Call<usize>) {
        if !call.is_paused {
            self.pause(call.note, call.number, call.left);
        }
        self.current.leave(call.note);
    }
}

impl LogCalls {
    /// Starts the second pass over a log. `blocks`: the event numbers that belong to blocks and not
    /// to functions, each with the number of its function.
    pub fn new(
        file: File,
        index: LogIndex,
        blocks: impl IntoIterator<Item = (FunctionId, FunctionId)>,
    ) -> Self {
        let cursor = |(has_ended, chunks)| Cursor { chunks, has_ended, ..Cursor::default() };
        let cursors: Vec<Cursor> = index.threads.into_iter().map(cursor).collect();
        let first = |(thread, cursor): (usize, &Cursor)| {
            cursor.chunks.front().map(|chunk| Reverse((chunk.tsc, thread)))
        };
        let next = cursors.iter().enumerate().filter_map(first).collect();
        let blocks = blocks.into_iter().collect();
        LogCalls {
            file,
            cursors,
            next,
            blocks,
            found: CallEventCollector::default(),
            last: index.last,
        }
    }

    /// The next event; `None` at the end. Calls that are open at the end of the log end there.
    ///
    /// # Errors
    /// [`TagLogError`]: the log cannot be read, or a chunk is not valid.
    pub fn next_call(&mut self) -> Result<Option<CallEvent>, TagLogError> {
        while self.found.waiting.is_empty() {
            let Some(Reverse((_, thread))) = self.next.pop() else {
                self.end_all();
                return Ok(self.found.waiting.pop_front());
            };
            self.process_thread(thread)?;
        }
        Ok(self.found.waiting.pop_front())
    }

    /// Processes events of a thread, as long as no other thread has an earlier event and no call
    /// was found.
    fn process_thread(&mut self, thread: usize) -> Result<(), TagLogError> {
        let LogCalls { file, cursors, next, blocks, found: collector, .. } = self;
        let cursor = &mut cursors[thread];
        collector.thread = thread;
        if cursor.events.is_empty() {
            cursor.load(file)?;
        }
        let others = next.peek().map_or(u64::MAX, |Reverse((time, _))| *time);
        while let Some(event) = cursor.events.front().copied() {
            // In logs of earlier versions, times can decrease at events of signal handlers.
            let now = cursor.now.max(event.tsc);
            if now > others || !collector.waiting.is_empty() {
                next.push(Reverse((now, thread)));
                return Ok(());
            }
            cursor.events.pop_front();
            cursor.now = now;
            match blocks.get(&event.number) {
                Some(function) => cursor.stacks.block(event, *function, collector),
                None => cursor.stacks.event(event, collector),
            }
        }
        match cursor.chunks.front() {
            Some(chunk) => next.push(Reverse((chunk.tsc.max(cursor.now), thread))),
            None if cursor.has_ended => cursor.stacks.close_all(Exit::Ended, collector),
            None => {}
        }
        Ok(())
    }

    /// Ends the calls of all threads at the end of the log.
    fn end_all(&mut self) {
        let LogCalls { cursors, found: collector, last, .. } = self;
        for (thread, cursor) in cursors.iter_mut().enumerate() {
            collector.thread = thread;
            let from = collector.waiting.len();
            cursor.stacks.close_all(Exit::Open, collector);
            collector.waiting.iter_mut().skip(from).for_each(|end| end.tsc = end.tsc.max(*last));
        }
        collector.waiting.make_contiguous().sort_by_key(|end| end.tsc);
    }
}

impl Cursor {
    /// Reads the events of the thread's next chunk.
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
