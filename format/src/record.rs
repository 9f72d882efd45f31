//! Words of a frame to records and back.
//!
//! A 64-bit word is either two 32-bit halves, high half first, or one record of its own:
//!
//! ```text
//! half    31 W | 30..26 delta | 25..0 number          an access: delta 0-30 clocks after the last record
//!         31 0 | 30..26 31    | 25 0 | 24..0 clocks   skip: time passed (0 clocks: an empty half)
//!         31 0 | 30..26 31    | 25 1 | 24..13 segment | 12..0 clocks   segment: high number bits
//! word    63 1 | 62..58 31    | 57..54 kind | 53..0 body
//! ```
//!
//! Numbers count units (bursts, lines or pages, as the frame's sync says) and have
//! [`NUMBER_BITS`] low bits here and [`SEGMENT_BITS`] high bits in the segment.

use crate::fault::FaultKind;
use crate::units::Direction;

/// Low bits of a unit number carried in each record.
pub const NUMBER_BITS: u32 = 26;
/// High bits of a unit number carried in the segment.
pub const SEGMENT_BITS: u32 = 12;
/// Place of the clock delta in a half.
pub const DELTA_AT: u32 = 26;
/// Longest clock delta an access can carry.
pub const MAX_DELTA: u32 = ESCAPE - 1;
/// The delta that marks a half as no access.
pub const ESCAPE: u32 = 31;
/// Place of the write bit in a half.
pub const WRITE_AT: u32 = 31;
/// Longest skip, in clocks.
pub const MAX_SKIP: u32 = (1 << SEGMENT_FLAG_AT) - 1;
/// Place of the bit that tells a segment from a skip.
pub const SEGMENT_FLAG_AT: u32 = 25;
/// Place of the segment in a segment half.
pub const SEGMENT_AT: u32 = 13;
/// Longest skip within a segment half, in clocks.
pub const MAX_SEGMENT_SKIP: u32 = (1 << SEGMENT_AT) - 1;
/// A half that says nothing.
pub const EMPTY_HALF: u32 = ESCAPE << DELTA_AT;

/// High half of a word record without its kind and body.
pub const WORD_ESCAPE: u32 = 1 << WRITE_AT | ESCAPE << DELTA_AT;
/// Place of the kind in the high half of a word record.
pub const KIND_AT: u32 = 22;
/// Place of the 16-bit clock delta in the high half of a Tag, Fault or long Page record.
pub const WORD_DELTA_AT: u32 = 6;
/// Longest clock delta a word record can carry.
pub const MAX_WORD_DELTA: u32 = 0xffff;

/// Kind of a Tag record.
pub const KIND_TAG: u32 = 1;
/// Kind of a Fault record.
pub const KIND_FAULT: u32 = 2;
/// Kind of a short Page record.
pub const KIND_PAGE: u32 = 3;
/// Kind of a long Page record; one more word follows.
pub const KIND_PAGE_LONG: u32 = 4;
/// Kind of a frequency Slice record; one more word follows, two when it is partial.
pub const KIND_SLICE: u32 = 5;

/// Kind of an Interval record: opens a dump of the analysis.
pub const KIND_INTERVAL: u32 = 6;
/// Kind of a Count record of the analysis.
pub const KIND_COUNT: u32 = 7;
/// Kind of a Hot Page record of the analysis; one more word follows.
pub const KIND_HOT_PAGE: u32 = 8;

/// Place in the high half of a Tag of the bit that tells a mark from a tag-window access.
pub const TAG_MARK_AT: u32 = 4;
/// Place in the high half of a Tag of its write bit.
pub const TAG_WRITE_AT: u32 = 3;
/// Place in the low half of a Fault of its bank.
pub const FAULT_BANK_AT: u32 = 26;
/// Longest clock delta of a short Page record.
pub const MAX_PAGE_DELTA: u32 = 0xff;
/// Place of that delta in the high half.
pub const PAGE_DELTA_AT: u32 = 14;
/// Low bits of the page number in the low half of a short Page record; the other 14 are in the high.
pub const PAGE_NUMBER_LOW: u32 = 12;
/// Largest count of reads or of writes in a short Page record.
pub const MAX_PAGE_COUNT: u32 = 31;
/// Place of the reads in the low half of a short Page record.
pub const PAGE_READS_AT: u32 = 15;
/// Place of the writes in the low half of a short Page record.
pub const PAGE_WRITES_AT: u32 = 10;
/// Longest run of a short Page record, in clocks.
pub const MAX_PAGE_DURATION: u32 = 1023;
/// Largest count of reads or of writes a Page record can hold.
pub const MAX_RUN_COUNT: u32 = (1 << 20) - 1;
/// Longest run a Page record can hold, in clocks.
pub const MAX_RUN_DURATION: u32 = (1 << 24) - 1;
/// A run takes no more when its reads or its writes have reached 2 to this.
pub const RUN_COUNT_LOG2: u32 = 11;
/// A run takes no more when, at an event, it has lasted 2 to this many clocks.
pub const RUN_DURATION_LOG2: u32 = 19;
/// Place in the high half of a Slice of its length code.
pub const SLICE_CODE_AT: u32 = 17;
/// Place in the high half of a Slice of the bit that says it is partial: its length follows.
pub const SLICE_PARTIAL_AT: u32 = 16;
/// Place in the high half of an Interval of its part.
pub const INTERVAL_PART_AT: u32 = 16;
/// The part that says a dump holds all parts, because the capture stops or its settings change.
pub const ALL_PARTS: u8 = 63;
/// log2 of the parts of the table of hot pages; each is dumped in its turn.
pub const HOT_PARTS_LOG2: u32 = 4;
/// log2 of the buckets of a part.
pub const HOT_BUCKETS_LOG2: u32 = 4;
/// Place in the high half of a Count or Hot Page of the number of its dump, 8 bits.
pub const DUMP_AT: u32 = 14;
/// Place in the high half of a Count of its group, 4 bits; the index is in bits 9..0.
pub const GROUP_AT: u32 = 10;
/// Bits of a page number in a Hot Page.
pub const PAGE_BITS: u32 = 28;
/// Reuse distances are taken of one page in 2 to this.
pub const REUSE_SAMPLE_LOG2: u32 = 6;
/// log2 of the sampled pages whose order of use is kept.
pub const REUSE_DEPTH_LOG2: u32 = 8;
/// Index of a reuse Count: the page was not among those kept.
pub const REUSE_COLD: u16 = 15;

/// What a Count counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum CountGroup {
    /// Accesses to a row that was open and used before; the index is rank * 16 + bank.
    RowHits = 0,
    /// First accesses to a row, of a bank that was closed.
    RowMisses = 1,
    /// First accesses to a row for which another one was closed.
    RowConflicts = 2,
    /// Runs of a sampled page; the index says how many other sampled pages were used since its last
    /// run: 0: none, k: 2^(k-1) to 2^k - 1, [`REUSE_COLD`]: more than are kept, or none ever.
    Reuse = 3,
    /// The index is an [`other_count`].
    Other = 4,
}

impl CountGroup {
    /// The group of a code.
    pub const fn from_code(code: u32) -> Option<CountGroup> {
        Some(match code {
            0 => CountGroup::RowHits,
            1 => CountGroup::RowMisses,
            2 => CountGroup::RowConflicts,
            3 => CountGroup::Reuse,
            4 => CountGroup::Other,
            _ => return None,
        })
    }

    /// Name in texts.
    pub const fn name(self) -> &'static str {
        match self {
            CountGroup::RowHits => "row_hits",
            CountGroup::RowMisses => "row_misses",
            CountGroup::RowConflicts => "row_conflicts",
            CountGroup::Reuse => "reuse",
            CountGroup::Other => "other",
        }
    }
}

/// Indexes of [`CountGroup::Other`].
pub mod other_count {
    /// Accesses the hot pages did not count.
    pub const ACCESSES_SKIPPED: u16 = 0;
    /// Accesses the row statistics did not count.
    pub const ROWS_SKIPPED: u16 = 1;
    /// Runs of sampled pages the reuse distances did not count.
    pub const RUNS_SKIPPED: u16 = 2;
    /// Records of the dump before this one, which closes it.
    pub const CLOSING: u16 = 15;
}

/// One half of a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Half {
    /// An access to a unit.
    Access {
        /// Read or write.
        direction: Direction,
        /// Clocks since the record before, at most [`MAX_DELTA`].
        delta: u32,
        /// Low bits of the unit's number.
        number: u32,
    },
    /// Clocks that passed, at most [`MAX_SKIP`]; 0 fills an unused half.
    Skip(u32),
    /// High bits of the numbers that follow.
    Segment {
        /// The bits.
        segment: u32,
        /// Clocks that passed as well, at most [`MAX_SEGMENT_SKIP`].
        skip: u32,
    },
}

impl Half {
    /// Packs a half; fields beyond their width are cut.
    pub const fn encode(self) -> u32 {
        match self {
            Half::Access { direction, delta, number } => {
                (direction.bit() as u32) << WRITE_AT
                    | (delta & 31) << DELTA_AT
                    | number & ((1 << NUMBER_BITS) - 1)
            }
            Half::Skip(clocks) => EMPTY_HALF | clocks & MAX_SKIP,
            Half::Segment { segment, skip } => {
                EMPTY_HALF
                    | 1 << SEGMENT_FLAG_AT
                    | (segment & ((1 << SEGMENT_BITS) - 1)) << SEGMENT_AT
                    | skip & MAX_SEGMENT_SKIP
            }
        }
    }

    /// Unpacks a half; `None` when it is the high half of a word record.
    #[inline]
    pub const fn decode(half: u32) -> Option<Half> {
        let write = half >> WRITE_AT != 0;
        let delta = half >> DELTA_AT & 31;
        if delta != ESCAPE {
            let direction = Direction::from_bit(write);
            return Some(Half::Access {
                direction,
                delta,
                number: half & ((1 << NUMBER_BITS) - 1),
            });
        }
        if write {
            return None;
        }
        Some(if half >> SEGMENT_FLAG_AT & 1 == 0 {
            Half::Skip(half & MAX_SKIP)
        } else {
            let segment = half >> SEGMENT_AT & ((1 << SEGMENT_BITS) - 1);
            Half::Segment { segment, skip: half & MAX_SEGMENT_SKIP }
        })
    }
}

/// Where a Tag came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TagSource {
    /// One access to the tag window; the value is its byte offset in the window.
    Window(Direction),
    /// A completed command sequence; the value is the register.
    Mark,
}

/// A run of accesses to one page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PageRun {
    /// Low bits of the page number.
    pub number: u32,
    /// READs in the run, up to [`MAX_RUN_COUNT`].
    pub reads: u32,
    /// WRITEs in the run, up to [`MAX_RUN_COUNT`].
    pub writes: u32,
    /// Clocks from the first access to the last, up to [`MAX_RUN_DURATION`].
    pub duration: u32,
}

impl PageRun {
    /// Whether the one-word form holds this run.
    pub const fn is_short(&self) -> bool {
        self.reads <= MAX_PAGE_COUNT
            && self.writes <= MAX_PAGE_COUNT
            && self.duration <= MAX_PAGE_DURATION
    }
}

/// A record that takes whole words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WordRecord {
    /// An event software put into the trace.
    Tag {
        /// Clocks since the record before.
        delta: u32,
        /// Window access or mark.
        source: TagSource,
        /// Window offset or register.
        value: u32,
    },
    /// A refused command.
    Fault {
        /// Clocks since the record before.
        delta: u32,
        /// Why.
        kind: FaultKind,
        /// Rank * 16 + bank.
        bank: u8,
    },
    /// A finished run of accesses to a page.
    Page {
        /// Clocks from the record before to the run's first access.
        delta: u32,
        /// The run.
        run: PageRun,
    },
    /// A finished time slice.
    Slice {
        /// Length, see [`crate::config::slice_micros`].
        code: u8,
        /// Length in clocks when the slice is shorter than its code says: the capture started or
        /// stopped within it, or its length was changed.
        partial: Option<u32>,
        /// First clock of the slice.
        start: u64,
        /// READs in it.
        reads: u32,
        /// WRITEs in it.
        writes: u32,
    },
    /// A dump of the analysis begins.
    Interval {
        /// Part of the table of hot pages that follows, or [`ALL_PARTS`].
        part: u8,
        /// The clock up to which the counts go.
        clock: u64,
    },
    /// A count of the analysis.
    Count {
        /// Number of the dump.
        dump: u8,
        /// What is counted.
        group: CountGroup,
        /// Which of them.
        index: u16,
        /// How many.
        value: u32,
    },
    /// An entry of the table of hot pages.
    HotPage {
        /// Number of the dump.
        dump: u8,
        /// Page number, [`PAGE_BITS`].
        page: u32,
        /// Its accesses, at least.
        count: u32,
        /// Accesses to it and to all pages that share its entry.
        votes: u32,
    },
}

/// Low 48 bits: a clock as frames carry it.
pub const CLOCK_MASK: u64 = (1 << 48) - 1;

const fn high(kind: u32, rest: u32) -> u64 {
    ((WORD_ESCAPE | kind << KIND_AT | rest) as u64) << 32
}

impl WordRecord {
    /// Packs the record into its first and, for longer records, further words.
    pub fn encode(self) -> (u64, [Option<u64>; 2]) {
        match self {
            WordRecord::Tag { delta, source, value } => {
                let source = match source {
                    TagSource::Mark => 1 << TAG_MARK_AT,
                    TagSource::Window(direction) => (direction.bit() as u32) << TAG_WRITE_AT,
                };
                (
                    high(KIND_TAG, (delta & MAX_WORD_DELTA) << WORD_DELTA_AT | source)
                        | u64::from(value),
                    [None; 2],
                )
            }
            WordRecord::Fault { delta, kind, bank } => {
                let rest = (delta & MAX_WORD_DELTA) << WORD_DELTA_AT | u32::from(kind.code());
                (high(KIND_FAULT, rest) | u64::from(u32::from(bank) << FAULT_BANK_AT), [None; 2])
            }
            WordRecord::Page { delta, run } if run.is_short() && delta <= MAX_PAGE_DELTA => {
                let rest = delta << PAGE_DELTA_AT | run.number >> PAGE_NUMBER_LOW;
                let low = run.number << 20
                    | run.reads << PAGE_READS_AT
                    | run.writes << PAGE_WRITES_AT
                    | run.duration;
                (high(KIND_PAGE, rest) | u64::from(low), [None; 2])
            }
            WordRecord::Page { delta, run } => {
                let rest = (delta & MAX_WORD_DELTA) << WORD_DELTA_AT | run.number >> 20;
                let low = run.number << 12;
                let second = u64::from(run.reads) << 44
                    | u64::from(run.writes) << 24
                    | u64::from(run.duration);
                (high(KIND_PAGE_LONG, rest) | u64::from(low), [Some(second), None])
            }
            WordRecord::Slice { code, partial, start, reads, writes } => {
                let rest = u32::from(code) << SLICE_CODE_AT
                    | u32::from(partial.is_some()) << SLICE_PARTIAL_AT;
                let first = high(KIND_SLICE, rest) | start & CLOCK_MASK;
                let counts = u64::from(reads) << 32 | u64::from(writes);
                (first, [Some(counts), partial.map(u64::from)])
            }
            WordRecord::Interval { part, clock } => {
                let rest = u32::from(part & 63) << INTERVAL_PART_AT;
                (high(KIND_INTERVAL, rest) | clock & CLOCK_MASK, [None; 2])
            }
            WordRecord::Count { dump, group, index, value } => {
                let rest = u32::from(dump) << DUMP_AT
                    | (group as u32) << GROUP_AT
                    | u32::from(index) & ((1 << GROUP_AT) - 1);
                (high(KIND_COUNT, rest) | u64::from(value), [None; 2])
            }
            WordRecord::HotPage { dump, page, count, votes } => {
                let first = high(KIND_HOT_PAGE, u32::from(dump) << DUMP_AT)
                    | u64::from(page & ((1 << PAGE_BITS) - 1));
                (first, [Some(u64::from(count) << 32 | u64::from(votes)), None])
            }
        }
    }
}

/// A word, read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Word {
    /// Two halves, in time order.
    Halves(Half, Half),
    /// A record of its own. Records that need another word were given it.
    Record(WordRecord),
}

/// Why a word could not be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WordError {
    /// A word record's kind this version does not know, or a word record in a low half.
    UnknownKind(u8),
    /// A fault kind this version does not know.
    UnknownFault(u8),
    /// A group of counts this version does not know.
    UnknownGroup(u8),
    /// The frame ended before the record's last word.
    WordMissing,
}

impl core::fmt::Display for WordError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            WordError::UnknownKind(kind) => write!(f, "unknown record kind {kind}"),
            WordError::UnknownFault(kind) => write!(f, "unknown fault kind {kind}"),
            WordError::UnknownGroup(group) => write!(f, "unknown group of counts {group}"),
            WordError::WordMissing => f.write_str("the last word of a record is missing"),
        }
    }
}

impl core::error::Error for WordError {}

impl Word {
    /// Reads one word; `next` fetches further ones for records that take more.
    #[inline]
    pub fn decode(word: u64, mut next: impl FnMut() -> Option<u64>) -> Result<Word, WordError> {
        let (first, low) = ((word >> 32) as u32, word as u32);
        if let Some(half) = Half::decode(first) {
            let low =
                Half::decode(low).ok_or(WordError::UnknownKind((low >> KIND_AT & 15) as u8))?;
            return Ok(Word::Halves(half, low));
        }
        let delta = first >> WORD_DELTA_AT & MAX_WORD_DELTA;
        let record = match first >> KIND_AT & 15 {
            KIND_TAG => {
                let source = if first >> TAG_MARK_AT & 1 != 0 {
                    TagSource::Mark
                } else {
                    TagSource::Window(Direction::from_bit(first >> TAG_WRITE_AT & 1 != 0))
                };
                WordRecord::Tag { delta, source, value: low }
            }
            KIND_FAULT => {
                let code = (first & 63) as u8;
                let kind = FaultKind::from_code(code).ok_or(WordError::UnknownFault(code))?;
                WordRecord::Fault { delta, kind, bank: (low >> FAULT_BANK_AT) as u8 }
            }
            KIND_PAGE => WordRecord::Page {
                delta: first >> PAGE_DELTA_AT & MAX_PAGE_DELTA,
                run: PageRun {
                    number: (first & 0x3fff) << PAGE_NUMBER_LOW | low >> 20,
                    reads: low >> PAGE_READS_AT & MAX_PAGE_COUNT,
                    writes: low >> PAGE_WRITES_AT & MAX_PAGE_COUNT,
                    duration: low & MAX_PAGE_DURATION,
                },
            },
            KIND_PAGE_LONG => {
                let second = next().ok_or(WordError::WordMissing)?;
                let run = PageRun {
                    number: (first & 63) << 20 | low >> 12,
                    reads: (second >> 44) as u32,
                    writes: (second >> 24) as u32 & MAX_RUN_COUNT,
                    duration: second as u32 & MAX_RUN_DURATION,
                };
                WordRecord::Page { delta, run }
            }
            KIND_SLICE => {
                let second = next().ok_or(WordError::WordMissing)?;
                WordRecord::Slice {
                    code: (first >> SLICE_CODE_AT & 31) as u8,
                    partial: match first >> SLICE_PARTIAL_AT & 1 {
                        0 => None,
                        _ => Some(next().ok_or(WordError::WordMissing)? as u32),
                    },
                    start: word & CLOCK_MASK,
                    reads: (second >> 32) as u32,
                    writes: second as u32,
                }
            }
            KIND_INTERVAL => WordRecord::Interval {
                part: (first >> INTERVAL_PART_AT & 63) as u8,
                clock: word & CLOCK_MASK,
            },
            KIND_COUNT => {
                let code = first >> GROUP_AT & 15;
                WordRecord::Count {
                    dump: (first >> DUMP_AT) as u8,
                    group: CountGroup::from_code(code)
                        .ok_or(WordError::UnknownGroup(code as u8))?,
                    index: (first & ((1 << GROUP_AT) - 1)) as u16,
                    value: low,
                }
            }
            KIND_HOT_PAGE => {
                let second = next().ok_or(WordError::WordMissing)?;
                WordRecord::HotPage {
                    dump: (first >> DUMP_AT) as u8,
                    page: low & ((1 << PAGE_BITS) - 1),
                    count: (second >> 32) as u32,
                    votes: second as u32,
                }
            }
            kind => return Err(WordError::UnknownKind(kind as u8)),
        };
        Ok(Word::Record(record))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn direction() -> impl Strategy<Value = Direction> {
        any::<bool>().prop_map(Direction::from_bit)
    }

    fn half() -> impl Strategy<Value = Half> {
        prop_oneof![
            (direction(), 0..=MAX_DELTA, 0u32..1 << NUMBER_BITS)
                .prop_map(|(direction, delta, number)| Half::Access { direction, delta, number }),
            (0..=MAX_SKIP).prop_map(Half::Skip),
            (0u32..1 << SEGMENT_BITS, 0..=MAX_SEGMENT_SKIP)
                .prop_map(|(segment, skip)| Half::Segment { segment, skip }),
        ]
    }

    fn record() -> impl Strategy<Value = WordRecord> {
        let source = prop_oneof![direction().prop_map(TagSource::Window), Just(TagSource::Mark)];
        let run = (
            0u32..1 << NUMBER_BITS,
            prop_oneof![0..=MAX_PAGE_COUNT, 0..=MAX_RUN_COUNT],
            prop_oneof![0..=MAX_PAGE_COUNT, 0..=MAX_RUN_COUNT],
            prop_oneof![0..=MAX_PAGE_DURATION, 0..=MAX_RUN_DURATION],
        )
            .prop_map(|(number, reads, writes, duration)| PageRun {
                number,
                reads,
                writes,
                duration,
            });
        let delta = prop_oneof![0..=MAX_PAGE_DELTA, 0..=MAX_WORD_DELTA];
        prop_oneof![
            (delta.clone(), source, any::<u32>())
                .prop_map(|(delta, source, value)| WordRecord::Tag { delta, source, value }),
            (delta.clone(), 0..FaultKind::ALL.len(), 0u8..64).prop_map(|(delta, kind, bank)| {
                WordRecord::Fault { delta, kind: FaultKind::ALL[kind], bank }
            }),
            (delta, run).prop_map(|(delta, run)| WordRecord::Page { delta, run }),
            (0u8..32, any::<Option<u32>>(), 0..=CLOCK_MASK, any::<u32>(), any::<u32>()).prop_map(
                |(code, partial, start, reads, writes)| WordRecord::Slice {
                    code,
                    partial,
                    start,
                    reads,
                    writes
                }
            ),
            (0u8..64, 0..=CLOCK_MASK)
                .prop_map(|(part, clock)| WordRecord::Interval { part, clock }),
            (any::<u8>(), 0u32..5, 0u16..1024, any::<u32>()).prop_map(
                |(dump, group, index, value)| WordRecord::Count {
                    dump,
                    group: CountGroup::from_code(group).unwrap(),
                    index,
                    value
                }
            ),
            (any::<u8>(), 0u32..1 << PAGE_BITS, any::<u32>(), any::<u32>()).prop_map(
                |(dump, page, count, votes)| WordRecord::HotPage { dump, page, count, votes }
            ),
        ]
    }

    proptest! {
        #[test]
        fn halves_come_back(first in half(), second in half()) {
            let word = u64::from(first.encode()) << 32 | u64::from(second.encode());
            prop_assert_eq!(Word::decode(word, || None), Ok(Word::Halves(first, second)));
        }

        #[test]
        fn word_records_come_back(record in record()) {
            let (first, rest) = record.encode();
            let mut rest = rest.into_iter().flatten();
            prop_assert_eq!(Word::decode(first, || rest.next()), Ok(Word::Record(record)));
            prop_assert_eq!(rest.next(), None);
        }

        #[test]
        fn any_word_reads_or_says_why(word: u64, next: Option<u64>) {
            let _ = Word::decode(word, || next);
        }
    }

    #[test]
    fn a_lone_first_word_is_an_error() {
        let run = PageRun { number: 1, reads: 40, writes: 0, duration: 9 };
        let (first, _) = WordRecord::Page { delta: 0, run }.encode();
        assert_eq!(Word::decode(first, || None), Err(WordError::WordMissing));
    }
}
