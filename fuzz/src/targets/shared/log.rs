//! Compares the log that the controller writes from overwritten chunks with a model of the same
//! bytes.

use std::collections::HashMap;
use std::io::{Read, Seek};
use std::sync::atomic::Ordering;

use hmtt_files::tag_log::{Chunk, Content, Ending, HEADER_BYTES, Header};
use hmtt_probe::fuzzing::Drain;
use hmtt_probe::fuzzing::Writer;
use hmtt_probe::fuzzing::{Shared, SlotLayout};
use hmtt_probe::stubs::layout::{LogShape, WhenFull, chunk, slot};

use super::plain::{Logged, Plain, append};
use super::tracee::{Tracee, file, value};
use crate::script::Bytes;

/// Number of threads. The first slot belongs to no thread.
const THREADS: u64 = 2;
/// Largest number of bytes in the log for each record.
const RECORD_BYTES: u64 = 64;
/// Largest number of further bytes in the log for each read of a thread: two times, and the end.
const LOOK_BYTES: u64 = 256;
/// Fields of a slot that the controller reads.
const FIELDS: [u64; 6] =
    [slot::POINTER, slot::NUMBER, slot::DROPPED, slot::DROPPING, slot::FREED, slot::WAITING];

/// A thread in the controller and in the model.
struct Thread {
    number: u32,
    at: u64,
    drain: Drain,
    plain: Plain,
}

struct Bench {
    shape: LogShape,
    shared: Shared,
    tracee: Tracee,
    writer: Writer,
    numbers: u64,
    threads: Vec<Thread>,
    /// Threads that have ended. Other threads have their slots now.
    ended: Vec<Thread>,
    looks: u64,
}

pub(super) fn check(mut script: Bytes) {
    let (Some(kind), Some(numbers)) = (script.byte(), script.number(2)) else { return };
    let shape = LogShape {
        is_timed: kind & 1 != 0,
        chunk_bytes: 8192,
        chunks: 1 << (kind >> 1 & 3),
        when_full: if kind & 8 != 0 { WhenFull::Wait } else { WhenFull::Drop },
    };
    let sizes = SlotLayout { slot_bytes: shape.slot_bytes(), alignment: shape.chunk_bytes };
    let (tracee, shared) = Tracee::new(sizes, THREADS + 1);
    let log = file();
    let header = Header { is_timed: shape.is_timed, ..Header::default() };
    let writer = Writer::new(log.try_clone().expect("it is open"), header);
    let writer = writer.expect("there is memory");
    writer.numbers.store(numbers, Ordering::SeqCst);
    let (threads, ended) = Default::default();
    let mut bench = Bench { shape, shared, tracee, writer, numbers, threads, ended, looks: 0 };
    (0..THREADS).for_each(|number| bench.begin(number as u32));
    while bench.act(&mut script).is_some() {}
    bench.finish(log);
}

impl Bench {
    /// Starts a thread, with the next slot in turn.
    fn begin(&mut self, number: u32) {
        let slot = u64::from(number) % THREADS + 1;
        let drain = Drain::new(&self.shared, &self.shape, number, slot);
        let at = self.tracee.slot_at(slot);
        self.threads.push(Thread { number, at, drain, plain: Plain::new(self.shape, at) });
    }

    fn act(&mut self, script: &mut Bytes) -> Option<()> {
        let kind = script.byte()?;
        let thread = usize::from(kind >> 3 & 1);
        let at = self.threads[thread].at;
        let chunk = at + self.shape.chunk_at(u64::from(kind >> 4));
        match kind & 7 {
            0 => self.look(thread),
            1 => self.end(thread),
            2 => self.tracee.scribble(script)?,
            3 => {
                let field = FIELDS[usize::from(script.byte()?) % FIELDS.len()];
                self.tracee.write(at + field, &value(script)?.to_le_bytes());
            }
            4 => self.tracee.write(chunk + chunk::LOST, &value(script)?.to_le_bytes()),
            5 => self.tracee.write(chunk + chunk::STATE, &[script.byte()? % 4]),
            6 => self.fill(chunk, script)?,
            _ => {
                let place = script.number(2)? % self.shape.capacity() * self.shape.record_bytes();
                let record: Vec<u8> = script.some().iter().copied().take(16).collect();
                let end = self.shape.chunk_bytes - record.len() as u64;
                let at = chunk + (chunk::GUARD_BYTES + place).min(end);
                self.tracee.write(at, &record);
            }
        }
        Some(())
    }

    /// Fills a chunk with copies of a record and passes the chunk to the controller.
    fn fill(&self, chunk: u64, script: &mut Bytes) -> Option<()> {
        let word = script.number(2)? as u32;
        let mut record = vec![0x55; self.shape.sp_at() as usize];
        record.extend((script.byte()? as u32).to_le_bytes());
        record.extend(word.to_le_bytes());
        let records = record.repeat(self.shape.capacity() as usize);
        self.tracee.write(chunk + chunk::GUARD_BYTES, &records);
        self.tracee.write(chunk + chunk::STATE, &chunk::FULL.to_le_bytes());
        Some(())
    }

    fn look(&mut self, thread: usize) {
        self.looks += 1;
        let Thread { drain, plain, at, .. } = &mut self.threads[thread];
        let before = self.tracee.bytes(*at, self.shape.slot_bytes());
        let expected = plain.look(&self.tracee, self.numbers);
        let after = self.tracee.bytes(*at, self.shape.slot_bytes());
        self.tracee.write(*at, &before);
        assert_eq!(drain.drain(&self.shared, &self.shape, &mut self.writer), expected);
        let at = *at;
        self.same_memory(at, &after);
    }

    /// Ends a thread. Another thread gets its slot.
    fn end(&mut self, thread: usize) {
        let mut ended_thread = self.threads.remove(thread);
        self.end_thread(&mut ended_thread);
        let number = ended_thread.number + THREADS as u32;
        self.ended.push(ended_thread);
        self.begin(number);
        self.threads.sort_by_key(|one| one.at);
    }

    fn end_thread(&mut self, thread: &mut Thread) {
        self.looks += 1;
        let before = self.tracee.bytes(thread.at, self.shape.slot_bytes());
        thread.plain.finish(&self.tracee, self.numbers);
        let after = self.tracee.bytes(thread.at, self.shape.slot_bytes());
        self.tracee.write(thread.at, &before);
        thread.drain.finish(&self.shared, &self.shape, &mut self.writer);
        self.same_memory(thread.at, &after);
    }

    /// Compares records and states in memory with the expected ones of the model.
    fn same_memory(&self, at: u64, expected: &[u8]) {
        for number in 0..self.shape.chunks {
            let chunk = self.shape.chunk_at(number);
            let bytes = self.tracee.bytes(at + chunk, self.shape.chunk_bytes);
            let chunk_range = chunk as usize..(chunk + self.shape.chunk_bytes) as usize;
            assert!(bytes == expected[chunk_range], "chunk {number}");
        }
    }

    fn finish(mut self, mut log: std::fs::File) {
        for mut thread in std::mem::take(&mut self.threads) {
            self.end_thread(&mut thread);
            self.ended.push(thread);
        }
        let calls = self.writer.calls.clone();
        assert!(calls.len() as u64 <= self.numbers);
        self.writer.finish(Ending::Detached).expect("there is memory");
        let mut bytes = Vec::new();
        log.rewind().and_then(|()| log.read_to_end(&mut bytes)).expect("it is in memory");
        let records: u64 = self.ended.iter().map(|one| one.plain.records).sum();
        let most = (self.looks + 1) * LOOK_BYTES * (self.shape.chunks + 2) + records * RECORD_BYTES;
        assert!(bytes.len() as u64 <= most, "{} bytes of {records} records", bytes.len());
        let mut logged = read(&bytes[HEADER_BYTES..], self.shape.is_timed);
        let mut counted = vec![0; calls.len()];
        for thread in &self.ended {
            let logged = logged.remove(&thread.number).unwrap_or_default();
            for event in &logged {
                let Logged::Event(event) = event else { continue };
                counted[event.number.index()] += u64::from(!event.is_exit);
            }
            if !thread.plain.is_unknown {
                assert_eq!(logged, thread.plain.logged, "thread {}", thread.number);
            }
        }
        assert_eq!(counted, calls);
        assert!(logged.is_empty(), "{logged:?}");
    }
}

/// Reads the events and losses of each thread from a log.
fn read(mut rest: &[u8], is_timed: bool) -> HashMap<u32, Vec<Logged>> {
    let mut logged: HashMap<u32, Vec<Logged>> = HashMap::new();
    while let Some((chunk, length)) = Chunk::decode(rest).expect("it is a log") {
        rest = &rest[length..];
        match chunk.content {
            Content::Events(events) => {
                let of_thread = logged.entry(chunk.thread).or_default();
                let before = of_thread.len();
                for event in events.decode(is_timed) {
                    of_thread.push(Logged::Event(event.expect("it is an event")));
                }
                assert_eq!(of_thread.len() - before, events.count as usize);
            }
            Content::Lost { count, reason } => {
                append(logged.entry(chunk.thread).or_default(), Logged::Lost(reason, count));
            }
            Content::Clocks(_) | Content::End(_) => {}
            other => panic!("{other:?}"),
        }
    }
    assert!(rest.is_empty());
    logged
}
