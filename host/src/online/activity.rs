//! Holds the results of the online statistics, for one time slice and in total.

use hmtt_format::PhysAddr;
use serde::{Serialize, Serializer};

/// Counts of the analysed accesses in a period of time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct AccessCounts {
    /// Data frames that were analysed.
    pub frames: u64,
    /// Accesses in these frames.
    pub accesses: u64,
    /// READs among the accesses.
    pub reads: u64,
    /// WRITEs among the accesses.
    pub writes: u64,
    /// Bytes of the lines and bursts that were accessed. Each access of a page run, a slice or the
    /// tag window counts as one burst, once a report has stated the burst length.
    pub bytes: u64,
    /// Number of distinct pages of 4 KiB that were accessed.
    pub pages: u64,
    /// Accesses whose page is not known: accesses in frequency slices, and accesses to a tag window
    /// whose base is not known.
    pub pageless: u64,
    /// Accesses to pages beyond the first [`super::MAX_TRACKED_PAGES`] of their interface, which
    /// are not counted by page.
    pub untracked: u64,
    /// Row hits; `None` until a report has stated the address map.
    pub rows: Option<RowUse>,
}

/// How often an access went to the row that was accessed last in its bank.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct RowUse {
    /// Accesses whose row is known.
    pub accesses: u64,
    /// Accesses to the row that was accessed last in their bank.
    pub row_hits: u64,
}

/// A page and its number of accesses in the time slice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct HotPage {
    /// Index of the interface.
    #[serde(rename = "interface_index")]
    pub link: usize,
    /// Address of the page's first byte; hexadecimal when serialised.
    #[serde(serialize_with = "hexadecimal")]
    pub address: PhysAddr,
    /// Reads and writes.
    pub accesses: u64,
}

/// Accesses and row hits of a bank.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct BankUse {
    /// Index of the interface.
    #[serde(rename = "interface_index")]
    pub link: usize,
    /// Rank of the bank, from 0.
    pub rank: u32,
    /// Bank number within the rank.
    pub bank: u32,
    /// Counts of the time slice.
    pub slice: RowUse,
    /// Counts since the first report with this memory description.
    pub total: RowUse,
}

/// Activity since the previous request, and since the start.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Activity {
    /// Counts since the previous request.
    pub slice: AccessCounts,
    /// Counts since the start.
    pub total: AccessCounts,
    /// Pages with the most accesses in the slice, in descending order; equal counts by interface
    /// and address.
    pub hot_pages: Vec<HotPage>,
    /// Banks of all memories that a report has described, by interface, rank and bank.
    pub banks: Vec<BankUse>,
}

impl RowUse {
    /// Share of accesses that are row hits, 0 to 1; `None` without accesses.
    pub fn hit_rate(self) -> Option<f64> {
        (self.accesses != 0).then(|| self.row_hits as f64 / self.accesses as f64)
    }

    pub(super) fn add(&mut self, other: RowUse) {
        self.accesses += other.accesses;
        self.row_hits += other.row_hits;
    }
}

impl AccessCounts {
    /// Share of accesses that are row hits, 0 to 1; `None` without accesses or without a memory
    /// description.
    pub fn row_hit_rate(&self) -> Option<f64> {
        self.rows.and_then(RowUse::hit_rate)
    }

    pub(super) fn add(&mut self, other: &AccessCounts) {
        self.frames += other.frames;
        self.accesses += other.accesses;
        self.reads += other.reads;
        self.writes += other.writes;
        self.bytes += other.bytes;
        self.pages += other.pages;
        self.pageless += other.pageless;
        self.untracked += other.untracked;
        if let Some(rows) = other.rows {
            self.rows.get_or_insert_default().add(rows);
        }
    }
}

fn hexadecimal<S: Serializer>(address: &PhysAddr, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(address)
}
