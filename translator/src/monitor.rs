//! Reads block numbers from the rings of threads, in order, and counts them.
//!
//! [`tally`] follows the numbers of each thread with the descriptions of blocks in [`code`]. Most
//! numbers are counted by `table`, unexpected successors of indirect blocks by [`indirect`], and
//! system calls by [`calls`]. `balance` checks the sums. [`hot`] decides which superblocks are
//! built. If requested, [`models`] and [`intervals`] follow each block. [`progress`] reports what
//! was read so far.
//!
//! If accesses are recorded, [`accesses`] passes the words on instead.
//!
//! Invariant: numbers come from the program, and are not trusted. A number that belongs to neither
//! a block nor a note is counted as invalid. Memory is linear in the number of blocks, except for a
//! limited number of edges and system calls.

pub mod accesses;
mod balance;
pub mod calls;
pub mod code;
pub mod counted;
pub mod hot;
pub mod indirect;
pub mod intervals;
pub mod models;
pub mod progress;
mod table;
pub mod tally;

use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, TryRecvError};
use std::time::Duration;

use crate::layout::{area, header, ring};
use crate::shared::{Area, CHUNKS, Rings, THREADS, wait, wake};
use code::Blocks;
use counted::Counted;
use progress::Snapshots;
use table::BATCH;
use tally::{Recording, Stream, Tally};

/// How often rings are checked before the monitor sleeps, and how long it sleeps at most.
const SPINS: u32 = 200;
const SLEEP: Duration = Duration::from_millis(5);
/// Count of numbers before the first decision which superblocks are built, and maximum count of
/// numbers between two decisions.
const FIRST_DECISION: u64 = 1 << 18;
const NEXT_DECISION: u64 = 1 << 23;

/// Message that a thread no longer uses its area.
#[derive(Clone, Copy, Debug)]
pub struct Finished {
    /// Number of the area.
    pub area: usize,
    /// The ring's pointer; `None` if it is not known.
    pub pointer: Option<u64>,
    /// Ticks of the time stamp counter that the thread needed to fill the last chunk, without
    /// pauses.
    pub ticks: u64,
}

/// Results of the monitor.
#[derive(Clone, Debug, Default)]
pub struct Counts {
    /// Counts of blocks, edges and system calls.
    pub counted: Counted,
    /// Words that threads have lost.
    pub losses: Losses,
}

/// Losses of threads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Losses {
    /// Number of words that threads have dropped, as they report it. If threads write only block
    /// numbers, these are block numbers.
    pub dropped: u64,
    /// Number of threads whose last words are not known.
    pub cut_threads: u64,
}

/// Receives the words of threads.
trait Consumer {
    /// Reads the words of a chunk, in order.
    fn read(&mut self, chunk: Chunk<'_>);
    /// Called if the next words of an area do not directly follow its previous words, because words
    /// were dropped or the thread has ended.
    fn end(&mut self, area: usize);
    /// Called with the number of chunks of a ring that were full at once.
    fn found(&mut self, _full_chunks: u64) {}
    /// Called after all full chunks were read.
    fn pause(&mut self) {}
}

/// A chunk that is read.
struct Chunk<'r> {
    /// Number of the thread's area, and number of the thread in the system.
    number: usize,
    thread: i32,
    area: Area<'r>,
    /// Number of the chunk in the ring, bytes in it, and ticks in which it was filled.
    chunk: u64,
    length: u64,
    ticks: u64,
    /// Words that the thread dropped directly before the chunk.
    lost: Option<Lost>,
}

/// Words that a thread has dropped between two chunks.
#[derive(Clone, Copy, Debug)]
struct Lost {
    words: u64,
    /// Base of the segment `fs` after the dropped words, if accesses are recorded.
    base: u64,
}

/// Fields of a chunk that its thread has set.
struct Filled {
    /// Address after the last word of the chunk, if it is known.
    end: Option<u64>,
    /// Ticks in which the chunk was filled.
    ticks: u64,
    /// Number of words that the thread has dropped so far, and the base of `fs` after the last of
    /// them.
    dropped: u64,
    base: u64,
}

/// Counts the blocks in the words of threads.
struct Counting<'r> {
    blocks: &'r dyn Blocks,
    tally: Tally,
    /// The state of counting for each area.
    streams: [Stream; THREADS],
    bytes: Box<[u8; 4 * BATCH]>,
    snapshots: Option<Snapshots>,
    /// Count of numbers after which superblocks are decided next.
    next_decision: u64,
}

impl Consumer for Counting<'_> {
    fn read(&mut self, Chunk { number, thread, area, chunk, length, ticks, .. }: Chunk<'_>) {
        let stream = &mut self.streams[number];
        stream.thread = thread;
        let mut from = 0;
        while from < length {
            let bytes = &mut self.bytes[..(length - from).min(4 * BATCH as u64) as usize];
            area.copy_chunk(chunk, from, bytes);
            self.tally.read(stream, bytes, self.blocks);
            from += bytes.len() as u64;
        }
        // The words of the chunk are in the processor's cache now.
        self.tally.add_time(ticks, length / 4, |place| {
            let mut word = [0; 4];
            area.copy_chunk(chunk, 4 * place, &mut word);
            u32::from_le_bytes(word)
        });
    }

    fn end(&mut self, area: usize) {
        self.tally.end(&mut self.streams[area]);
    }

    fn found(&mut self, full_chunks: u64) {
        if let Some(snapshots) = &mut self.snapshots {
            snapshots.found(full_chunks);
        }
    }

    /// Decides about superblocks, if enough numbers were read since the last decision, and sends a
    /// snapshot of the progress.
    fn pause(&mut self) {
        let numbers = self.tally.numbers;
        if numbers >= self.next_decision {
            self.tally.decide(self.blocks);
            self.next_decision = numbers + numbers.min(NEXT_DECISION);
        }
        if let Some(snapshots) = &mut self.snapshots {
            snapshots.send(&mut self.tally);
        }
    }
}

/// Reads the rings of all threads and passes their chunks to a consumer.
struct Reader<'r, C> {
    rings: &'r Rings,
    consumer: C,
    /// For each area: the chunk that is read next.
    next: [u64; THREADS],
    /// For each area: number of words that its thread had dropped before the last chunk.
    dropped: [u64; THREADS],
    losses: Losses,
}

/// Reads and counts the words of all rings, until the sender of messages is dropped. `blocks`:
/// describes blocks; it knows each block before the block's number can be in a full chunk.
/// `snapshots`: sends the progress.
pub fn watch(
    rings: &Rings,
    finished: &Receiver<Finished>,
    recording: Recording,
    blocks: &dyn Blocks,
    snapshots: Option<Snapshots>,
) -> Counts {
    let consumer = Counting {
        blocks,
        tally: Tally::new(recording),
        streams: std::array::from_fn(|_| Stream::default()),
        bytes: Box::new([0; 4 * BATCH]),
        snapshots,
        next_decision: FIRST_DECISION,
    };
    let Reader { consumer, losses, .. } = Reader::new(rings, consumer).follow(finished);
    Counts { counted: consumer.tally.result(blocks), losses }
}

impl<'r, C: Consumer> Reader<'r, C> {
    fn new(rings: &'r Rings, consumer: C) -> Self {
        let (next, dropped, losses) = ([0; THREADS], [0; THREADS], Losses::default());
        Reader { rings, consumer, next, dropped, losses }
    }

    /// Reads the rings until the sender of messages is dropped, and returns itself with the
    /// results.
    fn follow(mut self, finished: &Receiver<Finished>) -> Self {
        let mut idle = 0;
        loop {
            let seen = self.rings.areas.header(header::FILLED).load(Ordering::SeqCst);
            let mut has_read = self.read_full_chunks();
            match finished.try_recv() {
                Ok(message) => {
                    self.finish(message);
                    has_read = true;
                }
                Err(TryRecvError::Disconnected) => return self,
                Err(TryRecvError::Empty) => {}
            }
            self.consumer.pause();
            idle = if has_read { 0 } else { idle + 1 };
            if idle > SPINS {
                self.sleep(seen);
            } else if idle > 0 {
                std::thread::yield_now();
            }
        }
    }

    /// Sleeps until another chunk becomes full after `seen` was read, or [`SLEEP`] is over.
    fn sleep(&self, seen: u32) {
        let (filled, sleeps) = (header::FILLED, header::MONITOR_SLEEPS);
        self.rings.areas.header(sleeps).store(1, Ordering::SeqCst);
        wait(self.rings.areas.header(filled), seen, SLEEP);
        self.rings.areas.header(sleeps).store(0, Ordering::SeqCst);
    }

    /// Reads all full chunks. Returns whether there was one.
    fn read_full_chunks(&mut self) -> bool {
        let mut has_read = false;
        for number in 0..THREADS {
            if self.rings.used[number].load(Ordering::SeqCst) {
                has_read |= self.read_area(number);
            }
        }
        has_read
    }

    /// Reads the full chunks of an area, each at most once. Returns whether there was one.
    fn read_area(&mut self, number: usize) -> bool {
        let area = self.rings.areas.area(number);
        let is_full = |chunk| area.chunk_state(chunk).load(Ordering::SeqCst) == ring::FULL;
        self.consumer.found((0..CHUNKS).filter(|chunk| is_full(*chunk)).count() as u64);
        for read in 0..CHUNKS {
            let chunk = self.next[number];
            if area.chunk_state(chunk).load(Ordering::SeqCst) != ring::FULL {
                return read > 0;
            }
            let of_chunk = |field| area.get(field + 8 * chunk as u32).any();
            let filled = Filled {
                end: Some(of_chunk(area::CHUNK_END)),
                ticks: area.ticks_of(chunk),
                dropped: of_chunk(area::CHUNK_DROPPED),
                base: of_chunk(area::CHUNK_BASE),
            };
            self.read_chunk(number, chunk, &filled);
            area.chunk_state(chunk).store(ring::FREE, Ordering::SeqCst);
            if area.word(area::WAITING).load(Ordering::SeqCst) != 0 {
                wake(area.chunk_state(chunk));
            }
            self.next[number] = (chunk + 1) % CHUNKS;
        }
        true
    }

    /// Reads the words of a chunk, and counts losses before it.
    fn read_chunk(&mut self, number: usize, chunk: u64, filled: &Filled) {
        let Filled { end, ticks, dropped, base } = *filled;
        let area = self.rings.areas.area(number);
        let thread = self.rings.threads[number].load(Ordering::SeqCst);
        let words = dropped.saturating_sub(self.dropped[number]);
        self.dropped[number] = dropped;
        let lost = (words > 0).then_some(Lost { words, base });
        if lost.is_some() {
            self.consumer.end(number);
        }
        let length = end.and_then(|end| area.bytes_until(chunk, end));
        if length.is_none() {
            self.consumer.end(number);
            self.losses.cut_threads += 1;
        }
        let (length, ticks) = length.map_or((0, 0), |length| (length, ticks));
        self.consumer.read(Chunk { number, thread, area, chunk, length, ticks, lost });
    }

    /// Reads the rest of the ring of a thread that no longer uses its area, and frees the area.
    fn finish(&mut self, Finished { area: number, pointer, ticks }: Finished) {
        self.read_area(number);
        let area = self.rings.areas.area(number);
        let chunk = area.current_chunk();
        let is_free = area.chunk_state(chunk).load(Ordering::SeqCst) == ring::FREE;
        let dropped = area.get(area::DROPPED).any();
        if pointer.is_none() || is_free {
            let base = area.get(area::DROPPED_BASE).any();
            self.read_chunk(number, chunk, &Filled { end: pointer, ticks, dropped, base });
        }
        self.consumer.end(number);
        self.losses.dropped += dropped.min(u64::MAX >> 8);
        area.release();
        (self.next[number], self.dropped[number]) = (0, 0);
        self.rings.free(number);
    }
}

#[cfg(test)]
mod tests;
