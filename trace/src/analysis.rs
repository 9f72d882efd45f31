//! Analyses the accesses of any source: defines the trait [`Analysis`], with one file for each
//! analysis.
//!
//! ```text
//! capture, program trace, table -> source -> Batch, Gap, Known -> Fold -> Analysis -> result
//! ```
//!
//! A [`source`] reads a file of any kind and passes on [`Batch`]es of columns, placed [`Gap`]s, and
//! what it knows of the accesses ([`Known`]). An [`Analysis`] adds batches in any number of pieces.
//! [`Fold`] has one instance for each memory (a card, a program) and merges them. [`registry`]
//! lists all analyses by name. `docs/analysis.md` defines the numbers of the results and shows how
//! to add an analysis.
//!
//! Invariant: facts that a source does not know are stated in the result, and are no error.

pub mod bank_map;
mod batch;
pub mod bounded;
#[cfg(feature = "caches")]
pub mod cache;
pub mod card_rows;
pub mod check;
mod clock;
mod coarse;
pub mod columns;
pub mod combined;
pub mod distribution;
mod element_range;
mod fold;
pub mod frames;
pub mod frequency;
pub mod hash;
pub mod heat_map;
pub mod histogram;
mod known;
mod list;
pub mod mrc;
mod ordered_bits;
pub mod page_counts;
pub mod page_table;
pub mod pages;
pub mod phases;
pub mod registry;
pub mod reuse;
pub mod rows;
mod runs;
mod sample;
pub mod shards;
pub mod slices;
pub mod source;
pub mod split;
pub mod stack;
pub mod streams;
pub mod summary;
#[cfg(test)]
mod tests;
pub mod timeline;
pub mod working_set;

pub use batch::{Batch, LINE_LOG2, MOST_TOUCHED_BYTES, PAGE_LOG2};
pub use coarse::{CoarseAccesses, Detail, FrequencySlice, PageRun};
pub use element_range::ElementRange;
pub use fold::Fold;
pub use known::{AddressSpace, Gap, Known};

use serde::Serialize;
use serde::de::DeserializeOwned;

/// An analysis of the accesses to one memory, or to several after [`Analysis::merge`].
///
/// An instance is its own partial state: it can be serialised at any time, and continued elsewhere.
/// The file of each analysis states how much memory it uses, and which numbers are exact after
/// [`Analysis::append`].
///
/// ```
/// use hmtt::analysis::{Analysis, Batch};
/// use serde::{Deserialize, Serialize};
///
/// /// Share of accesses that are writes.
/// #[derive(Default, Serialize, Deserialize)]
/// struct WriteShare {
///     accesses: u64,
///     writes: u64,
/// }
///
/// impl Analysis for WriteShare {
///     type Result = Option<f64>;
///
///     fn add(&mut self, batch: &Batch<'_>) {
///         self.accesses += batch.len() as u64;
///         self.writes += batch.writes().iter().filter(|is_write| **is_write).count() as u64;
///     }
///
///     fn append(&mut self, later: Self) {
///         self.accesses += later.accesses;
///         self.writes += later.writes;
///     }
///
///     fn merge(&mut self, other: Self) {
///         self.append(other);
///     }
///
///     fn result(&self) -> Option<f64> {
///         (self.accesses > 0).then(|| self.writes as f64 / self.accesses as f64)
///     }
/// }
///
/// let mut share = WriteShare::default();
/// share.add(&Batch::new(&[0x40, 0x80], &[true, false]));
/// assert_eq!(share.result(), Some(0.5));
/// ```
pub trait Analysis: Sized + Serialize + DeserializeOwned {
    /// The result of the analysis. docs/glossary.md defines the names of its fields.
    type Result: Serialize;

    /// Receives what the source knows of its accesses, before the first batch and again when the
    /// source knows more.
    fn known(&mut self, known: &Known) {
        let _ = known;
    }

    /// Adds the next accesses to the memory. The accesses of each thread, and of each card, come in
    /// the order in which they were made.
    fn add(&mut self, batch: &Batch<'_>);

    /// Adds elements of a string instruction that are known as a whole. By default the elements are
    /// a gap, for analyses that need each element.
    fn elements(&mut self, range: &ElementRange) {
        self.gap(&Gap { lost_accesses: Some(range.elements), ..Gap::default() });
    }

    /// The detail that the analysis needs of accesses. Accesses with less detail are gaps in the
    /// analysis.
    fn needs(&self) -> Detail {
        Detail::Address
    }

    /// Adds accesses to one page, whose lines in the page are not known. By default the accesses
    /// are a gap, for analyses that need addresses.
    fn page_run(&mut self, run: &PageRun) {
        self.gap(&run.as_gap());
    }

    /// Adds accesses in a slice of time, whose pages are not known. By default the accesses are a
    /// gap, for analyses that need pages.
    fn frequency_slice(&mut self, slice: &FrequencySlice) {
        self.gap(&slice.as_gap());
    }

    /// Notes that accesses are missing between the last batch and the next one.
    fn gap(&mut self, gap: &Gap) {
        let _ = gap;
    }

    /// Notes that the clock begins at 0 again. The accesses that follow are to the same memory,
    /// after an unknown time.
    fn restart(&mut self) {}

    /// Adds the state of another instance, which has analysed the next accesses to the same memory.
    fn append(&mut self, later: Self);

    /// Adds the state of another instance, which has analysed another memory: another card or
    /// another program.
    fn merge(&mut self, other: Self);

    /// The result for the accesses so far.
    fn result(&self) -> Self::Result;
}
