//! Reads and writes the areas of threads, and the header, in memory that the process shares.
//!
//! ```text
//! header | ... | area 0, with its chunks | area 1 | ...
//! 0            CHUNK_STRIDE (16 MiB)     + AREA_STRIDE
//! ```
//!
//! The drawing has addresses, most of which are not mapped. [`parts`] has the places in the file.
//!
//! Invariant: everything that is read from here may have been written by the program. Offsets
//! follow from the layout and from numbers of areas, never from values that were read.

use std::sync::atomic::{AtomicU32, Ordering};

use hmtt_probe::address::RunAddr;
use hmtt_probe::control::{Memory, Untrusted};

use super::parts::{self, CHUNKS};
use crate::layout::{area, ring};

/// Time after which a waiting thread checks whether the controller lives.
const CHECK_NANOSECONDS: u64 = 10_000_000;

/// The header and the areas of a process.
pub struct Areas {
    memory: Memory,
    /// Address of the header in the process.
    base: RunAddr,
    /// What a thread does if no chunk is free: [`area::WAIT`] or [`area::DROP`].
    when_full: u32,
}

impl Areas {
    /// The header and the areas in `memory`, which the process has mapped at `base`. `when_full`:
    /// [`area::WAIT`] or [`area::DROP`].
    pub fn new(memory: Memory, base: RunAddr, when_full: u32) -> Self {
        Areas { memory, base, when_full }
    }

    /// A word of the header, by its offset in [`crate::layout::header`].
    pub fn header(&self, offset: u32) -> &AtomicU32 {
        self.memory.word(offset.into())
    }

    /// The area with a number below [`THREADS`](parts::THREADS).
    pub fn area(&self, number: usize) -> Area<'_> {
        let (fields, address) = (parts::fields(number), self.base + parts::address(number));
        Area { memory: &self.memory, number, fields, address, areas: self }
    }
}

/// The area of a thread.
#[derive(Clone, Copy)]
pub struct Area<'m> {
    memory: &'m Memory,
    number: usize,
    /// Offset of its fields in the memory.
    fields: u64,
    /// Address of the area in the process.
    pub address: RunAddr,
    areas: &'m Areas,
}

impl<'m> Area<'m> {
    /// Sets all fields for a new thread, with an empty ring. Returns the pointer into the ring.
    pub fn prepare(self) -> u64 {
        self.memory.clear(self.fields, area::FIELD_BYTES);
        self.set(area::HEADER, self.areas.base.0);
        self.set(area::SELF, self.address.0);
        self.set(area::TIMEOUT, 0);
        self.set(area::TIMEOUT + 8, CHECK_NANOSECONDS);
        self.word(area::WHEN_FULL).store(self.areas.when_full, Ordering::SeqCst);
        self.word(area::CHUNK_MASK).store(CHUNKS as u32 - 1, Ordering::SeqCst);
        self.address.0 + ring::chunk_at(0)
    }

    /// Notes that signals of the thread are deferred. If the thread asks and there is no
    /// controller, it sets this signal mask.
    pub fn begin_deferral(self, mask: u64) {
        self.set(area::SIGNAL_MASK, mask);
        self.word(area::DEFERS).store(1, Ordering::SeqCst);
    }

    /// Notes that the thread has the program's signal mask again.
    pub fn end_deferral(self) {
        self.word(area::DEFERS).store(0, Ordering::SeqCst);
    }

    /// A word of 4 bytes of the area, by its offset in [`crate::layout::area`].
    pub fn word(self, offset: u32) -> &'m AtomicU32 {
        self.memory.word(self.fields + u64::from(offset))
    }

    /// The state of a chunk: [`ring::FREE`], [`ring::FULL`], or anything that the program has
    /// written.
    pub fn chunk_state(self, chunk: u64) -> &'m AtomicU32 {
        self.word(area::CHUNK_STATE + 4 * chunk as u32)
    }

    /// Reads a field of 8 bytes.
    pub fn get(self, offset: u32) -> Untrusted<u64> {
        self.memory.read_long(self.fields + u64::from(offset))
    }

    /// Writes a field of 8 bytes.
    pub fn set(self, offset: u32, value: u64) {
        self.memory.long(self.fields + u64::from(offset)).store(value, Ordering::SeqCst);
    }

    /// Number of bytes from the start of a chunk to an address that the thread has stored. The
    /// address may be in the slack of the chunk. `None` if it is no address of the chunk, or not a
    /// multiple of 4 from its start.
    pub fn bytes_until(self, chunk: u64, end: u64) -> Option<u64> {
        let length = end.checked_sub(self.address.0 + ring::chunk_at(chunk))?;
        (length <= ring::CHUNK_BYTES + ring::SLACK_BYTES && length.is_multiple_of(4))
            .then_some(length)
    }

    /// Copies a part of a chunk to `bytes`. `from`: offset in the chunk.
    pub fn copy_chunk(self, chunk: u64, from: u64, bytes: &mut [u8]) {
        self.memory.copy_to(parts::chunk(self.number, chunk) + from, bytes);
    }

    /// Writes a [`START`](ring::START) note to the ring of a stopped thread: its next block does
    /// not follow its last one. Writes nothing if the last word of the chunk is such a note.
    /// Returns the new pointer, or the same one if that is no address of the ring.
    ///
    /// Blocks are entered where the ring is checked. So there is at most one such note after each
    /// series of unchecked blocks in the slack.
    pub fn mark_start(self, pointer: u64) -> u64 {
        let Some((at, length)) = self.place(pointer) else { return pointer };
        let start = ring::note(ring::START, 0);
        let is_marked = length > 0 && self.memory.read(at - 4).is(start);
        if is_marked { pointer } else { self.write_number(pointer, start) }
    }

    /// Writes a note as [`mark_start`](Self::mark_start) does, in a unit of 8 bytes.
    pub fn mark_start_unit(self, pointer: u64) -> u64 {
        let Some((at, length)) = self.place(pointer) else { return pointer };
        let start = ring::note(ring::START, 0);
        let is_marked = length >= 8 && self.memory.read(at - 8).is(start);
        if is_marked { pointer } else { self.write_unit(pointer, start.into()) }
    }

    /// Writes a number to the ring of a stopped thread. Returns the new pointer, or the same one if
    /// that is no address of the ring or if the chunk is full to the end of its slack.
    pub fn write_number(self, pointer: u64, number: u32) -> u64 {
        match self.place(pointer) {
            Some((at, length)) if length < ring::CHUNK_BYTES + ring::SLACK_BYTES => {
                self.memory.write(at, number);
                pointer + 4
            }
            _ => pointer,
        }
    }

    /// Notes the base of `fs` in the ring of a stopped thread: two units of 8 bytes. Returns the
    /// new pointer.
    pub fn note_fs_base(self, pointer: u64, base: u64) -> u64 {
        let note = u64::from(ring::note(ring::FS_BASE, 0));
        self.write_unit(self.write_unit(pointer, note), base)
    }

    /// Writes a unit of 8 bytes, as [`write_number`](Self::write_number) writes a word.
    pub fn write_unit(self, pointer: u64, unit: u64) -> u64 {
        let words = [unit as u32, (unit >> 32) as u32];
        words.into_iter().fold(pointer, |pointer, word| self.write_number(pointer, word))
    }

    /// Writes a number to the ring of a stopped thread that has already stored the slots behind it.
    /// Returns the pointer behind the slots, or the same pointer if that is no address of the ring.
    pub fn write_number_before_slots(self, pointer: u64, number: u32, slots: usize) -> u64 {
        let after = pointer.checked_add(8 * (1 + slots as u64));
        match after.filter(|after| self.place(*after).is_some()) {
            Some(after) => {
                self.write_unit(pointer, number.into());
                after
            }
            None => pointer,
        }
    }

    /// Replaces the value of the slot that is `before` slots before the ring's pointer. Does
    /// nothing if that is no address of the ring.
    pub fn replace_slot(self, pointer: u64, before: u64, value: u64) {
        let from = before.checked_mul(8).and_then(|bytes| pointer.checked_sub(bytes));
        let Some((at, _)) = from.and_then(|from| self.place(from)) else { return };
        self.memory.write(at, value as u32);
        self.memory.write(at + 4, (value >> 32) as u32);
    }

    /// The offset in the memory and the offset in its chunk of an address of the ring.
    fn place(self, pointer: u64) -> Option<(u64, u64)> {
        let length = |chunk| Some((chunk, self.bytes_until(chunk, pointer)?));
        let (chunk, length) = (0..CHUNKS).find_map(length)?;
        Some((parts::chunk(self.number, chunk) + length, length))
    }

    /// Returns the memory of the area to the system.
    pub fn release(self) {
        for chunk in 0..CHUNKS {
            let bytes = ring::CHUNK_BYTES + ring::SLACK_BYTES;
            self.memory.release(parts::chunk(self.number, chunk), bytes);
        }
    }

    /// Number of the chunk that the thread fills, as the thread says, modulo the number of chunks.
    pub fn current_chunk(self) -> u64 {
        u64::from(self.word(area::CHUNK).load(Ordering::SeqCst)) % CHUNKS
    }

    /// Whether the thread waits for an answer.
    pub fn is_asking(self) -> bool {
        self.word(area::ASK).load(Ordering::SeqCst) == area::ASKING
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use super::*;

    #[test]
    fn a_start_is_written_once_and_only_to_the_ring() {
        let file = rustix::fs::memfd_create("areas", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
        let file = File::from(file);
        file.set_len(parts::BYTES).unwrap();
        let areas =
            Areas::new(Memory::map(&file, parts::BYTES).unwrap(), RunAddr(1 << 40), area::WAIT);
        let first = areas.area(2).prepare();
        let area = areas.area(2);
        let second = area.mark_start(first);
        assert_eq!((second, area.mark_start(second)), (first + 4, second));
        let mut bytes = [0; 8];
        area.copy_chunk(0, 0, &mut bytes);
        assert_eq!(bytes, (u64::from(ring::note(ring::START, 0))).to_le_bytes());
        let end =
            area.address.0 + ring::chunk_at(CHUNKS - 1) + ring::CHUNK_BYTES + ring::SLACK_BYTES;
        assert_eq!((area.mark_start(end - 4), area.mark_start(end)), (end, end));
        for other in [0, first - 4, first + 2, end + 4, end - 2, u64::MAX] {
            assert_eq!(area.mark_start(other), other);
        }
    }
}
