//! Models the reading of a thread's chunks from the description of the memory
//! ([`hmtt_probe::stubs::layout`]).

use hmtt_files::tag_log::{FunctionId, LossReason, TagEvent};
use hmtt_probe::stubs::layout::{LogShape, chunk, slot};

use super::tracee::Tracee;

/// Largest count that a thread can reach immediately, and largest count within a day.
const AT_ONCE: u64 = 1 << 20;
const IN_A_DAY: u64 = 1 << 52;

/// Whether a count is plausible.
#[derive(Clone, Copy, Debug)]
pub(super) enum Plausible {
    Yes(u64),
    /// The count is plausible only after the thread has run for some time.
    Unknown(u64),
    No,
}

pub(super) fn plausible(count: u64) -> Plausible {
    if count <= AT_ONCE {
        Plausible::Yes(count)
    } else if count < IN_A_DAY {
        Plausible::Unknown(count)
    } else {
        Plausible::No
    }
}

/// An event or loss of a thread, as the log must contain it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Logged {
    Event(TagEvent),
    Lost(LossReason, u64),
}

/// Appends an event or loss. Consecutive losses of one kind are merged.
pub(super) fn append(log: &mut Vec<Logged>, entry: Logged) {
    match (log.last_mut(), entry) {
        (_, Logged::Lost(_, 0)) => {}
        (Some(Logged::Lost(reason, count)), Logged::Lost(other, more)) if *reason == other => {
            *count += more;
        }
        _ => log.push(entry),
    }
}

/// The model of a thread.
pub(super) struct Plain {
    shape: LogShape,
    /// Offset of the thread's slot.
    at: u64,
    /// Number of chunks that were read.
    number: u64,
    dropped: u64,
    pub logged: Vec<Logged>,
    /// Number of records that were read.
    pub records: u64,
    /// Whether the result depended on time. Further results are then unknown.
    pub is_unknown: bool,
}

impl Plain {
    pub fn new(shape: LogShape, at: u64) -> Plain {
        let (number, dropped, logged, records) = Default::default();
        Plain { shape, at, number, dropped, logged, records, is_unknown: false }
    }

    /// Reads the chunks that the thread has passed on. Returns whether there were any.
    pub fn look(&mut self, tracee: &Tracee, numbers: u64) -> bool {
        let first = self.number;
        for _ in 0..self.shape.chunks {
            let at = self.chunk();
            if tracee.word(at + chunk::STATE) != chunk::FULL {
                break;
            }
            // A full chunk with a missing record is not read while other chunks may be filled.
            let handed_over = tracee.long(self.at + slot::NUMBER);
            let is_full =
                !(first.max(self.number)..self.number + self.shape.chunks).contains(&handed_over);
            if !is_full && self.words(tracee, at).contains(&0) {
                break;
            }
            self.take(tracee, self.shape.capacity(), numbers);
        }
        self.number != first
    }

    /// Reads the remaining chunks of a thread that has ended.
    pub fn finish(&mut self, tracee: &Tracee, numbers: u64) {
        for _ in 0..=self.shape.chunks {
            let at = self.chunk();
            let reserved = match tracee.word(at + chunk::STATE) {
                chunk::FULL => Some(self.shape.capacity()),
                chunk::FILLING => self.reserved(tracee, at),
                chunk::FREE => break,
                _ => {
                    self.damaged();
                    break;
                }
            };
            if reserved.is_none() {
                self.damaged();
            }
            self.take(tracee, reserved.unwrap_or(0), numbers);
        }
        let more = match tracee.word(self.at + slot::DROPPING) {
            0 => Some(0),
            _ => self.reserved(tracee, self.at),
        };
        if more.is_none() {
            self.damaged();
        }
        self.drop(tracee.long(self.at + slot::DROPPED), more.unwrap_or(0));
    }

    fn chunk(&self) -> u64 {
        self.at + self.shape.chunk_at(self.number)
    }

    fn damaged(&mut self) {
        append(&mut self.logged, Logged::Lost(LossReason::Damaged, 1));
    }

    fn words(&self, tracee: &Tracee, at: u64) -> Vec<u32> {
        let bytes = tracee.bytes(at, self.shape.chunk_bytes);
        let records =
            bytes[chunk::GUARD_BYTES as usize..].chunks(self.shape.record_bytes() as usize);
        let word = |record: &[u8]| record.last_chunk().map_or(0, |word| u32::from_le_bytes(*word));
        records.map(word).collect()
    }

    /// Returns the number of records before the one that the thread would write next.
    fn reserved(&self, tracee: &Tracee, at: u64) -> Option<u64> {
        let first = tracee.address(at + chunk::GUARD_BYTES);
        let behind = tracee.long(self.at + slot::POINTER).checked_sub(first)?;
        let is_there = behind < self.shape.chunk_bytes;
        is_there.then(|| (behind / self.shape.record_bytes()).min(self.shape.capacity()))
    }

    /// Reads the records of the next chunk up to `reserved`.
    fn take(&mut self, tracee: &Tracee, reserved: u64, numbers: u64) {
        let at = self.chunk();
        self.drop(tracee.long(at + chunk::LOST), 0);
        let bytes = reserved * self.shape.record_bytes();
        let records = tracee.bytes(at + chunk::GUARD_BYTES, bytes);
        for record in records.chunks(self.shape.record_bytes() as usize) {
            let entry = self.record(record, numbers);
            append(&mut self.logged, entry);
        }
        self.records += reserved;
        self.number += 1;
        // The controller leaves a chunk with zeros.
        let zeros = vec![0; (self.shape.chunk_bytes - chunk::GUARD_BYTES) as usize];
        tracee.write(at + chunk::GUARD_BYTES, &zeros);
        tracee.write(at + chunk::STATE, &chunk::FREE.to_le_bytes());
    }

    fn record(&self, record: &[u8], numbers: u64) -> Logged {
        let (rest, word) = record.split_last_chunk::<4>().expect("it has a word");
        let (rest, sp) = rest.split_last_chunk::<4>().expect("it has a stack pointer");
        let tsc = rest.try_into().map_or(0, u64::from_le_bytes);
        match u32::from_le_bytes(*word).checked_sub(1) {
            None => Logged::Lost(LossReason::Interrupted, 1),
            Some(event) if u64::from(event / 2) >= numbers => Logged::Lost(LossReason::Damaged, 1),
            Some(event) => {
                let (number, is_exit) = (event / 2, event % 2 == 1);
                Logged::Event(TagEvent {
                    tsc,
                    sp: u32::from_le_bytes(*sp),
                    number: FunctionId(number),
                    is_exit,
                })
            }
        }
    }

    /// Appends a loss of the records that were dropped since the last call, and of `more` records.
    fn drop(&mut self, dropped: u64, more: u64) {
        let count = match plausible(dropped) {
            _ if dropped < self.dropped => None,
            _ if dropped == self.dropped => Some(0),
            Plausible::Yes(dropped) => Some(dropped - self.dropped),
            Plausible::Unknown(_) => {
                self.is_unknown = true;
                None
            }
            Plausible::No => None,
        };
        if count.is_none() {
            self.damaged();
        }
        let count = count.unwrap_or(0) + more;
        append(&mut self.logged, Logged::Lost(LossReason::BufferFull, count));
        self.dropped += count;
    }
}
