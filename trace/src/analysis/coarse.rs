//! Defines accesses whose addresses a card does not record one by one: runs of page mode, and
//! slices of frequency mode.
//!
//! A card in page mode records how many consecutive accesses are to one page ([`PageRun`]). A card
//! in frequency mode records how many accesses a slice of time has ([`FrequencySlice`]). Both count
//! bursts, and not lines. [`Detail`] states what an analysis needs. Accesses that an analysis
//! cannot use are a gap in the analysis, and [`CoarseAccesses`] counts them for the source.

use serde::{Deserialize, Serialize};

use super::Gap;

/// How much is known of an access, or how much an analysis needs to know. A greater value includes
/// the lesser ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Detail {
    /// The time of the access, to the length of a slice: frequency mode.
    Time,
    /// Also the page of the access: page mode.
    Page,
    /// Also the address of the access: line mode, programs.
    Address,
}

/// Consecutive accesses of a card to one page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PageRun {
    /// Clock of the first access.
    pub clock: u64,
    /// Clocks from the first access to the last one.
    pub duration_clocks: u64,
    /// Address of the first byte of the page.
    pub address: u64,
    /// Accesses that read.
    pub reads: u64,
    /// Accesses that write.
    pub writes: u64,
    /// Bytes of each access, if they are known.
    pub burst_bytes: Option<u32>,
}

/// Accesses of a card in a slice of time. No other record states these accesses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FrequencySlice {
    /// First clock of the slice.
    pub clock: u64,
    /// Length in clocks, if it is known.
    pub length_clocks: Option<u64>,
    /// Whether the length differs from the length that is set on the card.
    pub is_partial: bool,
    /// Accesses that read.
    pub reads: u64,
    /// Accesses that write.
    pub writes: u64,
    /// Bytes of each access, if they are known.
    pub burst_bytes: Option<u32>,
}

/// Bytes of accesses, and the number of accesses whose size is not known.
fn bytes_of(accesses: u64, burst_bytes: Option<u32>) -> (u64, u64) {
    match burst_bytes {
        Some(bytes) => (accesses.saturating_mul(bytes.into()), 0),
        None => (0, accesses),
    }
}

impl PageRun {
    /// Number of accesses.
    pub fn accesses(&self) -> u64 {
        self.reads.saturating_add(self.writes)
    }

    /// Bytes of the accesses, and the number of accesses whose size is not known.
    pub fn bytes(&self) -> (u64, u64) {
        bytes_of(self.accesses(), self.burst_bytes)
    }

    /// Clock of the last access.
    pub fn last_clock(&self) -> u64 {
        self.clock.saturating_add(self.duration_clocks)
    }

    /// The run as a gap, for an analysis that needs addresses.
    pub fn as_gap(&self) -> Gap {
        Gap {
            lost_accesses: Some(self.accesses()),
            after_clock: Some(self.clock),
            before_clock: Some(self.last_clock()),
        }
    }
}

impl FrequencySlice {
    /// Number of accesses.
    pub fn accesses(&self) -> u64 {
        self.reads.saturating_add(self.writes)
    }

    /// Bytes of the accesses, and the number of accesses whose size is not known.
    pub fn bytes(&self) -> (u64, u64) {
        bytes_of(self.accesses(), self.burst_bytes)
    }

    /// Last clock of the slice; the first clock if the length is not known.
    pub fn last_clock(&self) -> u64 {
        self.clock.saturating_add(self.length_clocks.unwrap_or(1).max(1) - 1)
    }

    /// The slice as a gap, for an analysis that needs pages.
    pub fn as_gap(&self) -> Gap {
        Gap {
            lost_accesses: Some(self.accesses()),
            after_clock: Some(self.clock),
            before_clock: Some(self.last_clock()),
        }
    }
}

/// Numbers of accesses whose addresses a source does not state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CoarseAccesses {
    /// Accesses in page runs.
    pub page_run_accesses: u64,
    /// Accesses in slices of frequency mode.
    pub frequency_accesses: u64,
    /// Accesses that the source has only as sums, and does not pass on. A table has these sums in
    /// rows of slices, and other rows of the table may state the same accesses.
    pub unread_accesses: u64,
}

impl CoarseAccesses {
    /// Counts a run.
    pub fn add_run(&mut self, run: &PageRun) {
        self.page_run_accesses = self.page_run_accesses.saturating_add(run.accesses());
    }

    /// Counts a slice.
    pub fn add_slice(&mut self, slice: &FrequencySlice) {
        self.frequency_accesses = self.frequency_accesses.saturating_add(slice.accesses());
    }

    /// Adds the accesses of another part of the source.
    pub fn add(&mut self, other: CoarseAccesses) {
        let CoarseAccesses { page_run_accesses, frequency_accesses, unread_accesses } = other;
        self.page_run_accesses = self.page_run_accesses.saturating_add(page_run_accesses);
        self.frequency_accesses = self.frequency_accesses.saturating_add(frequency_accesses);
        self.unread_accesses = self.unread_accesses.saturating_add(unread_accesses);
    }

    /// Accesses that the source passes on but an analysis cannot use. `needed`: the detail that the
    /// analysis needs.
    pub fn unusable(&self, needed: Detail) -> u64 {
        match needed {
            Detail::Time => 0,
            Detail::Page => self.frequency_accesses,
            Detail::Address => self.page_run_accesses.saturating_add(self.frequency_accesses),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn details_include_lesser_ones() {
        let coarse =
            CoarseAccesses { page_run_accesses: 5, frequency_accesses: 7, unread_accesses: 0 };
        assert_eq!(coarse.unusable(Detail::Time), 0);
        assert_eq!(coarse.unusable(Detail::Page), 7);
        assert_eq!(coarse.unusable(Detail::Address), 12);
        assert!(Detail::Time < Detail::Page && Detail::Page < Detail::Address);
    }

    #[test]
    fn forged_numbers_saturate() {
        let run =
            PageRun { reads: u64::MAX, writes: 1, burst_bytes: Some(64), ..PageRun::default() };
        assert_eq!((run.accesses(), run.bytes()), (u64::MAX, (u64::MAX, 0)));
        let slice = FrequencySlice {
            clock: u64::MAX,
            length_clocks: Some(0),
            writes: 3,
            ..FrequencySlice::default()
        };
        assert_eq!((slice.last_clock(), slice.bytes()), (u64::MAX, (0, 3)));
    }
}
