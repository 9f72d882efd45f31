//! Finds hot pages and lines: counts the touches of each page and line, how few pages have most of
//! the touches, and how many consecutive touches are to one page.
//!
//! An access touches each line that it has bytes of, once. Memory: as in
//! [`page_counts`](super::page_counts) for each distinct page, and the last page of each thread.
//! [`Analysis::append`] is exact, except that runs end between the pieces. [`Analysis::merge`]
//! keeps the pages of each memory apart: pages of different memories are different, even with the
//! same address.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use hmtt_format::PhysAddr;
use serde::{Deserialize, Serialize};

use super::histogram::{Histogram, limits};
use super::page_counts::PageCounts;
use super::{Analysis, Batch, Detail, Gap, LINE_LOG2, PAGE_LOG2, PageRun, runs};

/// Shares of all touches, in percent. The result has the minimum number of pages for each share.
const SHARES: [u32; 4] = [50, 90, 99, 100];

/// A page or line, and its touches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Hot {
    /// Number of touches.
    pub touches: u64,
    /// Number of the memory, from 1.
    pub source: u64,
    /// Address of the first byte.
    #[serde(serialize_with = "hexadecimal")]
    pub address: u64,
}

/// Writes an address as text that no reader takes for a decimal number.
pub(super) fn hexadecimal<S: serde::Serializer>(
    address: &u64,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&format_args!("{address:#x}"))
}

/// Reads an address that [`hexadecimal`] has written.
pub(super) fn from_hexadecimal<'de, D: serde::Deserializer<'de>>(
    deserializer: D,
) -> Result<u64, D::Error> {
    let text = <String as serde::Deserialize>::deserialize(deserializer)?;
    let address = text.strip_prefix("0x").and_then(PhysAddr::from_hex);
    address.map(|address| address.0).ok_or_else(|| {
        serde::de::Error::custom(format_args!("address {text:?} is not hexadecimal with 0x"))
    })
}

/// Number of the hottest pages that together have a share of all touches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Concentration {
    /// The share, in percent.
    pub share_percent: u32,
    /// Minimum number of pages that have this share.
    pub pages: u64,
}

/// Number of runs with a length in a range. A run is a series of consecutive touches of one page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Runs {
    /// Minimum number of touches of a run.
    pub at_least: u64,
    /// Maximum number of touches of a run.
    pub at_most: u64,
    /// Number of runs.
    pub runs: u64,
}

/// The result: pages and lines with most touches, and runs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct HotPages {
    /// Touches of lines, and accesses of page runs.
    pub touches: u64,
    /// Accesses of page runs, whose lines are not known.
    pub page_run_accesses: u64,
    /// Distinct pages of 4 KiB.
    pub pages: u64,
    /// Distinct lines of 64 bytes.
    pub lines: u64,
    /// Pages with most touches, in descending order; pages with equal touches by memory and
    /// address.
    pub hot_pages: Vec<Hot>,
    /// Lines with most touches, in descending order; touches of page runs are not known by line.
    pub hot_lines: Vec<Hot>,
    /// Minimum numbers of pages that have 50, 90, 99 and 100 % of all touches.
    pub concentration: Vec<Concentration>,
    /// Numbers of runs by length. A run is a series of consecutive touches of one page by one
    /// thread or card.
    pub page_runs: Vec<Runs>,
}

/// Counts of pages and lines.
///
/// ```
/// use hmtt::analysis::{Analysis, Batch, pages::Pages};
///
/// let mut pages = Pages::new(1);
/// pages.add(&Batch::new(&[0x1000, 0x1040, 0x1000, 0x5000], &[false; 4]));
/// let found = pages.result();
/// assert_eq!((found.hot_pages[0].address, found.hot_pages[0].touches), (0x1000, 3));
/// assert_eq!((found.hot_lines[0].address, found.hot_lines[0].touches), (0x1000, 2));
/// ```
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Pages {
    most: usize,
    /// Counts of each memory. Accesses are added to the first one.
    memories: Vec<PageCounts>,
    run_lengths: Histogram,
    /// The unfinished run of each thread, by the thread's number plus 1; the run of accesses
    /// without a thread is at 0.
    open: BTreeMap<u64, runs::Run>,
}

impl Pages {
    /// Begins without accesses. `most`: maximum number of hot pages that are listed in the result,
    /// and also of hot lines.
    pub fn new(most: usize) -> Self {
        let (run_lengths, open) = Default::default();
        Pages { most, memories: vec![PageCounts::default()], run_lengths, open }
    }

    /// The counts of memories, in the order in which they were merged.
    pub fn counts(&self) -> &[PageCounts] {
        &self.memories
    }

    fn end_runs(&mut self) {
        for (_, run) in std::mem::take(&mut self.open).into_values() {
            self.run_lengths.add(run);
        }
    }

    /// The hottest pages or lines. `units`: passes on the touches and address of each page or
    /// line of a memory.
    fn hottest(&self, units: impl Fn(&PageCounts, &mut dyn FnMut(u64, u64))) -> Vec<Hot> {
        let mut heap = BinaryHeap::new();
        for (memory, source) in self.memories.iter().zip(1..) {
            units(memory, &mut |touches, address| {
                let hot = Reverse((touches, Reverse((source, address))));
                // Nearly all pages and lines are colder than the coldest one in the list.
                if heap.len() >= self.most && heap.peek().is_none_or(|coldest| hot > *coldest) {
                    return;
                }
                heap.push(hot);
                if heap.len() > self.most {
                    heap.pop();
                }
            });
        }
        let sorted = heap.into_sorted_vec().into_iter();
        let hot = |Reverse((touches, Reverse((source, address))))| Hot { touches, source, address };
        sorted.map(hot).collect()
    }

    fn concentration(&self) -> Vec<Concentration> {
        let pages = self.memories.iter().flat_map(PageCounts::iter);
        let mut touches: Vec<u64> = pages.map(|page| page.touches()).collect();
        touches.sort_unstable_by_key(|touches| Reverse(*touches));
        let total: u128 = touches.iter().map(|touches| u128::from(*touches)).sum();
        let (mut sum, mut pages, mut next) = (0u128, 0, touches.into_iter());
        let with = |share_percent: u32| {
            while sum * 100 < total * u128::from(share_percent) {
                sum += u128::from(next.next().unwrap_or(0));
                pages += 1;
            }
            Concentration { share_percent, pages }
        };
        SHARES.into_iter().map(with).collect()
    }
}

impl Analysis for Pages {
    type Result = HotPages;

    fn add(&mut self, batch: &Batch<'_>) {
        let Pages { memories, run_lengths, open, .. } = self;
        let Some(counts) = memories.first_mut() else { return };
        let thread = batch.thread().map_or(0, |thread| u64::from(thread) + 1);
        let mut last = open.get(&thread).copied().unwrap_or_default();
        runs::pieces(batch, |lines| {
            counts.touch(lines);
            runs::add(lines, &mut last, run_lengths);
        });
        if last.1 > 0 {
            open.insert(thread, last);
        }
    }

    fn needs(&self) -> Detail {
        Detail::Page
    }

    fn page_run(&mut self, run: &PageRun) {
        let Pages { memories, run_lengths, open, .. } = self;
        let Some(counts) = memories.first_mut() else { return };
        let (page, accesses) = (run.address >> PAGE_LOG2, run.accesses());
        counts.add_run(page, accesses);
        // The card may have cut a longer run, so the last run is continued.
        let last = open.entry(0).or_default();
        if last.1 > 0 && last.0 != page {
            run_lengths.add(last.1);
            last.1 = 0;
        }
        *last = (page, last.1.saturating_add(accesses));
    }

    /// Ends all runs, because the missing accesses may be to other pages.
    fn gap(&mut self, _: &Gap) {
        self.end_runs();
    }

    fn restart(&mut self) {
        self.end_runs();
    }

    fn append(&mut self, later: Self) {
        self.run_lengths.merge(&later.run_lengths);
        for (thread, run) in later.open {
            if let Some((_, ended)) = self.open.insert(thread, run) {
                self.run_lengths.add(ended);
            }
        }
        let mut later = later.memories.into_iter();
        if let (Some(own), Some(more)) = (self.memories.first_mut(), later.next()) {
            own.append(&more);
        }
        self.memories.extend(later);
    }

    fn merge(&mut self, other: Self) {
        self.run_lengths.merge(&other.run_lengths);
        other.open.into_values().for_each(|(_, run)| self.run_lengths.add(run));
        self.memories.extend(other.memories);
    }

    fn result(&self) -> HotPages {
        let mut runs = self.run_lengths.clone();
        self.open.values().for_each(|(_, run)| runs.add(*run));
        let page_runs = runs.counts().iter().enumerate().filter(|(_, runs)| **runs > 0).map(
            |(bucket, runs)| {
                let (at_least, at_most) = limits(bucket);
                Runs { at_least, at_most, runs: *runs }
            },
        );
        let pages = |counts: &PageCounts, add: &mut dyn FnMut(u64, u64)| {
            counts.iter().for_each(|page| add(page.touches(), page.page << PAGE_LOG2));
        };
        let lines = |counts: &PageCounts, add: &mut dyn FnMut(u64, u64)| {
            counts.lines().for_each(|(line, touches)| add(touches, line << LINE_LOG2));
        };
        let touched_lines = || self.memories.iter().flat_map(PageCounts::lines);
        let touches = touched_lines().map(|(_, touches)| touches).fold(0, u64::saturating_add);
        let of_runs = self.memories.iter().map(PageCounts::run_accesses);
        let page_run_accesses = of_runs.fold(0, u64::saturating_add);
        HotPages {
            touches: touches.saturating_add(page_run_accesses),
            page_run_accesses,
            pages: self.memories.iter().map(PageCounts::pages).sum(),
            lines: touched_lines().count() as u64,
            hot_pages: self.hottest(pages),
            hot_lines: self.hottest(lines),
            concentration: self.concentration(),
            page_runs: page_runs.collect(),
        }
    }
}
