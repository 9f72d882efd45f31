//! Defines the records of the card's analysis: intervals, which begin a dump, counts and hot pages.
//!
//! These records do not advance the clock of a frame, and do not count as accesses.

use super::{CLOCK_MASK, head};

/// Kind of an Interval record, which begins a dump of the analysis.
pub const KIND_INTERVAL: u32 = 6;
/// Kind of a Count record of the analysis.
pub const KIND_COUNT: u32 = 7;
/// Kind of a Hot Page record of the analysis; one more word follows.
pub const KIND_HOT_PAGE: u32 = 8;

/// Place of the part in the high half of an Interval.
pub const INTERVAL_PART_AT: u32 = 16;
/// Value of the part in an Interval that begins a dump of all parts. All parts are dumped at the
/// end of a capture and when the analysis is turned off.
pub const ALL_PARTS: u8 = 63;
/// log2 of the number of parts of the table of hot pages. The parts are dumped in turn.
pub const HOT_PARTS_LOG2: u32 = 4;
/// log2 of the number of buckets in a part.
pub const HOT_BUCKETS_LOG2: u32 = 4;
/// Place of the number of the dump in the high half of a Count or Hot Page, 8 bits.
pub const DUMP_AT: u32 = 14;
/// Place of the group in the high half of a Count, 4 bits; the index is in bits 9..0.
pub const GROUP_AT: u32 = 10;
/// Width of a page's number in a Hot Page, in bits.
pub const PAGE_BITS: u32 = 28;
/// log2 of the sampling rate for reuse distances: one of 2^6 pages is sampled.
pub const REUSE_SAMPLE_LOG2: u32 = 6;
/// log2 of the number of sampled pages whose order of use is stored.
pub const REUSE_DEPTH_LOG2: u32 = 8;
/// Index of a reuse Count for pages that were not stored.
pub const REUSE_COLD: u16 = 15;

/// A group of counters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum CountGroup {
    /// Accesses to a row that was accessed before since its ACTIVATE; the index is rank * 16 +
    /// bank.
    RowHits = 0,
    /// First accesses after an ACTIVATE, except [`CountGroup::RowConflicts`].
    RowMisses = 1,
    /// First accesses after an ACTIVATE, if a PRECHARGE of this bank only had closed the bank,
    /// whichever row was open. Between this PRECHARGE and the ACTIVATE there was no PRECHARGE ALL,
    /// REFRESH or self-refresh entry.
    RowConflicts = 2,
    /// Runs of a sampled page. The index states how many other sampled pages were used since the
    /// page's previous run: 0 means none, k means 2^(k-1) to 2^k - 1. [`REUSE_COLD`] means more
    /// pages than are stored, or the first use.
    Reuse = 3,
    /// Other counters; the index is an [`other_count`].
    Other = 4,
}

impl CountGroup {
    /// All groups, in the order of their codes.
    pub const ALL: [CountGroup; 5] = [
        CountGroup::RowHits,
        CountGroup::RowMisses,
        CountGroup::RowConflicts,
        CountGroup::Reuse,
        CountGroup::Other,
    ];

    /// The group with this code.
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

    /// The group with this name.
    pub fn from_name(name: &str) -> Option<CountGroup> {
        Self::ALL.into_iter().find(|group| group.name() == name)
    }

    /// Name of the group in text and tables.
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

/// Indices of [`CountGroup::Other`].
pub mod other_count {
    /// Accesses that the table of hot pages did not count.
    pub const ACCESSES_SKIPPED: u16 = 0;
    /// Accesses that the row statistics did not count.
    pub const ROWS_SKIPPED: u16 = 1;
    /// Runs of sampled pages that the reuse distances did not count.
    pub const RUNS_SKIPPED: u16 = 2;
    /// Number of records of the dump before this record, which is the last one.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_found_by_code_and_by_name() {
        for (code, group) in (0..).zip(CountGroup::ALL) {
            assert_eq!(CountGroup::from_code(code), Some(group));
            assert_eq!((group as u32, CountGroup::from_name(group.name())), (code, Some(group)));
        }
        assert_eq!(CountGroup::from_code(CountGroup::ALL.len() as u32), None);
    }
}
