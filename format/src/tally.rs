//! Sums the records of a data frame without decoding them into events.
//!
//! Most frames contain only halves. Halves are counted many at a time, without a branch for each. A
//! frame with a record of whole words is decoded by [`Block`]. Invariant: both ways give the sum
//! over the events of the frame's [`Block`].

use crate::block::{Block, BlockError};
use crate::event::Event;
use crate::frame::{SYNC_WORDS, Sync, WORD_BYTES};
use crate::record::{
    DELTA_AT, EMPTY_HALF, ESCAPE, MAX_SEGMENT_SKIP, MAX_SKIP, SEGMENT_AT, SEGMENT_BITS,
    SEGMENT_FLAG_AT, WRITE_AT,
};
use crate::units::{Cycles, Direction};

/// Sums over the records of a data frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tally {
    /// The sync at the start of the frame.
    pub sync: Sync,
    /// Number of events.
    pub records: u64,
    /// Accesses that the records represent.
    pub accesses: u64,
    /// Number of READs among the accesses.
    pub reads: u64,
    /// Number of WRITEs among the accesses.
    pub writes: u64,
    /// Accesses of page runs, slices and tags. These are bursts, whatever the frame's unit is.
    pub bursts: u64,
    /// Bursts of slices and of tags, including slices that are recorded in addition to other
    /// records.
    pub sliced: u64,
    /// Clock of the last record.
    pub clock: Cycles,
    /// Segment at the end of the frame.
    pub segment: u32,
    /// The reason why the frame could not be decoded to its end; `None` if it was.
    pub error: Option<BlockError>,
}

const HALF_BYTES: usize = size_of::<u32>();
/// Number of halves that are counted at once. The number is large enough for the widest vector
/// registers, and small enough that a skip slows down only a small part of the frame.
const CHUNK_HALVES: usize = 32;
const CHUNK_BYTES: usize = CHUNK_HALVES * HALF_BYTES;
const SYNC_BYTES: usize = SYNC_WORDS as usize * WORD_BYTES;

impl Tally {
    /// Sums the words of a frame, the sync first. Bytes of an incomplete word are ignored.
    ///
    /// # Errors
    /// [`BlockError::NoSync`] if there are fewer words than a sync has. An invalid word is stated
    /// by [`Tally::error`].
    pub fn of(words: &[u8]) -> Result<Tally, BlockError> {
        match Tally::of_halves(words) {
            Some(tally) => Ok(tally),
            None => Tally::of_block(Block::new(words_of(words))?),
        }
    }

    /// Sums a frame that contains only halves; `None` if it contains other records, or no sync.
    pub fn of_halves(words: &[u8]) -> Option<Tally> {
        let words = &words[..words.len() / WORD_BYTES * WORD_BYTES];
        let mut first = words_of(words);
        let mut tally = Tally::new(Sync::decode([first.next()?, first.next()?]));
        let halves = words.get(SYNC_BYTES..)?;
        let (chunks, rest) = halves.as_chunks::<CHUNK_BYTES>();
        for chunk in chunks {
            tally.chunk(chunk)?;
        }
        if !rest.is_empty() {
            // The padding is accesses without clocks, which are subtracted.
            let mut last = [0; CHUNK_BYTES];
            last[..rest.len()].copy_from_slice(rest);
            tally.chunk(&last)?;
            let padding = ((CHUNK_BYTES - rest.len()) / HALF_BYTES) as u64;
            tally.accesses -= padding;
        }
        tally.records = tally.accesses;
        tally.reads = tally.accesses - tally.writes;
        Some(tally)
    }

    /// The sums of a frame without records.
    pub const fn new(sync: Sync) -> Self {
        Tally {
            sync,
            records: 0,
            accesses: 0,
            reads: 0,
            writes: 0,
            bursts: 0,
            sliced: 0,
            clock: Cycles(sync.clock),
            segment: sync.segment,
            error: None,
        }
    }

    fn of_block(mut block: Block<impl Iterator<Item = u64>>) -> Result<Tally, BlockError> {
        let mut tally = Tally::new(block.sync());
        for event in &mut block {
            match event {
                Ok(event) => tally.note(&event),
                Err(error) => tally.error = Some(error),
            }
        }
        (tally.clock, tally.segment) = (block.clock(), block.segment());
        Ok(tally)
    }

    /// Adds an event. [`Tally::clock`] and [`Tally::segment`] are unchanged, because not every
    /// event changes them.
    #[inline]
    pub fn note(&mut self, event: &Event) {
        self.records += 1;
        let (reads, writes) = match *event {
            Event::Access(access) => {
                let write = access.direction.bit();
                self.accesses += 1;
                self.reads += 1 - write;
                self.writes += write;
                return;
            }
            Event::Tag { direction: Direction::Read, .. } => (1, 0),
            Event::Tag { direction: Direction::Write, .. } => (0, 1),
            Event::Page { reads, writes, .. } => (reads, writes),
            Event::Slice { reads, writes, .. } if self.sync.has_no_numbers() => (reads, writes),
            Event::Slice { reads, writes, .. } => {
                self.sliced += u64::from(reads) + u64::from(writes);
                return;
            }
            _ => return,
        };
        let bursts = u64::from(reads) + u64::from(writes);
        if !matches!(event, Event::Page { .. }) {
            self.sliced += bursts;
        }
        self.accesses += bursts;
        self.bursts += bursts;
        self.reads += u64::from(reads);
        self.writes += u64::from(writes);
    }

    /// Adds a chunk of halves; `None` if there is a record of whole words among them.
    fn chunk(&mut self, chunk: &[u8; CHUNK_BYTES]) -> Option<()> {
        let Sum { deltas, writes, escapes, word_records } = Sum::of(chunk);
        if word_records != 0 {
            return None;
        }
        self.accesses += CHUNK_HALVES as u64 - u64::from(escapes);
        self.writes += u64::from(writes);
        self.clock.0 += u64::from(deltas - escapes * ESCAPE);
        if escapes != 0 {
            self.escapes(chunk);
        }
        Some(())
    }

    /// Adds the skips and the segments of a chunk.
    fn escapes(&mut self, chunk: &[u8; CHUNK_BYTES]) {
        const { assert!(CHUNK_HALVES as u64 * (MAX_SKIP as u64) < 1 << u32::BITS) };
        const SEGMENT: u32 = 1 << SEGMENT_FLAG_AT;
        let (halves, _) = chunk.as_chunks::<HALF_BYTES>();
        let (mut clocks, mut segments) = (0u32, 0u32);
        for half in halves {
            let half = u32::from_be_bytes(*half);
            let escape = if half >> DELTA_AT == ESCAPE { half } else { 0 };
            let limit = if half & SEGMENT != 0 { MAX_SEGMENT_SKIP } else { MAX_SKIP };
            clocks += escape & limit;
            segments |= escape & SEGMENT;
        }
        self.clock.0 += u64::from(clocks);
        if segments != 0 {
            let mut halves = halves.iter().map(|half| u32::from_be_bytes(*half));
            const OPENS: u32 = (EMPTY_HALF | SEGMENT) >> SEGMENT_FLAG_AT;
            let last = halves.rfind(|half| half >> SEGMENT_FLAG_AT == OPENS).unwrap_or_default();
            self.segment = last >> SEGMENT_AT & ((1 << SEGMENT_BITS) - 1);
        }
    }
}

/// Sums over the first bytes of the halves of a chunk.
struct Sum {
    /// Sum of all deltas, including escapes.
    deltas: u32,
    writes: u32,
    escapes: u32,
    word_records: u32,
}

impl Sum {
    /// Sums the first bytes of a chunk's halves. They are read as little-endian numbers, in which
    /// the first byte is the lowest one, so that no bytes need to be swapped.
    #[inline]
    fn of(chunk: &[u8; CHUNK_BYTES]) -> Sum {
        const WRITE: u32 = 1 << (WRITE_AT - 24);
        const DELTA: u32 = EMPTY_HALF >> 24;
        let (halves, _) = chunk.as_chunks::<HALF_BYTES>();
        let (mut sums, mut writes, mut escapes, mut word_records) = (0u32, 0u32, 0u32, 0u32);
        for half in halves {
            let first = u32::from_le_bytes(*half) & (WRITE | DELTA);
            sums += first;
            writes += first & WRITE;
            escapes += u32::from(first == DELTA);
            word_records |= u32::from(first == WRITE | DELTA);
        }
        Sum {
            deltas: (sums - writes) >> (DELTA_AT - 24),
            writes: writes / WRITE,
            escapes,
            word_records,
        }
    }
}

/// The words of a frame's bytes.
fn words_of(bytes: &[u8]) -> impl Iterator<Item = u64> {
    bytes.as_chunks::<WORD_BYTES>().0.iter().map(|word| u64::from_be_bytes(*word))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fault::FaultKind;
    use crate::record::TagSource;
    use crate::record::{Half, PageRun, WordRecord};
    use proptest::prelude::*;

    fn half() -> impl Strategy<Value = u32> {
        let access = (any::<u32>(), 0..ESCAPE)
            .prop_map(|(half, delta)| half & !EMPTY_HALF | delta << DELTA_AT);
        prop_oneof![
            8 => access,
            1 => (0..=MAX_SKIP).prop_map(|clocks| Half::Skip(clocks).encode()),
            1 => any::<u32>().prop_map(|rest| EMPTY_HALF | rest & ((1 << DELTA_AT) - 1)),
        ]
    }

    fn pair() -> impl Strategy<Value = Vec<u64>> {
        (half(), half())
            .prop_map(|(first, second)| vec![u64::from(first) << 32 | u64::from(second)])
    }

    fn record() -> impl Strategy<Value = Vec<u64>> {
        let delta = || 0u32..300;
        let counts = || 0u32..50;
        prop_oneof![
            (delta(), any::<u32>(), any::<Option<bool>>()).prop_map(|(delta, value, write)| {
                let window = |write| TagSource::Window(Direction::from_bit(write));
                WordRecord::Tag { delta, source: write.map_or(TagSource::Mark, window), value }
            }),
            delta().prop_map(|delta| WordRecord::Fault {
                delta,
                kind: FaultKind::ReadIdle,
                bank: 3
            }),
            (delta(), counts(), counts()).prop_map(|(delta, reads, writes)| {
                WordRecord::Page { delta, run: PageRun { number: 7, reads, writes, duration: 9 } }
            }),
            (any::<Option<u32>>(), counts(), counts()).prop_map(|(partial, reads, writes)| {
                WordRecord::Slice { code: 9, partial, start: 1 << 40, reads, writes }
            }),
            counts().prop_map(|part| WordRecord::Interval { part: part as u8, clock: 5 }),
        ]
        .prop_map(|record| {
            let (first, rest) = record.encode();
            std::iter::once(first).chain(rest.into_iter().flatten()).collect()
        })
    }

    fn words() -> impl Strategy<Value = Vec<u64>> {
        let part = prop_oneof![
            40 => pair(),
            1 => record(),
            1 => any::<u64>().prop_map(|word| vec![word]),
        ];
        prop_oneof![prop::collection::vec(pair(), 0..190), prop::collection::vec(part, 0..190),]
            .prop_map(|parts| parts.concat())
    }

    fn bytes(words: &[u64]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_be_bytes()).collect()
    }

    /// Sums a frame event by event.
    fn summed(words: &[u64]) -> Tally {
        let mut block = Block::new(words.iter().copied()).unwrap();
        let mut sum = Tally::new(block.sync());
        for event in &mut block {
            match event {
                Ok(event) => {
                    sum.records += 1;
                    let (reads, writes, burst) = match event {
                        Event::Access(access) => {
                            let write = access.direction == Direction::Write;
                            (u32::from(!write), u32::from(write), false)
                        }
                        Event::Tag { direction: Direction::Read, .. } => (1, 0, true),
                        Event::Tag { .. } => (0, 1, true),
                        Event::Page { reads, writes, .. } => (reads, writes, true),
                        Event::Slice { reads, writes, .. } => {
                            sum.sliced += u64::from(reads) + u64::from(writes);
                            match sum.sync.unit_log2 {
                                0 => (reads, writes, true),
                                _ => (0, 0, false),
                            }
                        }
                        _ => (0, 0, false),
                    };
                    sum.reads += u64::from(reads);
                    sum.writes += u64::from(writes);
                    sum.bursts += if burst { u64::from(reads) + u64::from(writes) } else { 0 };
                    sum.sliced += u64::from(matches!(event, Event::Tag { .. }) && burst);
                }
                Err(error) => sum.error = Some(error),
            }
        }
        sum.accesses = block.accesses();
        (sum.clock, sum.segment) = (block.clock(), block.segment());
        sum
    }

    proptest! {
        #[test]
        fn a_tally_is_the_sum_over_the_block(
            clock in 0u64..1 << 48,
            unit_log2 in prop_oneof![Just(0u8), Just(6), Just(12)],
            words in words(),
        ) {
            let sync = Sync { clock, unit_log2, segment: 5, accesses: 7, lost: 1 };
            let words = [&sync.encode()[..], &words].concat();
            let sum = summed(&words);
            let tally = Tally::of(&bytes(&words)).unwrap();
            prop_assert_eq!(tally, sum);
            prop_assert_eq!(tally.reads + tally.writes, tally.accesses);
            if let Some(fast) = Tally::of_halves(&bytes(&words)) {
                prop_assert_eq!(fast, sum);
            }
        }

        #[test]
        fn any_bytes_are_counted_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
            let refused = bytes.len() < SYNC_BYTES;
            prop_assert_eq!(Tally::of(&bytes).is_err(), refused);
        }
    }

    #[test]
    fn frames_of_halves_take_the_fast_way_and_others_do_not() {
        let sync = Sync { clock: 3, unit_log2: 6, ..Sync::default() }.encode();
        let mut words = [&sync[..], &[0x0400_0001_0400_0002; 185]].concat();
        let fast = Tally::of_halves(&bytes(&words)).unwrap();
        assert_eq!((fast.accesses, fast.clock), (370, Cycles(3 + 370)));
        words[186] = u64::from(EMPTY_HALF | 1 << 31) << 32;
        assert_eq!(Tally::of_halves(&bytes(&words)), None);
        words[186] = u64::from(EMPTY_HALF | 1 << 31);
        assert_eq!(Tally::of_halves(&bytes(&words)), None);
    }
}
