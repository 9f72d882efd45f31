//! Sums up accesses, bytes, time, distinct pages and lines, and losses.
//!
//! Memory: 8 to 26 bytes for each distinct page, up to 400 for a page without neighbours
//! ([`page_table`](super::page_table)), and 50 for each range of elements that were not passed on
//! one by one. [`Analysis::append`] is exact; only if the clock begins again within the later
//! piece, the time between the pieces is left out. [`Analysis::merge`] adds all counts. Memories of
//! one board are runs of the board, one after the other, so their times are added. Different
//! boards, and memories without a known board, were used at the same time, so the longest time
//! counts for all.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::page_table::PageTable;
use super::{
    Analysis, Batch, Detail, ElementRange, FrequencySlice, Gap, Known, LINE_LOG2, PAGE_LOG2,
    PageRun,
};
use crate::page_ranges::PageRanges;

/// log2 of the lines of a page.
const PAGE_LINES_LOG2: u32 = PAGE_LOG2 - LINE_LOG2;
/// log2 of the number of pages that have a bit in one entry of `run_pages`.
const RUN_PAGES_LOG2: u32 = u64::BITS.ilog2();

/// The sums of accesses.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Sums {
    /// Number of accesses.
    pub accesses: u64,
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
    /// Distinct lines of 64 bytes, of the accesses whose lines are known.
    pub lines: u64,
    /// Threads that have made the accesses, if they are known.
    pub thread_count: Option<u64>,
    /// Clocks from the first access to the last access of a session, summed over all sessions;
    /// `None` if there are no clocks.
    pub duration_clocks: Option<u64>,
    /// The duration in seconds; `None` if the period of the clock is not known.
    pub duration_seconds: Option<f64>,
    /// Accesses in a second; `None` if the duration is 0, or the time of any access is not known.
    pub accesses_per_second: Option<f64>,
    /// Bytes in a second; `None` without [`Sums::accesses_per_second`], or if the size of any
    /// access is not known.
    pub bytes_per_second: Option<f64>,
    /// Places at which accesses are missing.
    pub gap_count: u64,
    /// Accesses that are missing at these places, as far as their numbers are known.
    pub lost_accesses: u64,
}

impl Sums {
    fn add(&mut self, other: &Sums) {
        let add = |sum: &mut u64, more: u64| *sum = sum.saturating_add(more);
        add(&mut self.accesses, other.accesses);
        add(&mut self.reads, other.reads);
        add(&mut self.writes, other.writes);
        add(&mut self.access_bytes, other.access_bytes);
        add(&mut self.unsized_accesses, other.unsized_accesses);
        add(&mut self.page_run_accesses, other.page_run_accesses);
        add(&mut self.frequency_accesses, other.frequency_accesses);
        add(&mut self.pages, other.pages);
        add(&mut self.lines, other.lines);
        add(&mut self.gap_count, other.gap_count);
        add(&mut self.lost_accesses, other.lost_accesses);
        let threads = (self.thread_count, other.thread_count);
        self.thread_count = match threads {
            (Some(own), Some(more)) => Some(own.saturating_add(more)),
            (own, more) => own.or(more),
        };
    }
}

/// The time in which a memory, or a board in all its runs, was used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
struct UsedTime {
    clocks: Option<u64>,
    /// `None` if the period of the clock is not known.
    seconds: Option<f64>,
}

impl UsedTime {
    /// The sum of both times, one after the other.
    fn then(self, later: UsedTime) -> UsedTime {
        let seconds = self.seconds.zip(later.seconds).map(|(own, more)| own + more);
        let clocks = self.clocks.zip(later.clocks).map(|(own, more)| own.saturating_add(more));
        UsedTime {
            clocks: clocks.or(self.clocks).or(later.clocks),
            seconds: seconds.or(self.seconds).or(later.seconds),
        }
    }

    /// Returns the longer one of two times as a whole, so that its clocks and its seconds are of
    /// the same board.
    fn or_longer(self, other: UsedTime) -> UsedTime {
        let is_longer = match (self.seconds, other.seconds) {
            (Some(own), Some(more)) => more > own,
            _ => other.clocks > self.clocks,
        };
        if is_longer { other } else { self }
    }
}

/// The times of merged memories.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct BoardTimes {
    /// The time of all runs of each board, by the number of the board.
    boards: BTreeMap<u32, UsedTime>,
    /// The longest time of the memories without a known board.
    others: UsedTime,
}

impl BoardTimes {
    /// Adds the time of a memory: to the time of its board, or as the longest time if the board is
    /// not known.
    fn add(&mut self, board: Option<u32>, time: UsedTime) {
        match board {
            Some(board) => {
                let sum = self.boards.entry(board).or_default();
                *sum = sum.then(time);
            }
            None => self.others = self.others.or_longer(time),
        }
    }

    fn add_all(&mut self, other: BoardTimes) {
        other.boards.into_iter().for_each(|(board, time)| self.add(Some(board), time));
        self.add(None, other.others);
    }

    fn longest(&self) -> UsedTime {
        self.boards.values().fold(self.others, |longest, time| longest.or_longer(*time))
    }
}

/// Sums up accesses.
///
/// ```
/// use hmtt::analysis::{Analysis, Batch, summary::Summary};
///
/// let mut summary = Summary::default();
/// summary.add(&Batch::new(&[0x1000, 0x1040], &[false, true]).with_unit(Some(64)));
/// let sums = summary.result();
/// assert_eq!((sums.accesses, sums.writes, sums.access_bytes), (2, 1, 128));
/// assert_eq!((sums.pages, sums.lines, sums.duration_clocks), (1, 2, None));
/// ```
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Summary {
    known: Known,
    /// Sums of this memory, without the fields that the result computes.
    own: Sums,
    /// For each page, a bit for each touched line.
    pages: PageTable<u64>,
    /// A bit for each page that has runs, by the number of the page divided by 64.
    run_pages: PageTable<u64>,
    /// Pages whose lines are all touched by ranges of elements.
    ranges: PageRanges,
    threads: BTreeSet<u32>,
    /// Clocks of earlier sessions.
    closed_clocks: u64,
    /// Whether the clock has begun at 0 again.
    has_restarted: bool,
    /// The first and the last clock of the current session.
    session: Option<(u64, u64)>,
    /// Sums over merged memories, without their times.
    others: Sums,
    /// Times of merged memories.
    times: BoardTimes,
    /// Whether a merged memory has accesses whose time is not known in seconds.
    is_timeless: bool,
}

impl Summary {
    fn touch(&mut self, batch: &Batch<'_>) {
        batch.each_unit(LINE_LOG2, |line| {
            *self.pages.entry(line >> PAGE_LINES_LOG2) |=
                1 << (line & ((1 << PAGE_LINES_LOG2) - 1));
        });
    }

    fn touch_lines(&mut self, first: u64, last: u64) {
        for line in first..=last {
            *self.pages.entry(line >> PAGE_LINES_LOG2) |=
                1 << (line & ((1 << PAGE_LINES_LOG2) - 1));
        }
    }

    fn clocks(&mut self, clocks: &[u64]) {
        // Clocks of a table can go back.
        let bounds = clocks.iter().min().zip(clocks.iter().max());
        let Some((first, last)) = bounds else { return };
        let (earliest, latest) = self.session.unwrap_or((*first, *last));
        self.session = Some((earliest.min(*first), latest.max(*last)));
    }

    /// Adds accesses of which only the number is known. `bytes`: their bytes, and the number of
    /// accesses whose size is not known.
    fn counted(&mut self, reads: u64, writes: u64, bytes: (u64, u64)) {
        let add = |sum: &mut u64, more: u64| *sum = sum.saturating_add(more);
        add(&mut self.own.accesses, reads.saturating_add(writes));
        add(&mut self.own.reads, reads);
        add(&mut self.own.writes, writes);
        add(&mut self.own.access_bytes, bytes.0);
        add(&mut self.own.unsized_accesses, bytes.1);
    }

    /// Number of pages that only page runs have accessed.
    fn pages_of_runs(&self) -> u64 {
        let of_group = |(group, bits): (u64, u64)| {
            let pages = (0..u64::BITS).filter(move |bit| bits >> bit & 1 != 0);
            pages.map(move |bit| group << RUN_PAGES_LOG2 | u64::from(bit))
        };
        let pages = self.run_pages.iter().flat_map(of_group);
        let is_new = |page: &u64| self.pages.get(*page) == 0 && !self.ranges.contains(*page);
        pages.filter(is_new).count() as u64
    }

    fn sizes(&mut self, batch: &Batch<'_>) {
        let (bytes, unknown) = batch.sum_of_sizes();
        self.own.access_bytes = self.own.access_bytes.saturating_add(bytes);
        self.own.unsized_accesses = self.own.unsized_accesses.saturating_add(unknown);
    }

    fn own_clocks(&self) -> Option<u64> {
        let of_session = self.session.map(|(first, last)| last.saturating_sub(first));
        let is_known = self.known.clocks || of_session.is_some() || self.closed_clocks > 0;
        is_known.then(|| self.closed_clocks.saturating_add(of_session.unwrap_or(0)))
    }

    fn own_time(&self) -> UsedTime {
        let clocks = self.own_clocks();
        UsedTime { clocks, seconds: clocks.and_then(|clocks| self.known.seconds(clocks)) }
    }

    /// Whether there are accesses of this memory whose time is not known in seconds.
    fn is_own_timeless(&self) -> bool {
        self.own.accesses > 0 && self.own_time().seconds.is_none()
    }
}

impl Analysis for Summary {
    type Result = Sums;

    fn known(&mut self, known: &Known) {
        self.known = *known;
    }

    fn add(&mut self, batch: &Batch<'_>) {
        let count = batch.len() as u64;
        let writes = batch.writes().iter().map(|is_write| u64::from(*is_write)).sum::<u64>();
        let add = |sum: &mut u64, more: u64| *sum = sum.saturating_add(more);
        add(&mut self.own.accesses, count);
        add(&mut self.own.writes, writes);
        add(&mut self.own.reads, count - writes);
        self.threads.extend(batch.thread());
        self.clocks(batch.clocks().unwrap_or_default());
        self.sizes(batch);
        self.touch(batch);
    }

    fn elements(&mut self, range: &ElementRange) {
        let add = |sum: &mut u64, more: u64| *sum = sum.saturating_add(more);
        add(&mut self.own.accesses, range.elements);
        add(
            if range.is_write { &mut self.own.writes } else { &mut self.own.reads },
            range.elements,
        );
        add(&mut self.own.access_bytes, range.bytes());
        self.threads.insert(range.thread);
        let (first, last) = (range.address >> LINE_LOG2, range.last() >> LINE_LOG2);
        for (first, last) in
            self.ranges.add_lines(first, last, PAGE_LINES_LOG2).into_iter().flatten()
        {
            self.touch_lines(first, last);
        }
    }

    fn needs(&self) -> Detail {
        Detail::Time
    }

    fn page_run(&mut self, run: &PageRun) {
        self.counted(run.reads, run.writes, run.bytes());
        let sum = &mut self.own.page_run_accesses;
        *sum = sum.saturating_add(run.accesses());
        self.clocks(&[run.clock, run.last_clock()]);
        let page = run.address >> PAGE_LOG2;
        *self.run_pages.entry(page >> RUN_PAGES_LOG2) |= 1 << (page & (u64::from(u64::BITS) - 1));
    }

    fn frequency_slice(&mut self, slice: &FrequencySlice) {
        self.counted(slice.reads, slice.writes, slice.bytes());
        let sum = &mut self.own.frequency_accesses;
        *sum = sum.saturating_add(slice.accesses());
        self.clocks(&[slice.clock, slice.last_clock()]);
    }

    fn gap(&mut self, gap: &Gap) {
        self.own.gap_count = self.own.gap_count.saturating_add(1);
        let lost = gap.lost_accesses.unwrap_or(0);
        self.own.lost_accesses = self.own.lost_accesses.saturating_add(lost);
    }

    fn restart(&mut self) {
        self.closed_clocks = self.own_clocks().unwrap_or(0);
        self.session = None;
        self.has_restarted = true;
    }

    fn append(&mut self, later: Self) {
        self.known.append(&later.known);
        self.own.add(&later.own);
        self.others.add(&later.others);
        self.times.add_all(later.times);
        self.is_timeless |= later.is_timeless;
        later.pages.iter().for_each(|(page, lines)| *self.pages.entry(page) |= lines);
        later.run_pages.iter().for_each(|(group, bits)| *self.run_pages.entry(group) |= bits);
        self.ranges.append(&later.ranges);
        self.threads.extend(later.threads);
        if later.has_restarted {
            // The later piece has restarts. Its first session, which may continue this one, is
            // among its closed clocks.
            self.restart();
            self.closed_clocks = self.closed_clocks.saturating_add(later.closed_clocks);
        }
        self.session = match (self.session, later.session) {
            (Some(own), Some(more)) => Some((own.0.min(more.0), own.1.max(more.1))),
            (own, more) => own.or(more),
        };
    }

    fn merge(&mut self, other: Self) {
        let result = other.result();
        self.is_timeless |= other.is_timeless || other.is_own_timeless();
        self.others.add(&result);
        self.times.add(other.known.board, other.own_time());
        self.times.add_all(other.times);
    }

    fn result(&self) -> Sums {
        let mut sums = self.own.clone();
        sums.pages = sums.pages.saturating_add(self.ranges.pages());
        sums.pages = sums.pages.saturating_add(self.pages_of_runs());
        sums.lines = sums.lines.saturating_add(self.ranges.pages() << PAGE_LINES_LOG2);
        let has_ranges = !self.ranges.is_empty();
        let is_single = |(page, _): &(u64, u64)| !has_ranges || !self.ranges.contains(*page);
        for (_, lines) in self.pages.iter().filter(is_single) {
            sums.pages = sums.pages.saturating_add(1);
            sums.lines = sums.lines.saturating_add(lines.count_ones().into());
        }
        sums.thread_count = (!self.threads.is_empty()).then_some(self.threads.len() as u64);
        let mut times = self.times.clone();
        times.add(self.known.board, self.own_time());
        let time = times.longest();
        (sums.duration_clocks, sums.duration_seconds) = (time.clocks, time.seconds);
        // Accesses whose time is not known must not count in a rate.
        let is_timeless = self.is_timeless || self.is_own_timeless();
        sums.add(&self.others);
        let seconds = sums.duration_seconds.filter(|seconds| *seconds > 0.0 && !is_timeless);
        sums.accesses_per_second = seconds.map(|seconds| sums.accesses as f64 / seconds);
        let has_bytes = sums.unsized_accesses == 0;
        let bytes = sums.access_bytes as f64;
        sums.bytes_per_second = seconds.filter(|_| has_bytes).map(|seconds| bytes / seconds);
        sums
    }
}
