//! Counts reads, writes, bytes, pages of the working set and gaps over time, in a bounded number of
//! slices.
//!
//! Slices are the columns of [`columns`](super::columns): they become longer with the accesses, so
//! that a trace of any length has some hundred slices. Each slice counts the first touch of each
//! page in this slice. The touch's time is compared with the time of the page's first touch in the
//! last earlier slice that has the page. The counts are kept by the highest bit in which the two
//! times differ. A touch is the first one in a slice of 2^n if this bit is bit n or higher. So the
//! numbers of distinct pages stay exact when slices are joined. For example, a page is first
//! touched at time 4 in one slice of length 2 and at time 6 in the next. The times differ in bit 1,
//! so both touches count in slices of length 2, but only the first counts in slices of length 4.
//!
//! Memory: 8 to 26 bytes for each distinct page, up to 400 for a page without neighbours, and at
//! most 400 KiB for the slices. [`Analysis::append`] is exact if slices are of clocks, except for
//! pages: a page that both pieces touch counts as new in the later piece, so the number of new
//! pages is an upper bound. [`Analysis::merge`] keeps the slices of each memory apart.

use serde::{Deserialize, Serialize};

use super::clock::Clock;
use super::columns::{Column, Columns};
use super::page_table::PageTable;
use super::slices::SliceUnit;
use super::working_set::{Working, WorkingSets};
use super::{Analysis, Batch, Detail, FrequencySlice, Gap, Known, PAGE_LOG2, PageRun};

/// Maximum number of gaps of a memory that are listed.
pub const MOST_GAPS: usize = 100;
/// Number of counts of touches: one for equal times, one for each highest bit in which two times
/// can differ, and one for the first touches of pages.
const DIFFERENCES: usize = u64::BITS as usize + 2;

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Counts {
    reads: u64,
    writes: u64,
    access_bytes: u64,
    unsized_accesses: u64,
    page_run_accesses: u64,
    frequency_accesses: u64,
    gap_count: u64,
    lost_accesses: u64,
    /// First touches of pages in the slice, indexed by 1 plus the highest bit in which the times
    /// differ; empty without accesses.
    touches: Vec<u64>,
}

impl Counts {
    /// Adds accesses, without their pages.
    fn accesses(&mut self, batch: &Batch<'_>) {
        let add = |sum: &mut u64, more: u64| *sum = sum.saturating_add(more);
        let count = batch.len() as u64;
        let writes = batch.writes().iter().map(|is_write| u64::from(*is_write)).sum();
        let (bytes, unknown) = batch.sum_of_sizes();
        add(&mut self.writes, writes);
        add(&mut self.reads, count - writes);
        add(&mut self.access_bytes, bytes);
        add(&mut self.unsized_accesses, unknown);
    }

    /// Adds accesses of which only the number is known. `bytes`: their bytes, and the number of
    /// accesses whose size is not known.
    fn counted(&mut self, reads: u64, writes: u64, bytes: (u64, u64)) {
        let add = |sum: &mut u64, more: u64| *sum = sum.saturating_add(more);
        add(&mut self.reads, reads);
        add(&mut self.writes, writes);
        add(&mut self.access_bytes, bytes.0);
        add(&mut self.unsized_accesses, bytes.1);
    }

    /// Adds a touch of a page. `at`: the time; `log2`: log2 of the column's length; `last`: time of
    /// the page's first touch in its last slice, plus 1, or 0 if there is none.
    fn touch(&mut self, at: u64, log2: u32, last: &mut u64) {
        let bits = match last.checked_sub(1) {
            Some(before) if before >> log2 == at >> log2 => return,
            Some(before) => (u64::BITS - (before ^ at).leading_zeros()) as usize,
            None => DIFFERENCES - 1,
        };
        self.touches[bits] = self.touches[bits].saturating_add(1);
        *last = at.saturating_add(1);
    }
}

impl Column for Counts {
    fn join(&mut self, later: &Self) {
        let add = |sum: &mut u64, more: u64| *sum = sum.saturating_add(more);
        add(&mut self.reads, later.reads);
        add(&mut self.writes, later.writes);
        add(&mut self.access_bytes, later.access_bytes);
        add(&mut self.unsized_accesses, later.unsized_accesses);
        add(&mut self.page_run_accesses, later.page_run_accesses);
        add(&mut self.frequency_accesses, later.frequency_accesses);
        add(&mut self.gap_count, later.gap_count);
        add(&mut self.lost_accesses, later.lost_accesses);
        self.touches.resize(DIFFERENCES, 0);
        self.touches.iter_mut().zip(&later.touches).for_each(|(sum, more)| add(sum, *more));
    }
}

/// The counts of a slice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct TimeSlice {
    /// Number of the slice, from 0: it begins at this multiple of the length.
    pub slice: u64,
    /// Accesses that read.
    pub reads: u64,
    /// Accesses that write.
    pub writes: u64,
    /// Bytes of the accesses whose sizes are known.
    pub access_bytes: u64,
    /// Accesses whose sizes are not known.
    pub unsized_accesses: u64,
    /// Accesses of page runs, whose lines are not known.
    pub page_run_accesses: u64,
    /// Accesses in slices of frequency mode, whose pages are not known.
    pub frequency_accesses: u64,
    /// Distinct pages of 4 KiB, of the accesses whose pages are known.
    pub pages: u64,
    /// Pages that no earlier slice has.
    pub new_pages: u64,
    /// Places at which accesses are missing.
    pub gap_count: u64,
    /// Accesses that are missing in these gaps, as far as their numbers are known.
    pub lost_accesses: u64,
}

/// The slices of a memory.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MemoryTime {
    /// Number of the memory, from 1.
    pub source: u64,
    /// The unit of the slices.
    pub slice_unit: SliceUnit,
    /// Length of a slice in its unit: a power of two.
    pub slice_length: u64,
    /// The length in seconds, if slices are of clocks whose period is known.
    pub slice_seconds: Option<f64>,
    /// Slices with accesses or gaps.
    pub slices: Vec<TimeSlice>,
    /// The first gaps, at most [`MOST_GAPS`].
    pub gaps: Vec<Gap>,
}

impl MemoryTime {
    /// The working sets of the slices with accesses, in which phases can be found.
    pub fn working_sets(&self) -> WorkingSets {
        let working = |time_slice: &TimeSlice| {
            let TimeSlice { slice, reads, writes, frequency_accesses, pages, new_pages, .. } =
                *time_slice;
            let accesses = reads.saturating_add(writes);
            let working = Working { slice, accesses, frequency_accesses, pages, new_pages };
            (accesses > 0).then_some(working)
        };
        WorkingSets {
            source: self.source,
            slice_unit: self.slice_unit,
            slice_length: self.slice_length,
            slice_seconds: self.slice_seconds,
            slices: self.slices.iter().filter_map(working).collect(),
        }
    }
}

/// The number of accesses in the first `part` of `length` clocks, if `whole` accesses are spread
/// evenly over the `length` clocks. Rounded down. For example, `part_of(10, 1, 4)` is 2.
fn part_of(whole: u64, part: u64, length: u64) -> u64 {
    match whole.checked_mul(part) {
        _ if part == length => whole,
        Some(product) => product / length,
        None => (u128::from(whole) * u128::from(part) / u128::from(length)) as u64,
    }
}

/// The slices of one memory.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Memory {
    clock: Clock,
    columns: Columns<Counts>,
    /// Time of the first touch of each page in its last slice, plus 1.
    last: PageTable<u64>,
    gaps: Vec<Gap>,
}

impl Memory {
    fn add(&mut self, batch: &Batch<'_>) {
        let Memory { clock, columns, last, .. } = self;
        clock.each_column(batch, columns, |rows, at, log2, counts| {
            let batch = batch.rows(rows);
            counts.accesses(&batch);
            counts.touches.resize(DIFFERENCES, 0);
            batch.each_unit(PAGE_LOG2, |page| counts.touch(at, log2, last.entry(page)));
        });
    }

    /// Counts the whole run at the clock of its first access.
    fn page_run(&mut self, run: &PageRun) {
        let Memory { clock, columns, last, .. } = self;
        let (at, _) = clock.of_record(run.clock, run.clock, run.accesses());
        // Columns may become longer here, so their length is read afterwards.
        columns.at(at);
        let log2 = columns.log2();
        let counts = columns.at(at);
        counts.counted(run.reads, run.writes, run.bytes());
        counts.page_run_accesses = counts.page_run_accesses.saturating_add(run.accesses());
        counts.touches.resize(DIFFERENCES, 0);
        counts.touch(at, log2, last.entry(run.address >> PAGE_LOG2));
    }

    /// Spreads the accesses of a slice over its length, because a column can be shorter.
    fn frequency_slice(&mut self, slice: &FrequencySlice) {
        let Memory { clock, columns, .. } = self;
        let (first, last) = clock.of_record(slice.clock, slice.last_clock(), slice.accesses());
        columns.at(first);
        columns.at(last);
        let (log2, length) = (columns.log2(), (last - first).saturating_add(1));
        let (bytes, unsized_accesses) = slice.bytes();
        let amounts = [slice.reads, slice.writes, bytes, unsized_accesses];
        let (mut from, mut added) = (first, [0; 4]);
        loop {
            let last_of_column = from | ((1 << log2) - 1);
            let end = last_of_column.min(last);
            let part = |whole: u64| part_of(whole, (end - first).saturating_add(1), length);
            let reached = amounts.map(part);
            let more: [u64; 4] = std::array::from_fn(|at| reached[at].saturating_sub(added[at]));
            let counts = columns.at(from);
            counts.counted(more[0], more[1], (more[2], more[3]));
            let sum = &mut counts.frequency_accesses;
            *sum = sum.saturating_add(more[0].saturating_add(more[1]));
            if end == last {
                return;
            }
            (from, added) = (end + 1, reached);
        }
    }

    fn gap(&mut self, gap: &Gap) {
        let counts = self.columns.at(self.clock.of_gap(gap));
        counts.gap_count = counts.gap_count.saturating_add(1);
        let lost = gap.lost_accesses.unwrap_or(0);
        counts.lost_accesses = counts.lost_accesses.saturating_add(lost);
        if self.gaps.len() < MOST_GAPS {
            self.gaps.push(*gap);
        }
    }

    fn append(&mut self, later: Memory) {
        let shift = self.clock.shift();
        self.columns.append(later.columns, shift);
        for (page, at) in later.last.iter() {
            *self.last.entry(page) = at.saturating_add(shift);
        }
        self.clock.append(&later.clock);
        let left = MOST_GAPS.saturating_sub(self.gaps.len());
        self.gaps.extend(later.gaps.into_iter().take(left));
    }

    fn result(&self, source: u64) -> MemoryTime {
        let log2 = self.columns.log2();
        let slice = |(slice, counts): (u64, &Counts)| {
            let Counts { reads, writes, access_bytes, unsized_accesses, .. } = *counts;
            let Counts { page_run_accesses, frequency_accesses, .. } = *counts;
            let touches = counts.touches.iter().skip(log2 as usize + 1);
            TimeSlice {
                slice,
                reads,
                writes,
                access_bytes,
                unsized_accesses,
                page_run_accesses,
                frequency_accesses,
                pages: touches.fold(0, |sum, more| sum.saturating_add(*more)),
                new_pages: counts.touches.get(DIFFERENCES - 1).copied().unwrap_or(0),
                gap_count: counts.gap_count,
                lost_accesses: counts.lost_accesses,
            }
        };
        let is_used =
            |slice: &TimeSlice| slice.reads > 0 || slice.writes > 0 || slice.gap_count > 0;
        MemoryTime {
            source,
            slice_unit: self.clock.unit(),
            slice_length: 1 << log2,
            slice_seconds: self.clock.seconds(1 << log2),
            slices: self.columns.iter().map(slice).filter(is_used).collect(),
            gaps: self.gaps.clone(),
        }
    }
}

/// Accesses over time.
///
/// ```
/// use hmtt::analysis::{Analysis, Batch, timeline::Timeline};
///
/// let mut timeline = Timeline::default();
/// // 1024 accesses to two pages in turn: slices of two accesses, each with both pages.
/// let addresses: Vec<u64> = (0..1024).map(|at| at % 2 << 12).collect();
/// timeline.add(&Batch::new(&addresses, &[true; 1024]));
/// let found = &timeline.result()[0];
/// assert_eq!((found.slice_length, found.slices.len()), (2, 512));
/// assert!(found.slices.iter().all(|slice| (slice.writes, slice.pages) == (2, 2)));
/// ```
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Timeline {
    memories: Vec<Memory>,
}

impl Default for Timeline {
    fn default() -> Self {
        Timeline { memories: vec![Memory::default()] }
    }
}

impl Timeline {
    fn own(&mut self, change: impl FnOnce(&mut Memory)) {
        if let Some(memory) = self.memories.first_mut() {
            change(memory);
        }
    }
}

impl Analysis for Timeline {
    type Result = Vec<MemoryTime>;

    fn known(&mut self, known: &Known) {
        self.own(|memory| memory.clock.known(known));
    }

    fn add(&mut self, batch: &Batch<'_>) {
        self.own(|memory| memory.add(batch));
    }

    fn needs(&self) -> Detail {
        Detail::Time
    }

    fn page_run(&mut self, run: &PageRun) {
        self.own(|memory| memory.page_run(run));
    }

    fn frequency_slice(&mut self, slice: &FrequencySlice) {
        self.own(|memory| memory.frequency_slice(slice));
    }

    fn gap(&mut self, gap: &Gap) {
        self.own(|memory| memory.gap(gap));
    }

    fn restart(&mut self) {
        self.own(|memory| memory.clock.restart(memory.columns.end()));
    }

    fn append(&mut self, later: Self) {
        let mut later = later.memories.into_iter();
        if let (Some(own), Some(more)) = (self.memories.first_mut(), later.next()) {
            own.append(more);
        }
        self.memories.extend(later);
    }

    fn merge(&mut self, other: Self) {
        self.memories.extend(other.memories);
    }

    fn result(&self) -> Vec<MemoryTime> {
        self.memories.iter().zip(1..).map(|(memory, source)| memory.result(source)).collect()
    }
}
