//! Counts pages, banks and directions of the words of one data frame.
//!
//! Decodes the same words as [`hmtt_format::Block`], without clocks, which are not needed here. A
//! word of two accesses is handled in one step: at high rates nearly all words are of that kind.

use hmtt_format::Direction;
use hmtt_format::block::UNIT_NONE;
use hmtt_format::frame::Sync;
use hmtt_format::memory::PAGE_LOG2;
use hmtt_format::record::{
    DELTA_AT, ESCAPE, Half, NUMBER_BITS, TagSource, WRITE_AT, Word, WordRecord,
};

use super::bank_rows::BankRowMap;
use super::banks::Banks;
use super::pages::PageTable;
use crate::online::activity::AccessCounts;

/// A data frame that is being decoded. `WHOLE_PAGES`: every page lies in one row.
pub(super) struct Block<'a, const WHOLE_PAGES: bool> {
    pub pages: &'a mut PageTable,
    pub bank_rows: &'a BankRowMap,
    pub banks: &'a mut Banks,
    pub tag_window: Option<u64>,
    /// Whether the pages in use exceed the processor's caches.
    pub is_scattered: bool,
    pub numbers: Numbers,
    /// Bytes of a burst; 0 while they are not known.
    pub burst_bytes: u64,
    /// Counts of the frame so far.
    pub seen: AccessCounts,
}

/// Converts access numbers to addresses.
#[derive(Clone, Copy)]
pub(super) struct Numbers {
    /// Segment, shifted to its bits of the address.
    base: u64,
    unit_log2: u8,
}

impl Numbers {
    /// Segment and unit of a frame's sync.
    pub fn new(sync: Sync) -> Self {
        let mut numbers = Numbers { base: 0, unit_log2: sync.unit_log2 };
        numbers.set_segment(sync.segment);
        numbers
    }

    fn set_segment(&mut self, segment: u32) {
        self.base = u64::from(segment) << NUMBER_BITS;
    }

    /// Address of a number; higher bits of `number` are ignored.
    #[inline(always)]
    fn address(self, number: u32) -> u64 {
        (self.base | u64::from(number & ((1 << NUMBER_BITS) - 1))) << self.unit_log2
    }
}

impl<const WHOLE_PAGES: bool> Block<'_, WHOLE_PAGES> {
    /// Counts the words after the sync, up to the first that cannot be decoded.
    pub fn words(&mut self, mut words: impl Iterator<Item = u64> + Clone) {
        if self.is_scattered {
            self.read_ahead(words.clone());
        }
        let (mut accesses, mut writes) = (0, 0);
        // A copy stays in registers.
        let mut numbers = self.numbers;
        while let Some(word) = words.next() {
            if is_two_accesses(word) {
                accesses += 2;
                writes += (word >> (32 + WRITE_AT)) + (word >> WRITE_AT & 1);
                self.access::<0>(numbers.address((word >> 32) as u32));
                self.access::<1>(numbers.address(word as u32));
                continue;
            }
            match Word::decode(word, || words.next()) {
                Ok(Word::Halves(high, low)) => {
                    self.half(high);
                    self.half(low);
                }
                Ok(Word::Record(record)) => self.record(record),
                Err(_) => break,
            }
            numbers = self.numbers;
        }
        self.seen.accesses += accesses;
        self.seen.writes += writes;
        self.seen.reads += accesses - writes;
        self.seen.bytes += accesses << self.numbers.unit_log2;
    }

    /// Loads the counters that the words will need into the cache: these loads are independent, so
    /// the processor waits for many of them at once. A word that is not an access may load a
    /// counter without need.
    fn read_ahead(&self, words: impl Iterator<Item = u64>) {
        let slot = |half: u64| self.pages.peek(self.numbers.address(half as u32) >> PAGE_LOG2);
        let sum = words
            .fold(0u8, |sum, word| sum.wrapping_add(slot(word >> 32)).wrapping_add(slot(word)));
        // Keeps the compiler from removing the loads.
        std::hint::black_box(sum);
    }

    #[inline(always)]
    fn access<const LANE: usize>(&mut self, address: u64) {
        let page = address >> PAGE_LOG2;
        if !self.pages.add(page) {
            self.untracked(1);
        }
        let mut bank_row = self.bank_rows.bank_row_of_page(page);
        if !WHOLE_PAGES {
            bank_row ^= self.bank_rows.bank_row_of_offset(address);
        }
        self.banks.add::<LANE>(bank_row);
    }

    #[cold]
    fn untracked(&mut self, accesses: u64) {
        self.seen.untracked += accesses;
    }

    fn half(&mut self, half: Half) {
        match half {
            Half::Access { direction, number, .. } => {
                self.seen.bytes += 1 << self.numbers.unit_log2;
                self.single(direction, self.numbers.address(number));
            }
            Half::Skip(_) => {}
            Half::Segment { segment, .. } => self.numbers.set_segment(segment),
        }
    }

    fn record(&mut self, record: WordRecord) {
        match record {
            WordRecord::Page { run, .. } => {
                let accesses = self.bursts(run.reads, run.writes);
                if accesses != 0 {
                    self.run(self.numbers.address(run.number), accesses);
                }
            }
            // With line or page records, slices count the same accesses again.
            WordRecord::Slice { reads, writes, .. } if self.numbers.unit_log2 == UNIT_NONE => {
                self.seen.pageless += self.bursts(reads, writes);
            }
            WordRecord::Tag { source: TagSource::Window(direction), value, .. } => {
                if let Some(base) = self.tag_window {
                    self.seen.bytes += self.burst_bytes;
                    self.single(direction, base + u64::from(value));
                } else {
                    let write = u32::from(direction == Direction::Write);
                    self.seen.pageless += self.bursts(1 - write, write);
                }
            }
            _ => {}
        }
    }

    fn single(&mut self, direction: Direction, address: u64) {
        let write = u32::from(direction == Direction::Write);
        self.count(1 - write, write);
        self.access::<0>(address);
    }

    /// Counts accesses to a page. If a page has several rows, the record does not state which of
    /// them were accessed.
    fn run(&mut self, address: u64, accesses: u64) {
        let page = address >> PAGE_LOG2;
        if !self.pages.add_run(page, accesses) {
            self.untracked(accesses);
        }
        if WHOLE_PAGES {
            self.banks.add_run(self.bank_rows.bank_row_of_page(page), accesses);
        }
    }

    /// Counts accesses of one burst each, and returns their number.
    fn bursts(&mut self, reads: u32, writes: u32) -> u64 {
        let accesses = self.count(reads, writes);
        self.seen.bytes += accesses * self.burst_bytes;
        accesses
    }

    fn count(&mut self, reads: u32, writes: u32) -> u64 {
        let (reads, writes) = (u64::from(reads), u64::from(writes));
        self.seen.reads += reads;
        self.seen.writes += writes;
        self.seen.accesses += reads + writes;
        reads + writes
    }
}

/// Write bits of both halves, which are the bits above the deltas.
const WRITES: u64 = 1 << (32 + WRITE_AT) | 1 << WRITE_AT;
/// Masks of the deltas of both halves.
const DELTAS: u64 = (ESCAPE as u64) << (32 + DELTA_AT) | (ESCAPE as u64) << DELTA_AT;

/// Whether both halves are accesses. A half that is not an access has the delta [`ESCAPE`], whose
/// complement is 0; adding all ones to any other complement carries into the bit above.
#[inline(always)]
fn is_two_accesses(word: u64) -> bool {
    ((!word & DELTAS) + DELTAS) & WRITES == WRITES
}
