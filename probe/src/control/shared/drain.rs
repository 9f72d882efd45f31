//! Chunks that a thread has filled, in order, to the log; then they are free again.
//!
//! A handed-over chunk may have a place that was reserved and not written yet: a signal came in between that
//! nobody held back (`control/unfinished.rs` does), and its handler's tags went on behind it. Such a chunk
//! waits, with all after it, until the place is written, or until the thread has filled all its other chunks,
//! or stands still for good: then the function was left in another way, by longjmp or with its thread, and
//! the record is lost, and counted.

#[cfg(test)]
mod tests;

use std::sync::atomic::Ordering;
use std::time::Instant;

use hmtt_format::tag_log::{Content, LossReason};

use super::untrusted::Untrusted;
use super::writer::Writer;
use super::{Shared, plausible};
use crate::stubs::layout::{LogShape, chunk, slot};

/// What is read of a thread.
#[derive(Debug)]
pub struct Drain {
    /// The kernel's number of it.
    pub thread: u32,
    /// Its slot.
    pub slot: u64,
    /// Where in the memory that is.
    at: u64,
    /// Chunks that were read.
    number: u64,
    /// Records it had dropped before the last of them.
    dropped: u64,
    /// Since when there can be any.
    began: Instant,
    /// Copies of records.
    records: Vec<u8>,
}

impl Drain {
    /// A slot that its thread does not use yet.
    pub fn new(shared: &Shared, shape: &LogShape, thread: u32, slot: u64) -> Self {
        let at = shared.slot_at(slot);
        let first = at + shape.chunk_at(0);
        let memory = &shared.memory;
        shared.set(at + slot::NUMBER, 0);
        shared.set(at + slot::DROPPED, 0);
        memory.write(at + slot::DROPPING, 0);
        memory.write(at + slot::ABANDONED, 0);
        shared.set(at + slot::HEADER, shared.start);
        shared.set(at + slot::SELF, shared.start + at);
        memory.write(first + chunk::STATE, chunk::FILLING);
        shared.set(first + chunk::LOST, 0);
        shared.set(at + slot::POINTER, shared.start + first + chunk::GUARD_BYTES);
        let began = Instant::now();
        Drain { thread, slot, at, number: 0, dropped: 0, began, records: Vec::new() }
    }

    /// Makes a slot one whose threads never wait, and whose records nobody reads.
    pub fn abandon(shared: &Shared, shape: &LogShape, slot: u64) {
        let Drain { at, .. } = Drain::new(shared, shape, 0, slot);
        (0..shape.chunks).for_each(|number| {
            shared.memory.write(at + shape.chunk_at(number) + chunk::STATE, chunk::FULL);
        });
        shared.memory.write(at + slot::DROPPING, 1);
        shared.memory.write(at + slot::ABANDONED, 1);
        shared.set(at + slot::POINTER, shared.start + at + chunk::GUARD_BYTES);
    }

    /// Writes what the thread has handed over, at most as many chunks as it has. Whether there was something comes
    /// back.
    pub fn drain(&mut self, shared: &Shared, shape: &LogShape, writer: &mut Writer) -> bool {
        let first = self.number;
        while self.number - first < shape.chunks {
            let at = self.at + shape.chunk_at(self.number);
            if !shared.memory.read(at + chunk::STATE).is(chunk::FULL) {
                break;
            }
            let taken = self.number..=self.number + (shape.chunks - 1);
            let taken = shared.get(self.at + slot::NUMBER).within(taken);
            if taken.is_some() && has_holes(shared, shape, at) {
                break;
            }
            self.write(shared, shape, writer, shape.capacity());
            self.free(shared, shape);
            // A thread that waits has filled all chunks: it is woken when many are free, not for each.
            if self.number.is_multiple_of((shape.chunks / 2).max(1)) {
                self.wake(shared);
            }
        }
        self.wake(shared);
        first != self.number
    }

    /// Writes all there is of a thread that stands still, and will not be looked at again. The slot's chunks
    /// are free afterwards.
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
                    writer.damaged(self.thread, 1);
                }
                break;
            };
            if reserved.is_none() {
                writer.damaged(self.thread, 1);
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
            writer.damaged(self.thread, 1);
        }
        self.say_dropped(shared.get(self.at + slot::DROPPED), more.unwrap_or(0), writer);
    }

    /// Gives the memory of records back, of a process that goes on without tags: what a thread was about to
    /// write it may still write.
    pub fn release(&self, shared: &Shared, shape: &LogShape) {
        let first = self.at + chunk::GUARD_BYTES;
        shared.memory.release(first, shape.slot_bytes() - chunk::GUARD_BYTES);
    }

    /// Places that are reserved in a chunk if the thread fills it; `None` if it cannot.
    fn reserved(&self, shared: &Shared, shape: &LogShape, at: u64) -> Option<u64> {
        let first = shared.start + at + chunk::GUARD_BYTES;
        // It points behind the last place, a little, if the chunk is full.
        let inside = first..=first + (shape.chunk_bytes - 1);
        let pointer = shared.get(self.at + slot::POINTER).within(inside)?;
        Some(((pointer - first) / shape.record_bytes()).min(shape.capacity()))
    }

    /// Writes the next chunk.
    fn write(&mut self, shared: &Shared, shape: &LogShape, writer: &mut Writer, reserved: u64) {
        let at = self.at + shape.chunk_at(self.number);
        self.say_dropped(shared.get(at + chunk::LOST), 0, writer);
        self.records.resize((reserved * shape.record_bytes()) as usize, 0);
        shared.memory.copy_to(at + chunk::GUARD_BYTES, &mut self.records);
        writer.records(self.thread, shape, &self.records);
    }

    /// Says what was dropped since the last time, of all that was. `more`: what is not counted yet.
    fn say_dropped(&mut self, dropped: Untrusted<u64>, more: u64, writer: &mut Writer) {
        let possible = self.dropped..=plausible(self.began.elapsed()).max(self.dropped);
        let dropped = dropped.within(possible);
        if dropped.is_none() {
            writer.damaged(self.thread, 1);
        }
        let count = dropped.unwrap_or(self.dropped) - self.dropped + more;
        if count != 0 {
            writer.say(self.thread, Content::Lost { count, reason: LossReason::BufferFull });
        }
        self.dropped += count;
    }

    /// Frees the chunk that was written.
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

/// Whether a full chunk has a place that is not written yet.
fn has_holes(shared: &Shared, shape: &LogShape, at: u64) -> bool {
    let first = at + chunk::GUARD_BYTES + shape.word_at();
    (0..shape.capacity()).any(|number| {
        let word = shared.memory.word(first + number * shape.record_bytes());
        word.load(Ordering::Acquire) == 0
    })
}
