//! What the online statistics saw, in one stretch of time and in all.

use hmtt_format::PhysAddr;
use serde::{Serialize, Serializer};

/// What was seen in a stretch of time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Seen {
    /// Data frames.
    pub frames: u64,
    /// Accesses.
    pub accesses: u64,
    /// Those that are READs.
    pub reads: u64,
    /// Those that are WRITEs.
    pub writes: u64,
    /// Bytes of the lines and bursts they name; a burst for each access of a page run, a slice or the
    /// tag window, once a report has told its size.
    pub bytes: u64,
    /// Different pages of 4 KiB that were accessed.
    pub pages: u64,
    /// Accesses whose page is not told: of frequency slices, and of a tag window whose base is not
    /// known.
    pub pageless: u64,
    /// Accesses to pages beyond the first [`super::MAX_TRACKED_PAGES`] of their interface: in no
    /// count of pages.
    pub untracked: u64,
    /// How rows were used; `None` while no report has told how addresses become rows.
    pub rows: Option<RowUse>,
}

/// How often the row that was needed was the row used last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct RowUse {
    /// Accesses whose row is known.
    pub accesses: u64,
    /// Those to the row that was accessed last in their bank.
    pub hits: u64,
}

/// A page and its accesses in the time slice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct HotPage {
    /// Index of the interface.
    pub link: usize,
    /// Its first byte; hexadecimal when serialised.
    #[serde(serialize_with = "hexadecimal")]
    pub address: PhysAddr,
    /// Reads and writes.
    pub accesses: u64,
}

/// How a bank was used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct BankUse {
    /// Index of the interface.
    pub link: usize,
    /// Rank.
    pub rank: u32,
    /// Bank of the rank.
    pub bank: u32,
    /// In the time slice.
    pub slice: RowUse,
    /// Since the memory description was first told.
    pub total: RowUse,
}

/// What happened since the last time this was asked, and since the start.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Activity {
    /// Since it was last asked.
    pub slice: Seen,
    /// Since the start.
    pub total: Seen,
    /// The pages with most accesses in the slice, most first; equal counts by interface and address.
    pub hot_pages: Vec<HotPage>,
    /// All banks of all memories that a report has described, by interface, rank and bank.
    pub banks: Vec<BankUse>,
}

impl RowUse {
    /// Hits of 1 access, 0 to 1; `None` without accesses.
    pub fn hit_rate(self) -> Option<f64> {
        (self.accesses != 0).then(|| self.hits as f64 / self.accesses as f64)
    }

    pub(super) fn add(&mut self, other: RowUse) {
        self.accesses += other.accesses;
        self.hits += other.hits;
    }
}

impl Seen {
    /// Hits of 1 access, 0 to 1; `None` without accesses or without a memory description.
    pub fn row_hit_rate(&self) -> Option<f64> {
        self.rows.and_then(RowUse::hit_rate)
    }

    pub(super) fn add(&mut self, other: &Seen) {
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
