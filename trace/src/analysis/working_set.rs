//! Measures the working set over time: the accesses and distinct pages of each slice.
//!
//! Memory: 8 to 26 bytes for each distinct page, up to 400 for a page without neighbours, and 40
//! bytes for each slice ([`slices`](super::slices)). If both pieces of an [`Analysis::append`] have
//! accesses in a slice, the larger number of pages of the two pieces is kept, which is a lower
//! bound. Slices that are joined are treated in the same way. A page that is new in both pieces is
//! counted as new twice. All other numbers are exact. [`Analysis::merge`] keeps the slices of each
//! memory apart.

use serde::{Deserialize, Serialize};

use super::page_table::PageTable;
use super::slices::{Slice, SliceLength, SliceUnit, Slices, Span};
use super::{Analysis, Batch, Detail, FrequencySlice, Known, PAGE_LOG2, PageRun};

/// Accesses and pages of a slice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Number of accesses.
    pub accesses: u64,
    /// Accesses in slices of frequency mode, whose pages are not known.
    pub frequency_accesses: u64,
    /// Distinct pages, of the accesses whose pages are known.
    pub pages: u64,
    /// Pages that no earlier slice has.
    pub new_pages: u64,
}

impl Counts {
    /// Adds a touch of a page. `last`: begin of the last slice with a touch of the page, plus 1; 0
    /// if there is none.
    fn touch(&mut self, slice: Span, last: &mut u64) {
        // Slices may have become longer since the last touch.
        let is_known = last.checked_sub(1).is_some_and(|at| slice.contains(at));
        self.new_pages = self.new_pages.saturating_add(u64::from(*last == 0));
        self.pages = self.pages.saturating_add(u64::from(!is_known));
        *last = slice.begin.saturating_add(1);
    }
}

impl Slice for Counts {
    fn join(&mut self, next: &Self) {
        self.accesses = self.accesses.saturating_add(next.accesses);
        self.frequency_accesses = self.frequency_accesses.saturating_add(next.frequency_accesses);
        self.pages = self.pages.max(next.pages);
        self.new_pages = self.new_pages.saturating_add(next.new_pages);
    }
}

/// The working set of a slice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Working {
    /// Number of the slice, from 0: it begins at this multiple of the length.
    pub slice: u64,
    /// Number of accesses.
    pub accesses: u64,
    /// Accesses in slices of frequency mode, whose pages are not known.
    pub frequency_accesses: u64,
    /// Distinct pages of 4 KiB, of the accesses whose pages are known.
    pub pages: u64,
    /// Pages that no earlier slice has.
    pub new_pages: u64,
}

/// The working sets of a memory.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct WorkingSets {
    /// Number of the memory, from 1.
    pub source: u64,
    /// The unit of the slices.
    pub slice_unit: SliceUnit,
    /// Length of a slice in its unit.
    pub slice_length: u64,
    /// The length in seconds, if slices are of clocks.
    pub slice_seconds: Option<f64>,
    /// Slices with accesses.
    pub slices: Vec<Working>,
}

/// The slices of one memory.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Memory {
    known: Known,
    slices: Slices<Counts>,
    /// Begin of the last slice with a touch of each page, in the slices' unit, plus 1.
    last: PageTable<u64>,
}

/// Working sets in slices.
///
/// ```
/// use hmtt::analysis::{Analysis, Batch, slices::SliceLength, working_set::WorkingSet};
///
/// let mut working = WorkingSet::new(SliceLength { ns: 1, accesses: 2 });
/// working.add(&Batch::new(&[0x1000, 0x2000, 0x1000, 0x1008], &[false; 4]));
/// let slices = &working.result()[0].slices;
/// assert_eq!((slices[0].pages, slices[1].pages, slices[1].new_pages), (2, 1, 0));
/// ```
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct WorkingSet {
    memories: Vec<Memory>,
}

impl WorkingSet {
    /// Creates an analysis with slices of this length.
    pub fn new(length: SliceLength) -> Self {
        let slices = Slices::new(length);
        let memory = Memory { known: Known::default(), slices, last: PageTable::default() };
        WorkingSet { memories: vec![memory] }
    }
}

impl Memory {
    fn add(&mut self, batch: &Batch<'_>) {
        let Memory { slices, last, .. } = self;
        slices.split(batch, Counts::default(), |rows, slice, counts| {
            let add = |sum: &mut u64, more: u64| *sum = sum.saturating_add(more);
            add(&mut counts.accesses, rows.len() as u64);
            let mut before = None;
            batch.rows(rows).each_unit(PAGE_LOG2, |page| {
                if before == Some(page) {
                    return;
                }
                before = Some(page);
                counts.touch(slice, last.entry(page));
            });
        });
    }

    /// Counts the whole run in the slice in which it begins.
    fn page_run(&mut self, run: &PageRun) {
        let Memory { slices, last, .. } = self;
        slices.record(run.clock, run.accesses(), Counts::default(), |slice, counts| {
            counts.accesses = counts.accesses.saturating_add(run.accesses());
            counts.touch(slice, last.entry(run.address >> PAGE_LOG2));
        });
    }

    /// Counts a slice of the card in the slice in which it begins.
    fn frequency_slice(&mut self, slice: &FrequencySlice) {
        let (accesses, frequency_accesses) = (slice.accesses(), slice.accesses());
        self.slices.record(slice.clock, accesses, Counts::default(), |_, counts| {
            counts.join(&Counts { accesses, frequency_accesses, ..Counts::default() });
        });
    }

    fn result(&self, source: u64) -> WorkingSets {
        let Memory { known, slices, .. } = self;
        let is_time = slices.unit() == SliceUnit::Clocks;
        let working = |(slice, counts): (u64, Counts)| {
            let Counts { accesses, frequency_accesses, pages, new_pages } = counts;
            Working { slice, accesses, frequency_accesses, pages, new_pages }
        };
        WorkingSets {
            source,
            slice_unit: slices.unit(),
            slice_length: slices.width(),
            slice_seconds: known.seconds(slices.width()).filter(|_| is_time),
            slices: slices.sorted().into_iter().map(working).collect(),
        }
    }
}

impl Analysis for WorkingSet {
    type Result = Vec<WorkingSets>;

    fn known(&mut self, known: &Known) {
        if let Some(memory) = self.memories.first_mut() {
            memory.known = *known;
            memory.slices.known(known);
        }
    }

    fn add(&mut self, batch: &Batch<'_>) {
        self.memories.first_mut().into_iter().for_each(|memory| memory.add(batch));
    }

    fn needs(&self) -> Detail {
        Detail::Time
    }

    fn page_run(&mut self, run: &PageRun) {
        self.memories.first_mut().into_iter().for_each(|memory| memory.page_run(run));
    }

    fn frequency_slice(&mut self, slice: &FrequencySlice) {
        self.memories.first_mut().into_iter().for_each(|memory| memory.frequency_slice(slice));
    }

    fn restart(&mut self) {
        self.memories.first_mut().into_iter().for_each(|memory| memory.slices.restart());
    }

    fn append(&mut self, later: Self) {
        let mut later = later.memories.into_iter();
        if let (Some(own), Some(more)) = (self.memories.first_mut(), later.next()) {
            own.known.append(&more.known);
            let moved = own.slices.append(more.slices);
            for (page, begin) in more.last.iter() {
                *own.last.entry(page) = begin.saturating_add(moved);
            }
        }
        self.memories.extend(later);
    }

    fn merge(&mut self, other: Self) {
        self.memories.extend(other.memories);
    }

    fn result(&self) -> Vec<WorkingSets> {
        self.memories.iter().zip(1..).map(|(memory, source)| memory.result(source)).collect()
    }
}
