//! Decodes the words of one frame into events with absolute clocks and addresses.
//!
//! Each block is decoded from its own words only: the sync states clock, unit and segment, and
//! records are relative to them. A reader of several frames compares [`Block::accesses`] at the end
//! of a block with the [`Sync`] of the next block; the difference is the number of accesses lost in
//! between.

use crate::config::Mode;
use crate::event::{Event, MarkRegister, SliceLength};
pub use crate::frame::UNIT_NONE;
use crate::frame::{SYNC_WORDS, Sync};
use crate::memory::PAGE_LOG2;
use crate::record::{Half, NUMBER_BITS, TagSource, Word, WordError, WordRecord};
use crate::units::{Access, Cycles, PhysAddr};

/// The reason why a block cannot be decoded further.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockError {
    /// The frame has fewer words than a sync.
    NoSync,
    /// A word is invalid.
    Word {
        /// Index of the word in the frame, including the sync's words.
        index: u8,
        /// The reason why the word is invalid.
        error: WordError,
    },
}

impl core::fmt::Display for BlockError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            BlockError::NoSync => f.write_str("frame is too short for its sync"),
            BlockError::Word { index, error } => write!(f, "word {index}: {error}"),
        }
    }
}

impl core::error::Error for BlockError {}

/// An iterator over the events of one data frame.
#[derive(Clone, Debug)]
pub struct Block<I> {
    words: I,
    index: u8,
    sync: Sync,
    clock: u64,
    segment: u32,
    accesses: u64,
    pending: Option<Half>,
    failed: bool,
}

impl<I: Iterator<Item = u64>> Block<I> {
    /// Creates the iterator from the frame's words, the sync first.
    ///
    /// # Errors
    /// [`BlockError::NoSync`] if there are fewer words than a sync has.
    pub fn new(mut words: I) -> Result<Self, BlockError> {
        let (Some(first), Some(second)) = (words.next(), words.next()) else {
            return Err(BlockError::NoSync);
        };
        let sync = Sync::decode([first, second]);
        Ok(Block {
            words,
            index: SYNC_WORDS,
            sync,
            clock: sync.clock,
            segment: sync.segment,
            accesses: 0,
            pending: None,
            failed: false,
        })
    }

    /// The sync at the start of the block.
    pub const fn sync(&self) -> Sync {
        self.sync
    }

    /// Clock of the last record decoded so far.
    pub const fn clock(&self) -> Cycles {
        Cycles(self.clock)
    }

    /// Segment after the last record decoded so far: the high bits of the unit numbers that follow.
    pub const fn segment(&self) -> u32 {
        self.segment
    }

    /// Number of accesses in the records decoded so far.
    pub const fn accesses(&self) -> u64 {
        self.accesses
    }

    #[inline]
    fn address(&self, number: u32) -> PhysAddr {
        let number = u64::from(self.segment) << NUMBER_BITS | u64::from(number);
        PhysAddr(number << self.sync.unit_log2)
    }

    #[inline]
    fn half(&mut self, half: Half) -> Option<Event> {
        match half {
            Half::Access { direction, delta, number } => {
                self.clock += u64::from(delta);
                self.accesses += 1;
                let address = self.address(number);
                Some(Event::Access(Access { clock: self.clock(), direction, address }))
            }
            Half::Skip(clocks) => {
                self.clock += u64::from(clocks);
                None
            }
            Half::Segment { segment, skip } => {
                self.segment = segment;
                self.clock += u64::from(skip);
                None
            }
        }
    }

    #[inline]
    fn record(&mut self, record: WordRecord) -> Event {
        match record {
            WordRecord::Tag { delta, source: TagSource::Window(direction), value } => {
                self.clock += u64::from(delta);
                self.accesses += 1;
                Event::Tag { clock: self.clock(), direction, offset: value, address: None }
            }
            WordRecord::Tag { delta, source: TagSource::Mark, value } => {
                self.clock += u64::from(delta);
                Event::Mark { clock: self.clock(), register: MarkRegister(value) }
            }
            WordRecord::Fault { delta, kind, bank } => {
                self.clock += u64::from(delta);
                Event::Fault { clock: self.clock(), kind, bank }
            }
            WordRecord::Page { delta, run } => {
                self.clock += u64::from(delta);
                self.accesses += u64::from(run.reads) + u64::from(run.writes);
                Event::Page {
                    clock: self.clock(),
                    address: self.address(run.number),
                    reads: run.reads,
                    writes: run.writes,
                    duration: run.duration,
                }
            }
            WordRecord::Slice { code, partial, start, reads, writes } => {
                if self.sync.has_no_numbers() {
                    self.accesses += u64::from(reads) + u64::from(writes);
                }
                Event::Slice {
                    clock: Cycles(start),
                    code: Some(code),
                    length: SliceLength::of_record(partial.map(|clocks| Cycles(clocks.into()))),
                    reads,
                    writes,
                }
            }
            WordRecord::Interval { part, clock } => Event::Interval { clock: Cycles(clock), part },
            WordRecord::Count { dump, group, index, value } => {
                Event::Count { dump, group, index, value }
            }
            WordRecord::HotPage { dump, page, count, votes } => Event::HotPage {
                dump,
                address: PhysAddr(u64::from(page) << PAGE_LOG2),
                count,
                votes,
            },
        }
    }
}

/// log2 of the size in bytes of the unit that numbers count in a mode. `line_log2`: log2 of the
/// size of the recorded unit in line mode, a line or a burst.
pub const fn unit_log2(mode: Mode, line_log2: u8, page_log2: u8) -> u8 {
    match mode {
        Mode::Line => line_log2,
        Mode::Page => page_log2,
        Mode::Frequency | Mode::Analysis => UNIT_NONE,
    }
}

impl<I: Iterator<Item = u64>> Iterator for Block<I> {
    type Item = Result<Event, BlockError>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if self.failed {
                return None;
            }
            if let Some(half) = self.pending.take()
                && let Some(event) = self.half(half)
            {
                return Some(Ok(event));
            }
            let word = self.words.next()?;
            let index = self.index;
            self.index = self.index.saturating_add(1);
            let (words, position) = (&mut self.words, &mut self.index);
            let next = || {
                *position = position.saturating_add(1);
                words.next()
            };
            match Word::decode(word, next) {
                Ok(Word::Record(record)) => return Some(Ok(self.record(record))),
                Ok(Word::Halves(first, second)) => {
                    self.pending = Some(second);
                    if let Some(event) = self.half(first) {
                        return Some(Ok(event));
                    }
                }
                Err(error) => {
                    self.failed = true;
                    return Some(Err(BlockError::Word { index, error }));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::Direction;

    fn pair(first: Half, second: Half) -> u64 {
        u64::from(first.encode()) << 32 | u64::from(second.encode())
    }

    #[test]
    fn clocks_and_segments_chain_from_the_sync() {
        let sync = Sync { clock: 1000, unit_log2: 6, segment: 1, accesses: 7, lost: 0 };
        let read = |delta, number| Half::Access { direction: Direction::Read, delta, number };
        let [first, second] = sync.encode();
        let words = [
            first,
            second,
            pair(read(4, 2), Half::Skip(100)),
            pair(read(0, 3), Half::Segment { segment: 2, skip: 5 }),
            pair(read(1, 4), Half::Skip(0)),
        ];
        let mut block = Block::new(words.into_iter()).unwrap();
        let lines: Vec<_> = block
            .by_ref()
            .map(|event| match event.unwrap() {
                Event::Access(access) => format!("{access}"),
                other => panic!("{other:?}"),
            })
            .collect();
        assert_eq!(lines, ["1004 R 100000080", "1104 R 1000000c0", "1110 R 200000100"]);
        assert_eq!(block.accesses(), 3);
    }

    #[test]
    fn a_block_stops_at_its_first_bad_word() {
        let words = [0, 0, u64::MAX, 0];
        let mut block = Block::new(words.into_iter()).unwrap();
        let error = WordError::UnknownKind(15);
        assert_eq!(block.next(), Some(Err(BlockError::Word { index: 2, error })));
        assert_eq!(block.next(), None);
    }
}
