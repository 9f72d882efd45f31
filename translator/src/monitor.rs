//! The monitor: reads block numbers from the rings of threads, in order, and counts them.
//!
//! Invariant: numbers come from the program. Counts have room for the blocks that exist, and some more that may just be
//! translated; other numbers are counted as invalid.

use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, TryRecvError};
use std::time::Duration;

use crate::layout::{area, header, ring};
use crate::shared::{CHUNKS, Rings, THREADS, wait, wake};

/// Numbers that may be read before their blocks are known.
const AHEAD: usize = 1 << 16;
/// Separate counts, so that repeated numbers do not wait for each other's stores.
const LANES: usize = 4;
/// How often rings are checked before the monitor sleeps, and how long it sleeps.
const SPINS: u32 = 200;
const SLEEP: Duration = Duration::from_millis(5);

/// A thread no longer uses its area.
#[derive(Clone, Copy, Debug)]
pub struct Finished {
    /// Number of the area.
    pub area: usize,
    /// The ring's pointer; `None` if it is not known.
    pub pointer: Option<u64>,
}

/// What the monitor has read.
#[derive(Clone, Debug, Default)]
pub struct Counts {
    /// Executions of each block, by its number.
    pub blocks: Vec<u64>,
    /// Numbers that were read.
    pub numbers: u64,
    /// Numbers that belong to no block.
    pub invalid: u64,
    /// Numbers that threads have dropped, as they report.
    pub dropped: u64,
    /// Threads whose last numbers are not known.
    pub cut_threads: u64,
}

/// Counts of one reader.
struct Reader<'r> {
    rings: &'r Rings,
    lanes: [Vec<u64>; LANES],
    /// The chunk of each area that is read next.
    next: [u64; THREADS],
    counts: Counts,
    bytes: Vec<u8>,
}

/// Reads the rings until the sender of messages is dropped.
pub fn watch(rings: &Rings, finished: &Receiver<Finished>) -> Counts {
    let bytes = vec![0; (ring::CHUNK_BYTES + ring::SLACK_BYTES) as usize];
    let lanes = [const { Vec::new() }; LANES];
    let counts = Counts::default();
    let mut reader = Reader { rings, lanes, next: [0; THREADS], counts, bytes };
    let mut idle = 0;
    loop {
        let seen = rings.areas.header(header::FILLED).load(Ordering::SeqCst);
        let mut has_read = reader.read_full_chunks();
        match finished.try_recv() {
            Ok(message) => {
                reader.finish(message);
                has_read = true;
            }
            Err(TryRecvError::Disconnected) => break,
            Err(TryRecvError::Empty) => {}
        }
        idle = if has_read { 0 } else { idle + 1 };
        if idle > SPINS {
            reader.sleep(seen);
        } else if idle > 0 {
            std::thread::yield_now();
        }
    }
    reader.result()
}

impl Reader<'_> {
    /// Waits until another chunk is full than when `seen` was read.
    fn sleep(&self, seen: u32) {
        let (filled, sleeps) = (header::FILLED, header::MONITOR_SLEEPS);
        self.rings.areas.header(sleeps).store(1, Ordering::SeqCst);
        wait(self.rings.areas.header(filled), seen, SLEEP);
        self.rings.areas.header(sleeps).store(0, Ordering::SeqCst);
    }

    /// Reads all full chunks. Returns whether there were any.
    fn read_full_chunks(&mut self) -> bool {
        let mut has_read = false;
        for number in 0..THREADS {
            if self.rings.used[number].load(Ordering::SeqCst) {
                has_read |= self.read_area(number);
            }
        }
        has_read
    }

    /// Reads the full chunks of an area, at most each once.
    fn read_area(&mut self, number: usize) -> bool {
        let area = self.rings.areas.area(number);
        for read in 0..CHUNKS {
            let chunk = self.next[number];
            if area.chunk_state(chunk).load(Ordering::SeqCst) != ring::FULL {
                return read > 0;
            }
            let end = area.get(area::CHUNK_END + 8 * chunk as u32).any();
            self.count_chunk(number, chunk, end);
            area.chunk_state(chunk).store(ring::FREE, Ordering::SeqCst);
            if area.word(area::WAITING).load(Ordering::SeqCst) != 0 {
                wake(area.chunk_state(chunk));
            }
            self.next[number] = (chunk + 1) % CHUNKS;
        }
        true
    }

    /// Counts the numbers of a chunk up to an address.
    fn count_chunk(&mut self, number: usize, chunk: u64, end: u64) {
        let area = self.rings.areas.area(number);
        let Some(length) = area.bytes_until(chunk, end) else {
            self.counts.cut_threads += 1;
            return;
        };
        let limit = self.rings.blocks.load(Ordering::SeqCst) as usize + AHEAD;
        for lane in &mut self.lanes {
            lane.resize(limit.max(lane.len()), 0);
        }
        let bytes = &mut self.bytes[..length as usize];
        area.copy_chunk(chunk, bytes);
        self.counts.numbers += length / 4;
        let [first, second, third, fourth] = &mut self.lanes;
        let invalid = &mut self.counts.invalid;
        let mut add = |lane: &mut Vec<u64>, bytes: &[u8]| {
            let number = u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
            match lane.get_mut(number as usize) {
                Some(count) => *count += 1,
                None => *invalid += 1,
            }
        };
        let mut groups = bytes.chunks_exact(4 * LANES);
        for group in &mut groups {
            add(first, &group[..4]);
            add(second, &group[4..8]);
            add(third, &group[8..12]);
            add(fourth, &group[12..]);
        }
        groups.remainder().chunks_exact(4).for_each(|number| add(first, number));
    }

    /// Reads the rest of a ring whose thread is not in the cache any more, and frees the area.
    fn finish(&mut self, Finished { area: number, pointer }: Finished) {
        self.read_area(number);
        let area = self.rings.areas.area(number);
        let chunk = area.current_chunk();
        let is_free = area.chunk_state(chunk).load(Ordering::SeqCst) == ring::FREE;
        match pointer {
            Some(pointer) if is_free => self.count_chunk(number, chunk, pointer),
            Some(_) => {}
            None => self.counts.cut_threads += 1,
        }
        self.counts.dropped += area.get(area::DROPPED).any().min(u64::MAX >> 8);
        area.release();
        self.next[number] = 0;
        self.rings.used[number].store(false, Ordering::SeqCst);
    }

    /// Adds up all lanes. Numbers of blocks that do not exist are invalid.
    fn result(mut self) -> Counts {
        let known = self.rings.blocks.load(Ordering::SeqCst) as usize + 1;
        let mut blocks = vec![0; known];
        for lane in &self.lanes {
            for (number, count) in lane.iter().enumerate() {
                match blocks.get_mut(number).filter(|_| number > 0) {
                    Some(sum) => *sum += count,
                    None => self.counts.invalid += count,
                }
            }
        }
        Counts { blocks, ..self.counts }
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::sync::mpsc::channel;

    use hmtt_probe::address::RunAddr;
    use hmtt_probe::control::Memory;

    use super::*;
    use crate::shared::{Areas, BYTES};

    /// Rings that this process shares with itself, and their memory as a program sees it.
    fn rings() -> (Rings, Memory) {
        let file = rustix::fs::memfd_create("rings", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
        let file = File::from(file);
        file.set_len(BYTES).unwrap();
        let of_program = Memory::map(&file, BYTES).unwrap();
        let areas = Areas::new(Memory::map(&file, BYTES).unwrap(), RunAddr(1 << 40), area::WAIT);
        (Rings::new(areas), of_program)
    }

    /// Offset of a chunk of the first area in the memory.
    fn chunk(number: u64) -> u64 {
        ring::CHUNK_STRIDE + ring::chunk_at(number)
    }

    fn write(memory: &Memory, chunk_number: u64, numbers: &[u32]) {
        let bytes: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
        memory.copy_from(chunk(chunk_number), &bytes);
    }

    #[test]
    fn full_chunks_and_the_last_part_are_counted_in_order() {
        let (rings, program) = rings();
        let pointer = rings.areas.area(0).prepare();
        assert_eq!(pointer, (1 << 40) + chunk(0));
        rings.used[0].store(true, Ordering::SeqCst);
        rings.blocks.store(3, Ordering::SeqCst);
        write(&program, 0, &[1, 2, 2, 3, 3, 3]);
        let area = rings.areas.area(0);
        area.set(area::CHUNK_END, pointer + 24);
        area.chunk_state(0).store(ring::FULL, Ordering::SeqCst);
        area.word(area::CHUNK).store(1, Ordering::SeqCst);
        write(&program, 1, &[1, 1]);
        let (sender, receiver) = channel();
        let last = (1 << 40) + chunk(1) + 8;
        sender.send(Finished { area: 0, pointer: Some(last) }).unwrap();
        drop(sender);
        let counts = watch(&rings, &receiver);
        assert_eq!(counts.blocks, [0, 3, 2, 3]);
        assert_eq!((counts.numbers, counts.invalid, counts.cut_threads), (8, 0, 0));
        assert!(!rings.used[0].load(Ordering::SeqCst));
    }

    #[test]
    fn forged_numbers_and_addresses_are_losses() {
        let (rings, program) = rings();
        let pointer = rings.areas.area(0).prepare();
        rings.used[0].store(true, Ordering::SeqCst);
        rings.blocks.store(2, Ordering::SeqCst);
        write(&program, 0, &[2, 0, 3, u32::MAX, 2]);
        let area = rings.areas.area(0);
        area.set(area::CHUNK_END, pointer + 20);
        for (number, end) in [(1, 0), (2, u64::MAX), (3, pointer), (4, (1 << 40) + chunk(4) + 2)] {
            area.set(area::CHUNK_END + 8 * number as u32, end);
        }
        (0..CHUNKS).for_each(|one| area.chunk_state(one).store(ring::FULL, Ordering::SeqCst));
        (5..CHUNKS).for_each(|one| area.chunk_state(one).store(u32::MAX, Ordering::SeqCst));
        area.word(area::CHUNK).store(u32::MAX, Ordering::SeqCst);
        let (sender, receiver) = channel();
        sender.send(Finished { area: 0, pointer: Some(u64::MAX) }).unwrap();
        drop(sender);
        let counts = watch(&rings, &receiver);
        assert_eq!(counts.blocks, [0, 0, 2]);
        assert_eq!((counts.numbers, counts.invalid, counts.cut_threads), (5, 3, 4));
    }
}
