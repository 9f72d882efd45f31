//! Counts accesses over time: reads and writes in each slice.
//!
//! Memory: 24 bytes for each slice with accesses, at most 24 MiB ([`slices`](super::slices)).
//! [`Analysis::append`] is exact if slices are of clocks; slices of accesses begin anew in the
//! later piece. [`Analysis::merge`] keeps the slices of each memory apart, because clocks of
//! different sources are not related; `hmtt merge` relates the clocks of captures.

use serde::{Deserialize, Serialize};

use super::slices::{Slice, SliceLength, SliceUnit, Slices};
use super::{Analysis, Batch, Detail, FrequencySlice, Known, PageRun};

/// The reads and writes of a slice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Counts {
    reads: u64,
    writes: u64,
}

impl Slice for Counts {
    fn join(&mut self, next: &Self) {
        self.reads = self.reads.saturating_add(next.reads);
        self.writes = self.writes.saturating_add(next.writes);
    }
}

/// The accesses of a slice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Rate {
    /// Number of the slice, from 0: it begins at this multiple of the length.
    pub slice: u64,
    /// Accesses that read.
    pub reads: u64,
    /// Accesses that write.
    pub writes: u64,
}

/// Accesses to a memory over time.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Rates {
    /// Number of the memory, from 1.
    pub source: u64,
    /// The unit of the slices.
    pub slice_unit: SliceUnit,
    /// Length of a slice in its unit.
    pub slice_length: u64,
    /// The length in seconds, if slices are of clocks.
    pub slice_seconds: Option<f64>,
    /// Slices with accesses.
    pub slices: Vec<Rate>,
}

/// Accesses in slices.
///
/// ```
/// use hmtt::analysis::{Analysis, Batch, Known, frequency::Frequency, slices::SliceLength};
///
/// let mut frequency = Frequency::new(SliceLength { ns: 10, accesses: 100 });
/// frequency.known(&Known { clocks: true, tck_ps: Some(2000), ..Known::default() });
/// frequency.add(&Batch::new(&[0; 3], &[true, false, true]).with_clocks(&[4, 5, 29]));
/// let found = &frequency.result()[0];
/// let slices: Vec<_> = found.slices.iter().map(|one| (one.slice, one.reads, one.writes)).collect();
/// assert_eq!((found.slice_length, slices), (5, vec![(0, 0, 1), (1, 1, 0), (5, 0, 1)]));
/// ```
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Frequency {
    known: Known,
    own: Slices<Counts>,
    others: Vec<(Known, Slices<Counts>)>,
}

impl Frequency {
    /// Creates an analysis with slices of this length.
    pub fn new(length: SliceLength) -> Self {
        Frequency { known: Known::default(), own: Slices::new(length), others: Vec::new() }
    }
}

impl Analysis for Frequency {
    type Result = Vec<Rates>;

    fn known(&mut self, known: &Known) {
        self.known = *known;
        self.own.known(known);
    }

    fn add(&mut self, batch: &Batch<'_>) {
        self.own.split(batch, Counts::default(), |rows, _, counts| {
            let of_slice = &batch.writes()[rows];
            let writes = of_slice.iter().map(|is_write| u64::from(*is_write)).sum::<u64>();
            let reads = of_slice.len() as u64 - writes;
            counts.writes = counts.writes.saturating_add(writes);
            counts.reads = counts.reads.saturating_add(reads);
        });
    }

    fn needs(&self) -> Detail {
        Detail::Time
    }

    fn page_run(&mut self, run: &PageRun) {
        self.own.record(run.clock, run.accesses(), Counts::default(), |_, counts| {
            counts.join(&Counts { reads: run.reads, writes: run.writes });
        });
    }

    /// Counts all accesses of a slice of the card at the clock at which the card's slice begins.
    fn frequency_slice(&mut self, slice: &FrequencySlice) {
        self.own.record(slice.clock, slice.accesses(), Counts::default(), |_, counts| {
            counts.join(&Counts { reads: slice.reads, writes: slice.writes });
        });
    }

    fn restart(&mut self) {
        self.own.restart();
    }

    fn append(&mut self, later: Self) {
        self.known.append(&later.known);
        self.own.append(later.own);
        self.others.extend(later.others);
    }

    fn merge(&mut self, other: Self) {
        self.others.push((other.known, other.own));
        self.others.extend(other.others);
    }

    fn result(&self) -> Vec<Rates> {
        let own = (&self.known, &self.own);
        let memories =
            [own].into_iter().chain(self.others.iter().map(|(known, slices)| (known, slices)));
        let rates = |((known, counts), source): ((&Known, &Slices<Counts>), u64)| {
            let is_time = counts.unit() == SliceUnit::Clocks;
            let slices = counts.sorted().into_iter();
            let rate = |(slice, Counts { reads, writes })| Rate { slice, reads, writes };
            Rates {
                source,
                slice_unit: counts.unit(),
                slice_length: counts.width(),
                slice_seconds: known.seconds(counts.width()).filter(|_| is_time),
                slices: slices.map(rate).collect(),
            }
        };
        memories.zip(1..).map(rates).collect()
    }
}
