//! Encodes and decodes records of whole words: tags, faults, page runs, slices, and the records of
//! the card's analysis.

use super::analysis::{
    CountGroup, DUMP_AT, GROUP_AT, INTERVAL_PART_AT, KIND_COUNT, KIND_HOT_PAGE, KIND_INTERVAL,
    PAGE_BITS,
};
use super::half::{DELTA_AT, ESCAPE, WRITE_AT};
use super::{CLOCK_MASK, WordError, analysis, head};
use crate::fault::FaultKind;
use crate::units::Direction;

/// High half of a record of whole words, without its kind and content.
pub const WORD_ESCAPE: u32 = 1 << WRITE_AT | ESCAPE << DELTA_AT;
/// Place of the kind in the high half of a word record.
pub const KIND_AT: u32 = 22;
/// Place of the 16-bit clock delta in the high half of a Tag, Fault or long Page record.
pub const WORD_DELTA_AT: u32 = 6;
/// Longest clock delta of a record of whole words.
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

/// Place in the high half of a Tag of the bit that is 1 for a mark, and 0 for an access to the tag
/// window.
pub const TAG_MARK_AT: u32 = 4;
/// Place of the write bit in the high half of a Tag.
pub const TAG_WRITE_AT: u32 = 3;
/// Place of the bank in the low half of a Fault.
pub const FAULT_BANK_AT: u32 = 26;
/// Longest clock delta of a short Page record.
pub const MAX_PAGE_DELTA: u32 = 0xff;
/// Place of the clock delta in the high half of a short Page record.
pub const PAGE_DELTA_AT: u32 = 14;
/// Number of low bits of the page's number in the low half of a short Page record; its 14 high bits
/// are in the high half.
pub const PAGE_NUMBER_LOW: u32 = 12;
/// Largest count of reads or of writes in a short Page record.
pub const MAX_PAGE_COUNT: u32 = 31;
/// Place of the reads in the low half of a short Page record.
pub const PAGE_READS_AT: u32 = 15;
/// Place of the writes in the low half of a short Page record.
pub const PAGE_WRITES_AT: u32 = 10;
/// Longest run of a short Page record, in clocks.
pub const MAX_PAGE_DURATION: u32 = 1023;
/// Largest count of reads or of writes in a Page record.
pub const MAX_RUN_COUNT: u32 = (1 << 20) - 1;
/// Longest run of a Page record, in clocks.
pub const MAX_RUN_DURATION: u32 = (1 << 24) - 1;
/// log2 of the number of reads or of writes at which a run ends.
pub const RUN_COUNT_LOG2: u32 = 11;
/// log2 of the number of clocks after which a run ends at the next event.
pub const RUN_DURATION_LOG2: u32 = 19;
/// Place of the length code in the high half of a Slice.
pub const SLICE_CODE_AT: u32 = 17;
/// Place in the high half of a Slice of the bit that is 1 if the slice is partial. The length of
/// the slice follows then.
pub const SLICE_PARTIAL_AT: u32 = 16;

/// The source of a Tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TagSource {
    /// An access to the tag window; the value is its offset in the window, in bytes.
    Window(Direction),
    /// A mark, that is, a completed command to a mark's register; the value is the register.
    Mark,
}

/// A run of accesses to one page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PageRun {
    /// Low bits of the page's number.
    pub number: u32,
    /// Number of READs in the run, up to [`MAX_RUN_COUNT`].
    pub reads: u32,
    /// Number of WRITEs in the run, up to [`MAX_RUN_COUNT`].
    pub writes: u32,
    /// Clocks from the first access to the last, up to [`MAX_RUN_DURATION`].
    pub duration: u32,
}

impl PageRun {
    /// Whether the run fits in a short Page record.
    pub const fn is_short(&self) -> bool {
        self.reads <= MAX_PAGE_COUNT
            && self.writes <= MAX_PAGE_COUNT
            && self.duration <= MAX_PAGE_DURATION
    }
}

/// A record of whole words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WordRecord {
    /// An event that software put into the trace.
    Tag {
        /// Clocks since the previous record.
        delta: u32,
        /// The tag window, or a mark.
        source: TagSource,
        /// Offset in the tag window in bytes, or number of the mark's register.
        value: u32,
    },
    /// A command that violates a rule of the protocol.
    Fault {
        /// Clocks since the previous record.
        delta: u32,
        /// The violated rule.
        kind: FaultKind,
        /// Rank * 16 + bank.
        bank: u8,
    },
    /// A completed run of accesses to a page.
    Page {
        /// Clocks from the previous record to the run's first access.
        delta: u32,
        /// Counts and duration of the run.
        run: PageRun,
    },
    /// A completed time slice.
    Slice {
        /// Code of the length, see [`crate::config::slice_micros`].
        code: u8,
        /// Length in clocks, if it differs from the code's length. It is shorter if the capture
        /// started or stopped during the slice or a setting ended it. It is longer if the slice is
        /// the first one after its code was set, or the event queue was full at its end.
        partial: Option<u32>,
        /// First clock of the slice.
        start: u64,
        /// Number of READs.
        reads: u32,
        /// Number of WRITEs.
        writes: u32,
    },
    /// The start of a dump of the analysis.
    Interval {
        /// Part of the table of hot pages that follows, or [`ALL_PARTS`](super::ALL_PARTS).
        part: u8,
        /// Clock at which the dump began.
        clock: u64,
    },
    /// A count of the analysis.
    Count {
        /// Number of the dump.
        dump: u8,
        /// Group of the counter.
        group: CountGroup,
        /// Index of the counter in its group.
        index: u16,
        /// Value of the counter.
        value: u32,
    },
    /// An entry of the table of hot pages.
    HotPage {
        /// Number of the dump.
        dump: u8,
        /// Number of the page; [`PAGE_BITS`] bits.
        page: u32,
        /// Lower bound of the accesses to the page.
        count: u32,
        /// Accesses to the page and to all pages that share its table entry.
        votes: u32,
    },
}

impl WordRecord {
    /// Packs the record: returns its first word and the further words of longer records.
    pub fn encode(self) -> (u64, [Option<u64>; 2]) {
        match self {
            WordRecord::Tag { delta, source, value } => {
                let source = match source {
                    TagSource::Mark => 1 << TAG_MARK_AT,
                    TagSource::Window(direction) => (direction.bit() as u32) << TAG_WRITE_AT,
                };
                (
                    head(KIND_TAG, (delta & MAX_WORD_DELTA) << WORD_DELTA_AT | source)
                        | u64::from(value),
                    [None; 2],
                )
            }
            WordRecord::Fault { delta, kind, bank } => {
                let rest = (delta & MAX_WORD_DELTA) << WORD_DELTA_AT | u32::from(kind.code());
                (head(KIND_FAULT, rest) | u64::from(u32::from(bank) << FAULT_BANK_AT), [None; 2])
            }
            WordRecord::Page { delta, run } if run.is_short() && delta <= MAX_PAGE_DELTA => {
                let rest = delta << PAGE_DELTA_AT | run.number >> PAGE_NUMBER_LOW;
                let low = run.number << 20
                    | run.reads << PAGE_READS_AT
                    | run.writes << PAGE_WRITES_AT
                    | run.duration;
                (head(KIND_PAGE, rest) | u64::from(low), [None; 2])
            }
            WordRecord::Page { delta, run } => {
                let rest = (delta & MAX_WORD_DELTA) << WORD_DELTA_AT | run.number >> 20;
                let low = run.number << 12;
                let second = u64::from(run.reads) << 44
                    | u64::from(run.writes) << 24
                    | u64::from(run.duration);
                (head(KIND_PAGE_LONG, rest) | u64::from(low), [Some(second), None])
            }
            WordRecord::Slice { code, partial, start, reads, writes } => {
                let rest = u32::from(code) << SLICE_CODE_AT
                    | u32::from(partial.is_some()) << SLICE_PARTIAL_AT;
                let first = head(KIND_SLICE, rest) | start & CLOCK_MASK;
                let counts = u64::from(reads) << 32 | u64::from(writes);
                (first, [Some(counts), partial.map(u64::from)])
            }
            WordRecord::Interval { part, clock } => (analysis::interval(part, clock), [None; 2]),
            WordRecord::Count { dump, group, index, value } => {
                (analysis::count(dump, group, index, value), [None; 2])
            }
            WordRecord::HotPage { dump, page, count, votes } => {
                let [first, second] = analysis::hot_page(dump, page, count, votes);
                (first, [Some(second), None])
            }
        }
    }

    /// Decodes a record from its first word. `next` returns the next word.
    #[inline]
    pub(super) fn decode(
        word: u64,
        mut next: impl FnMut() -> Option<u64>,
    ) -> Result<WordRecord, WordError> {
        let (first, low) = ((word >> 32) as u32, word as u32);
        let delta = first >> WORD_DELTA_AT & MAX_WORD_DELTA;
        Ok(match first >> KIND_AT & 15 {
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
            _ => decode_analysis(word, next)?,
        })
    }
}

/// Decodes a record of the analysis.
#[inline]
fn decode_analysis(
    word: u64,
    mut next: impl FnMut() -> Option<u64>,
) -> Result<WordRecord, WordError> {
    let (first, low) = ((word >> 32) as u32, word as u32);
    Ok(match first >> KIND_AT & 15 {
        KIND_INTERVAL => WordRecord::Interval {
            part: (first >> INTERVAL_PART_AT & 63) as u8,
            clock: word & CLOCK_MASK,
        },
        KIND_COUNT => {
            let code = first >> GROUP_AT & 15;
            WordRecord::Count {
                dump: (first >> DUMP_AT) as u8,
                group: CountGroup::from_code(code).ok_or(WordError::UnknownGroup(code as u8))?,
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
    })
}
