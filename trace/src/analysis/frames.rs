//! Counts the accesses to each page. A map of pages then attributes the pages to processes and
//! mappings ([`Attributor`](crate::page_map::Attributor)).
//!
//! An access counts for the page of its first byte. Memory: 8 to 26 bytes for each page, up to 400
//! for a page without neighbours. [`Analysis::append`] is exact. [`Analysis::merge`] adds the
//! counts, because the pages of several cards of one machine are in one map.

use serde::{Deserialize, Serialize};

use super::page_table::PageTable;
use super::{Analysis, Batch, Detail, PageRun};

/// Counts of accesses by page.
///
/// ```
/// use hmtt::analysis::{Analysis, Batch, frames::Frames};
///
/// let mut frames = Frames::new(12);
/// frames.add(&Batch::new(&[0x1000, 0x1ff8, 0x2000], &[false; 3]));
/// assert_eq!(frames.iter().map(|(_, accesses)| accesses).sum::<u64>(), 3);
/// assert_eq!(frames.result().frames, 2);
/// ```
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Frames {
    page_log2: u32,
    accesses: PageTable<u64>,
}

/// The result: how many pages were accessed, and how often.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct FrameCounts {
    /// Distinct pages.
    pub frames: u64,
    /// Number of accesses.
    pub accesses: u64,
}

impl Frames {
    /// Begins without accesses. Pages have 2^`page_log2` bytes, with `page_log2` from 1 to 63.
    pub fn new(page_log2: u32) -> Self {
        Frames { page_log2: page_log2.clamp(1, 63), accesses: PageTable::default() }
    }

    /// The number of each accessed page, with the count of accesses to this page.
    pub fn iter(&self) -> impl Iterator<Item = (u64, u64)> {
        self.accesses.iter()
    }
}

impl Analysis for Frames {
    type Result = FrameCounts;

    fn add(&mut self, batch: &Batch<'_>) {
        // A deserialised state may have any number.
        let log2 = self.page_log2.clamp(1, 63);
        for address in batch.addresses() {
            let sum = self.accesses.entry(address >> log2);
            *sum = sum.saturating_add(1);
        }
    }

    fn needs(&self) -> Detail {
        Detail::Page
    }

    fn page_run(&mut self, run: &PageRun) {
        let sum = self.accesses.entry(run.address >> self.page_log2.clamp(1, 63));
        *sum = sum.saturating_add(run.accesses());
    }

    fn append(&mut self, later: Self) {
        for (frame, accesses) in later.accesses.iter() {
            let sum = self.accesses.entry(frame);
            *sum = sum.saturating_add(accesses);
        }
    }

    fn merge(&mut self, other: Self) {
        self.append(other);
    }

    fn result(&self) -> FrameCounts {
        let accesses = self.accesses.iter().map(|(_, accesses)| accesses);
        FrameCounts {
            frames: self.accesses.iter().count() as u64,
            accesses: accesses.fold(0, u64::saturating_add),
        }
    }
}
