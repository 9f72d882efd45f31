//! Records of the card's analysis: the interval that opens a dump, counts, hot pages.
//!
//! None of them moves the clock of a frame or counts as an access.

use super::{CLOCK_MASK, head};

/// Kind of an Interval record: opens a dump of the analysis.
pub const KIND_INTERVAL: u32 = 6;
/// Kind of a Count record of the analysis.
pub const KIND_COUNT: u32 = 7;
/// Kind of a Hot Page record of the analysis; one more word follows.
pub const KIND_HOT_PAGE: u32 = 8;

/// Place in the high half of an Interval of its part.
pub const INTERVAL_PART_AT: u32 = 16;
/// The part that says a dump holds all parts, because the capture stops or the analysis is turned off.
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
    /// First accesses after an ACTIVATE that are no [`CountGroup::RowConflicts`].
    RowMisses = 1,
    /// First accesses after an ACTIVATE, of a bank that a PRECHARGE of just this bank had closed, whichever
    /// row it had open, and that no PRECHARGE ALL, REFRESH or self-refresh entry has met since.
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

/// Packs an interval.
pub(super) fn interval(part: u8, clock: u64) -> u64 {
    head(KIND_INTERVAL, u32::from(part & 63) << INTERVAL_PART_AT) | clock & CLOCK_MASK
}

/// Packs a count.
pub(super) fn count(dump: u8, group: CountGroup, index: u16, value: u32) -> u64 {
    let rest = u32::from(dump) << DUMP_AT
        | (group as u32) << GROUP_AT
        | u32::from(index) & ((1 << GROUP_AT) - 1);
    head(KIND_COUNT, rest) | u64::from(value)
}

/// Packs a hot page.
pub(super) fn hot_page(dump: u8, page: u32, count: u32, votes: u32) -> [u64; 2] {
    let first = head(KIND_HOT_PAGE, u32::from(dump) << DUMP_AT);
    let page = u64::from(page & ((1 << PAGE_BITS) - 1));
    [first | page, u64::from(count) << 32 | u64::from(votes)]
}
