//! Simulates caches and translation buffers of a chosen geometry with the models of
//! [`crate::cache`].
//!
//! A translation buffer is a cache whose lines are pages: `256K,4,4096,lru` has 64 entries in 4
//! ways. Memory is constant: 8 bytes for each line of the caches. A serialised state has the counts
//! but not the lines: after a state was read, caches are empty. So each piece begins with empty
//! caches. After [`Analysis::append`] the misses are too many, for each piece by at most the number
//! of lines of the caches; [`CacheCounts::empty_caches`] states how many pieces began empty.
//! [`Analysis::merge`] adds the counts of other caches, for another memory.

use hmtt_format::Direction;
use serde::{Deserialize, Serialize};

use super::{Analysis, Batch};
use crate::cache::{AccessKind, CacheError, Hierarchy};

/// The counts of one cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Requested lines that were present.
    pub cache_hits: u64,
    /// Requested lines that were absent.
    pub cache_misses: u64,
    /// Changed lines that were evicted.
    pub write_backs: u64,
}

/// Counts of accesses, and of hits, misses and transfers of lines.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CacheCounts {
    /// Accesses of the processor.
    pub accesses: u64,
    /// The caches, from the processor to memory.
    pub caches: Vec<Counts>,
    /// Lines that were read from memory.
    pub line_reads: u64,
    /// Lines that were written to memory.
    pub line_writes: u64,
    /// How often the caches began empty: once for each piece.
    pub empty_caches: u64,
}

/// A hierarchy of caches.
///
/// ```
/// use hmtt::analysis::{Analysis, Batch, cache::Caches};
///
/// let mut caches = Caches::new(&["32K,8,64,lru"]).unwrap();
/// caches.add(&Batch::new(&[0x1000, 0x1008, 0x2000], &[false; 3]));
/// let found = caches.result();
/// assert_eq!((found.caches[0].cache_hits, found.caches[0].cache_misses), (1, 2));
/// ```
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(try_from = "State", into = "State")]
pub struct Caches {
    descriptions: Vec<String>,
    hierarchy: Hierarchy,
    /// All counts except hits, misses and write-backs that the hierarchy has counted.
    counts: CacheCounts,
}

/// The serialised form, without the lines.
#[derive(Clone, Serialize, Deserialize)]
struct State {
    descriptions: Vec<String>,
    counts: CacheCounts,
}

impl Caches {
    /// Empty caches, from the processor to memory, as `SIZE,WAYS,LINE,REPLACEMENT[,inclusive]`.
    ///
    /// # Errors
    /// [`CacheError`] if the geometry of a cache is impossible, or if the caches do not fit
    /// together.
    pub fn new(descriptions: &[impl AsRef<str>]) -> Result<Self, CacheError> {
        let parsed = descriptions.iter().map(|description| description.as_ref().parse());
        let levels = parsed.collect::<Result<Vec<_>, _>>()?;
        let hierarchy = Hierarchy::new(&levels, None)?;
        let descriptions =
            descriptions.iter().map(|description| description.as_ref().to_owned()).collect();
        let counts = CacheCounts { empty_caches: 1, ..CacheCounts::default() };
        Ok(Caches { descriptions, hierarchy, counts })
    }
}

impl CacheCounts {
    fn add(&mut self, other: &CacheCounts) {
        let add = |sum: &mut u64, more: u64| *sum = sum.saturating_add(more);
        add(&mut self.accesses, other.accesses);
        add(&mut self.line_reads, other.line_reads);
        add(&mut self.line_writes, other.line_writes);
        add(&mut self.empty_caches, other.empty_caches);
        if self.caches.len() < other.caches.len() {
            self.caches.resize(other.caches.len(), Counts::default());
        }
        for (sum, more) in self.caches.iter_mut().zip(&other.caches) {
            add(&mut sum.cache_hits, more.cache_hits);
            add(&mut sum.cache_misses, more.cache_misses);
            add(&mut sum.write_backs, more.write_backs);
        }
    }
}

impl From<Caches> for State {
    fn from(caches: Caches) -> Self {
        State { counts: caches.result(), descriptions: caches.descriptions }
    }
}

impl TryFrom<State> for Caches {
    type Error = CacheError;

    fn try_from(state: State) -> Result<Self, CacheError> {
        let mut caches = Caches::new(&state.descriptions)?;
        caches.counts.add(&state.counts);
        Ok(caches)
    }
}

impl Analysis for Caches {
    type Result = CacheCounts;

    fn add(&mut self, batch: &Batch<'_>) {
        let Caches { hierarchy, counts, .. } = self;
        let mut memory = |transfer: crate::cache::Transfer| match transfer.direction {
            Direction::Read => counts.line_reads = counts.line_reads.saturating_add(1),
            Direction::Write => counts.line_writes = counts.line_writes.saturating_add(1),
        };
        let sizes = batch.sizes().unwrap_or_default().iter().copied().map(Some);
        let sizes = sizes.chain(std::iter::repeat(None));
        for ((address, is_write), size) in batch.addresses().iter().zip(batch.writes()).zip(sizes) {
            let kind = if *is_write { AccessKind::Write } else { AccessKind::Read };
            let size = size.or(batch.unit_bytes()).unwrap_or(1);
            hierarchy.access(kind, *address, size.min(super::MOST_TOUCHED_BYTES), &mut memory);
        }
        self.counts.accesses = self.counts.accesses.saturating_add(batch.len() as u64);
    }

    fn append(&mut self, later: Self) {
        let before = std::mem::replace(self, later);
        self.counts.add(&before.result());
    }

    fn merge(&mut self, other: Self) {
        self.counts.add(&other.result());
    }

    fn result(&self) -> CacheCounts {
        let mut sum = self.counts.clone();
        let of_level = |level: crate::cache::Counters| Counts {
            cache_hits: level.hits,
            cache_misses: level.misses,
            write_backs: level.write_backs,
        };
        let caches = self.hierarchy.counters().map(of_level).collect();
        sum.add(&CacheCounts { caches, ..CacheCounts::default() });
        sum
    }
}
