//! Finds phases: the stretches between changes of the rate of accesses or of the working set.
//!
//! For each boundary between two slices, the mean of [`WINDOW`] slices before it is compared with
//! the mean of [`WINDOW`] slices after it. This is done for accesses and for distinct pages, and
//! each comparison has a factor: the larger mean plus 1, divided by the smaller mean plus 1. The
//! score of the boundary is the larger one of the two factors. For example, a change from 9 to 19
//! accesses a slice has the factor 2.
//!
//! Boundaries become changes in the order of their scores, down to [`LEAST_SCORE`], if no boundary
//! within [`WINDOW`] slices has become a change before. Slices without accesses are compared, too,
//! but at most [`WINDOW`] consecutive ones. The last slice, and the first slice of clocks, are not
//! whole and are not compared. So a change that lasts for only a few slices may be seen as two
//! changes, and a slow change as none.
//!
//! Memory, [`Analysis::append`] and [`Analysis::merge`] are described in
//! [`working_set`](super::working_set).

use serde::{Deserialize, Serialize};

use super::slices::{SliceLength, SliceUnit};
use super::working_set::{WorkingSet, WorkingSets};
use super::{Analysis, Batch, Detail, FrequencySlice, Known, PageRun};

/// Slices on each side of a boundary that are compared.
pub const WINDOW: usize = 4;
/// Minimum score of a change.
pub const LEAST_SCORE: f64 = 1.5;

/// Slices between two changes.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Phase {
    /// Number of the first slice, from 0.
    pub first_slice: u64,
    /// Number of the last slice with accesses.
    pub last_slice: u64,
    /// Number of accesses.
    pub accesses: u64,
    /// Accesses in slices of frequency mode, whose pages are not known.
    pub frequency_accesses: u64,
    /// Mean number of accesses of a slice with accesses.
    pub slice_accesses: f64,
    /// Mean number of distinct pages of a slice with accesses.
    pub slice_pages: f64,
    /// Pages that no earlier slice has.
    pub new_pages: u64,
}

/// The phases of a memory.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MemoryPhases {
    /// Number of the memory, from 1.
    pub source: u64,
    /// The unit of the slices.
    pub slice_unit: SliceUnit,
    /// Length of a slice in its unit.
    pub slice_length: u64,
    /// The length in seconds, if slices are of clocks.
    pub slice_seconds: Option<f64>,
    /// Phases in the order of time.
    pub phases: Vec<Phase>,
}

/// Accesses and pages of a slice, and its index in the list of slices with accesses. A slice
/// without accesses has the index of the next slice in the list.
type Row = (f64, f64, usize);

/// Slices with accesses, and up to [`WINDOW`] slices without accesses between two of them.
fn rows(working_sets: &WorkingSets) -> Vec<Row> {
    let mut rows = Vec::new();
    for (index, slice) in working_sets.slices.iter().enumerate() {
        let before = index.checked_sub(1).and_then(|index| working_sets.slices.get(index));
        let idle = before.map_or(0, |before| slice.slice - before.slice - 1);
        rows.extend((0..idle.min(WINDOW as u64)).map(|_| (0.0, 0.0, index)));
        rows.push((slice.accesses as f64, slice.pages as f64, index));
    }
    rows
}

/// The score of the boundary before the row `boundary`.
fn score(rows: &[Row], boundary: usize) -> f64 {
    let before = &rows[boundary.saturating_sub(WINDOW)..boundary];
    let behind = &rows[boundary..rows.len().min(boundary + WINDOW)];
    let mean = |rows: &[Row], column: fn(&Row) -> f64| {
        1.0 + rows.iter().map(column).sum::<f64>() / rows.len().max(1) as f64
    };
    // A factor and not a logarithm: a rise and a fall have exactly the same score, without a
    // rounding that could decide between them.
    let factor = |column: fn(&Row) -> f64| {
        let (earlier, later) = (mean(before, column), mean(behind, column));
        earlier.max(later) / earlier.min(later)
    };
    factor(|row| row.0).max(factor(|row| row.1))
}

/// Indices of the slices with which phases begin, without the first phase.
fn changes(working_sets: &WorkingSets) -> Vec<usize> {
    let mut rows = rows(working_sets);
    // Accesses end somewhere within the last slice. In slices of clocks they also begin somewhere
    // within the first slice.
    rows.pop();
    if working_sets.slice_unit == SliceUnit::Clocks && !rows.is_empty() {
        rows.remove(0);
    }
    let scored = (1..rows.len()).map(|boundary| (score(&rows, boundary), boundary));
    let mut scored: Vec<_> = scored.filter(|(score, _)| *score >= LEAST_SCORE).collect();
    scored.sort_by(|first, second| second.0.total_cmp(&first.0).then(first.1.cmp(&second.1)));
    // Whether each boundary is too near to a boundary that was taken.
    let mut is_near = vec![false; rows.len()];
    let mut boundaries = Vec::new();
    for (_, boundary) in scored {
        if !is_near[boundary] {
            let last = rows.len().min(boundary + WINDOW);
            is_near[boundary.saturating_sub(WINDOW - 1)..last].fill(true);
            boundaries.push(rows[boundary].2);
        }
    }
    boundaries.sort_unstable();
    boundaries.dedup();
    boundaries
}

/// Divides the slices of working sets into phases.
pub fn phases(working_sets: &WorkingSets) -> MemoryPhases {
    let mut ends = changes(working_sets);
    ends.push(working_sets.slices.len());
    let mut from = 0;
    let mut phases = Vec::new();
    for end in ends {
        let slices = &working_sets.slices[from..end];
        let (Some(first), Some(last)) = (slices.first(), slices.last()) else { continue };
        let accesses = slices.iter().fold(0u64, |sum, slice| sum.saturating_add(slice.accesses));
        let frequency_accesses =
            slices.iter().fold(0u64, |sum, slice| sum.saturating_add(slice.frequency_accesses));
        let pages: f64 = slices.iter().map(|slice| slice.pages as f64).sum();
        let count = slices.len() as f64;
        phases.push(Phase {
            first_slice: first.slice,
            last_slice: last.slice,
            accesses,
            frequency_accesses,
            slice_accesses: accesses as f64 / count,
            slice_pages: pages / count,
            new_pages: slices.iter().fold(0, |sum: u64, slice| sum.saturating_add(slice.new_pages)),
        });
        from = end;
    }
    let WorkingSets { source, slice_unit, slice_length, slice_seconds, .. } = *working_sets;
    MemoryPhases { source, slice_unit, slice_length, slice_seconds, phases }
}

/// Finds phases.
///
/// ```
/// use hmtt::analysis::{Analysis, Batch, phases::Phases, slices::SliceLength};
///
/// let mut found = Phases::new(SliceLength { ns: 1, accesses: 100 });
/// // 1000 accesses to one page, then 1000 to 50.
/// let addresses: Vec<u64> = (0..2000).map(|at| at / 1000 * (at % 50) << 12).collect();
/// found.add(&Batch::new(&addresses, &vec![false; 2000]));
/// let phases = &found.result()[0].phases;
/// assert_eq!((phases.len(), phases[1].first_slice, phases[1].slice_pages), (2, 10, 50.0));
/// ```
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Phases {
    working: WorkingSet,
}

impl Phases {
    /// Compares slices of this length.
    pub fn new(length: SliceLength) -> Self {
        Phases { working: WorkingSet::new(length) }
    }
}

impl Analysis for Phases {
    type Result = Vec<MemoryPhases>;

    fn known(&mut self, known: &Known) {
        self.working.known(known);
    }

    fn add(&mut self, batch: &Batch<'_>) {
        self.working.add(batch);
    }

    fn needs(&self) -> Detail {
        self.working.needs()
    }

    fn page_run(&mut self, run: &PageRun) {
        self.working.page_run(run);
    }

    fn frequency_slice(&mut self, slice: &FrequencySlice) {
        self.working.frequency_slice(slice);
    }

    fn restart(&mut self) {
        self.working.restart();
    }

    fn append(&mut self, later: Self) {
        self.working.append(later.working);
    }

    fn merge(&mut self, other: Self) {
        self.working.merge(other.working);
    }

    fn result(&self) -> Vec<MemoryPhases> {
        self.working.result().iter().map(phases).collect()
    }
}
