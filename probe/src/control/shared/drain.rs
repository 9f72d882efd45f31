//! Writes the chunks that a thread has filled to the log, in order, and frees them.
//!
//! A chunk that was handed over may contain a record that was reserved and is not written yet: a
//! signal has interrupted the tag, and the tags of the signal handler have written behind the
//! record. (`control/unfinished.rs` prevents this where it can.) Such a chunk waits, with all
//! chunks after it. The wait ends when the record is written, when the thread has filled all its
//! other chunks, or when the thread is stopped for good. In the last two cases the interrupted
//! function was left by `longjmp` or ended with its thread: the record is lost, and counted.
//!
//! ```text
//! FREE --thread--> FILLING --thread--> FULL --drain--> FREE
//! ```
//!
//! Invariant: all values that are read from the slot are checked before use, since the process can
//! write anything there.

#[cfg(test)]
mod tests;

use std::sync::atomic::Ordering;
use std::time::Instant;

use hmtt_files::tag_log::{Content, LossReason};

use super::untrusted::Untrusted;
use super::writer::Writer;
use super::{Shared, plausible};
use crate::address::RunAddr;
use crate::stubs::layout::{LogShape, chunk, slot};

/// Reader of the slot of one thread.
#[derive(Debug)]
pub struct Drain {
    /// Thread ID.
    pub thread: u32,
    /// Number of the slot.
    pub slot: u64,
    /// Offset of the slot in the shared memory.
    at: u64,
    /// Number of chunks that were read.
    number: u64,
    /// Number of records that the thread had dropped before the chunk that was read last.
    dropped: u64,
    /// Earliest time at which the thread can have written records.
    began: Instant,
    /// Copy of a chunk's records.
    records: Vec<u8>,
}

impl Drain {
    /// Prepares a slot that its thread does not use yet.
    pub fn new(shared: &Shared, shape: &LogShape, thread: u32, slot: u64) -> Self {
        let at = shared.slot_at(slot);
        let first = at + shape.chunk_at(0);
        let memory = &shared.memory;
        shared.set(at + slot::NUMBER, 0);
        shared.set(at + slot::DROPPED, 0);
        memory.write(at + slot::DROPPING, 0);
        memory.write(at + slot::ABANDONED, 0);
        shared.set(at + slot::HEADER, shared.start.0);
        shared.set(at + slot::SELF, (shared.start + at).0);
        memory.write(first + chunk::STATE, chunk::FILLING);
        shared.set(first + chunk::LOST, 0);
        shared.set(at + slot::POINTER, (shared.start + first + chunk::GUARD_BYTES).0);
        let began = Instant::now();
        Drain { thread, slot, at, number: 0, dropped: 0, began, records: Vec::new() }
    }

    /// Prepares a slot whose records are discarded. Threads with this slot never wait.
    pub fn abandon(shared: &Shared, shape: &LogShape, slot: u64) {
        let Drain { at, .. } = Drain::new(shared, shape, 0, slot);
        (0..shape.chunks).for_each(|number| {
            shared.memory.write(at + shape.chunk_at(number) + chunk::STATE, chunk::FULL);
        });
        shared.memory.write(at + slot::DROPPING, 1);
        shared.memory.write(at + slot::ABANDONED, 1);
        shared.set(at + slot::POINTER, (shared.start + at + chunk::GUARD_BYTES).0);
    }

    /// Writes the chunks that the thread has handed over to the log, at most as many as the slot
    /// has. Returns whether any chunk was written.
    pub fn drain(&mut self, shared: &Shared, shape: &LogShape, writer: &mut Writer) -> bool {
        let first = self.number;
        while self.number - first < shape.chunks {
            let at = self.at + shape.chunk_at(self.number);
            if !shared.memory.read(at + chunk::STATE).is(chunk::FULL) {
                break;
            }
            let numbers = self.number..=self.number + (shape.chunks - 1);
            let number = shared.get(self.at + slot::NUMBER).within(numbers);
            if number.is_some() && has_unwritten_records(shared, shape, at) {
                break;
            }
            self.write(shared, shape, writer, shape.capacity());
            self.free(shared, shape);
            // A thread that waits has filled all chunks. It is woken when half of them are free,
            // which saves system calls.
            if self.number.is_multiple_of((shape.chunks / 2).max(1)) {
                self.wake(shared);
            }
        }
        self.wake(shared);
        first != self.number
    }

    /// Writes all records of a stopped thread to the log for the last time. All chunks are free
    /// afterwards.
    pub fn finish(&mut self, shared: &Shared, shape: &LogShape, writer: &mut Writer) {
        for _ in 0..=shape.chunks {
            let at = self.at + shape.chunk_at(self.number);
            let state = shared.memory.read(at + chunk::STATE);
            let reserved = if state.is(chunk::FULL) {
                Some(shape.capacity())
            } else if state.is(chunk::FILLING) {
                self.reserved(shared, shape, at)
            } else {
                if !state.is(chunk::FREE) {
                    writer.write_damaged(self.thread, 1);
                }
                break;
            };
            if reserved.is_none() {
                writer.write_damaged(self.thread, 1);
            }
            self.write(shared, shape, writer, reserved.unwrap_or(0));
            self.free(shared, shape);
        }
        self.wake(shared);
        let mut more = Some(0);
        if !shared.memory.read(self.at + slot::DROPPING).is(0) {
            more = self.reserved(shared, shape, self.at);
        }
        if more.is_none() {
            writer.write_damaged(self.thread, 1);
        }
        self.write_dropped(shared.get(self.at + slot::DROPPED), more.unwrap_or(0), writer);
    }

    /// Returns the memory of records to the system when the process continues without tags. The
    /// thread may still write a record that it has begun.
    pub fn release(&self, shared: &Shared, shape: &LogShape) {
        let first = self.at + chunk::GUARD_BYTES;
        shared.memory.release(first, shape.slot_bytes() - chunk::GUARD_BYTES);
    }

    /// Number of records that the thread has reserved in the chunk that it is filling. `None` if
    /// the slot's pointer is not in this chunk.
    fn reserved(&self, shared: &Shared, shape: &LogShape, at: u64) -> Option<u64> {
        let RunAddr(first) = shared.start + at + chunk::GUARD_BYTES;
        // The pointer is slightly behind the last record if the chunk is full.
        let inside = first..=first + (shape.chunk_bytes - 1);
        let pointer = shared.get(self.at + slot::POINTER).within(inside)?;
        Some(((pointer - first) / shape.record_bytes()).min(shape.capacity()))
    }

    /// Writes the records of the next chunk to the log.
    fn write(&mut self, shared: &Shared, shape: &LogShape, writer: &mut Writer, reserved: u64) {
        let at = self.at + shape.chunk_at(self.number);
        self.write_dropped(shared.get(at + chunk::LOST), 0, writer);
        self.records.resize((reserved * shape.record_bytes()) as usize, 0);
        shared.memory.copy_to(at + chunk::GUARD_BYTES, &mut self.records);
        writer.records(self.thread, shape, &self.records);
    }

    /// Writes to the log how many records were dropped since the last call. `dropped`: number of
    /// all records that the thread has counted as dropped. `more`: number of dropped records that
    /// are not in `dropped` yet.
    fn write_dropped(&mut self, dropped: Untrusted<u64>, more: u64, writer: &mut Writer) {
        let possible = self.dropped..=plausible(self.began.elapsed()).max(self.dropped);
        let dropped = dropped.within(possible);
        if dropped.is_none() {
            writer.write_damaged(self.thread, 1);
        }
        let count = dropped.unwrap_or(self.dropped) - self.dropped + more;
        if count != 0 {
            writer.write(self.thread, Content::Lost { count, reason: LossReason::BufferFull });
        }
        self.dropped += count;
    }

    /// Frees the chunk that was just written, for the thread to fill it again.
    fn free(&mut self, shared: &Shared, shape: &LogShape) {
        let at = self.at + shape.chunk_at(self.number);
        shared.memory.clear(at + chunk::GUARD_BYTES, shape.chunk_bytes - chunk::GUARD_BYTES);
        shared.memory.write(at + chunk::STATE, chunk::FREE);
        self.number += 1;
        shared.memory.word(self.at + slot::FREED).fetch_add(1, Ordering::SeqCst);
    }

    /// Wakes the thread if it waits for a free chunk.
    fn wake(&self, shared: &Shared) {
        let waiting = shared.memory.word(self.at + slot::WAITING);
        if waiting.load(Ordering::SeqCst) != 0 && waiting.swap(0, Ordering::SeqCst) != 0 {
            shared.wake(self.at + slot::FREED);
        }
    }
}

/// Whether a full chunk has a record that is not written yet.
fn has_unwritten_records(shared: &Shared, shape: &LogShape, at: u64) -> bool {
    let first = at + chunk::GUARD_BYTES + shape.word_at();
    (0..shape.capacity()).any(|number| {
        let word = shared.memory.word(first + number * shape.record_bytes());
        word.load(Ordering::Acquire) == 0
    })
}
