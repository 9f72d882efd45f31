//! Counts the touches of each line, page by page.
//!
//! Memory: 140 to 158 bytes for each distinct page, up to 470 for a page without neighbours. The
//! count of a line has 2 bytes, so that more counts fit into caches. A separate table counts how
//! often a count has passed 2^16.

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::hash::Table;
use super::list;
use super::page_table::PageTable;
use super::runs::TOGETHER;
use super::{LINE_LOG2, PAGE_LOG2};

/// Number of lines of a page: 64.
pub const PAGE_LINES: usize = 1 << (PAGE_LOG2 - LINE_LOG2);

/// Touches of the lines of a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageCount {
    /// Number of the page.
    pub page: u64,
    /// Touches of each line of the page.
    pub lines: [u64; PAGE_LINES],
    /// Accesses of page runs, whose lines are not known.
    pub run_accesses: u64,
}

impl PageCount {
    /// Touches of all lines, and accesses of runs.
    pub fn touches(&self) -> u64 {
        self.lines.iter().fold(self.run_accesses, |sum, line| sum.saturating_add(*line))
    }
}

/// Counts of lines, by page.
#[derive(Clone, Debug, Default)]
pub struct PageCounts {
    /// The index of each page in `pages`, plus 1.
    places: PageTable<u32>,
    pages: Vec<u64>,
    /// Touches of lines modulo 2^16: for each page, the counts of its [`PAGE_LINES`] lines.
    counts: Vec<u16>,
    /// How often the count of each line has passed 2^16.
    passed: Table<u64>,
    /// Accesses of page runs, by page.
    runs: Table<u64>,
}

impl PageCounts {
    /// Number of distinct pages.
    pub fn pages(&self) -> u64 {
        self.pages.len() as u64
    }

    /// The index of a page in `pages`. A new page is added.
    #[inline]
    fn place(&mut self, page: u64) -> usize {
        let place = self.places.entry(page);
        if *place == 0 {
            *place = self.pages.len() as u32 + 1;
            self.pages.push(page);
            self.counts.resize(self.pages.len() * PAGE_LINES, 0);
        }
        *place as usize - 1
    }

    /// The index of a line in `counts`. A new page is added.
    #[inline]
    fn place_of(&mut self, line: u64) -> usize {
        self.place(line / PAGE_LINES as u64) * PAGE_LINES + line as usize % PAGE_LINES
    }

    /// Counts one touch of each element of `lines`. A line may occur several times.
    #[inline]
    pub fn touch(&mut self, lines: &[u64]) {
        let mut places = [0; TOGETHER];
        for lines in lines.chunks(TOGETHER) {
            for (place, line) in places.iter_mut().zip(lines) {
                *place = self.place_of(*line);
            }
            // The loop is so short that the processor reads the counts of many lines at once.
            for (place, line) in places.iter().zip(lines) {
                let count = &mut self.counts[*place];
                *count = count.wrapping_add(1);
                if *count == 0 {
                    let passed = self.passed.entry(*line);
                    *passed = passed.saturating_add(1);
                }
            }
        }
    }

    /// Counts touches of a line.
    fn add(&mut self, line: u64, touches: u64) {
        let place = self.place_of(line);
        let count = &mut self.counts[place];
        let sum = u128::from(*count) + u128::from(touches);
        *count = sum as u16;
        let passed = (sum >> u16::BITS) as u64;
        if passed > 0 {
            let sum = self.passed.entry(line);
            *sum = sum.saturating_add(passed);
        }
    }

    /// Counts accesses to a page whose lines in the page are not known.
    pub fn add_run(&mut self, page: u64, accesses: u64) {
        self.place(page);
        let sum = self.runs.entry(page);
        *sum = sum.saturating_add(accesses);
    }

    /// Accesses of all page runs.
    pub fn run_accesses(&self) -> u64 {
        self.runs.iter().map(|(_, accesses)| accesses).fold(0, u64::saturating_add)
    }

    /// Adds the counts of a later piece.
    pub fn append(&mut self, later: &PageCounts) {
        later.lines().for_each(|(line, touches)| self.add(line, touches));
        later.runs.iter().for_each(|(page, accesses)| self.add_run(page, accesses));
    }

    /// All pages, in the order of their first touches.
    pub fn iter(&self) -> impl Iterator<Item = PageCount> {
        self.pages.iter().zip(self.counts.chunks_exact(PAGE_LINES)).map(|(page, counts)| {
            let mut lines = [0; PAGE_LINES];
            lines.iter_mut().zip(counts).for_each(|(line, count)| *line = u64::from(*count));
            if !self.passed.is_empty() {
                for (line, count) in (page * PAGE_LINES as u64..).zip(&mut lines) {
                    let passed = self.passed.get(line).unwrap_or(0);
                    *count = count.saturating_add(passed.saturating_mul(1 << u16::BITS));
                }
            }
            let run_accesses =
                if self.runs.is_empty() { 0 } else { self.runs.get(*page).unwrap_or(0) };
            PageCount { page: *page, lines, run_accesses }
        })
    }

    /// All lines that were touched, with their touches.
    pub fn lines(&self) -> impl Iterator<Item = (u64, u64)> {
        self.iter().flat_map(|page| {
            let lines = (page.page * PAGE_LINES as u64..).zip(page.lines);
            lines.filter(|(_, touches)| *touches > 0)
        })
    }
}

/// Serialises the touched lines as a list.
struct Lines<'a>(&'a PageCounts);
/// Serialises the accesses of page runs as a list.
struct Runs<'a>(&'a PageCounts);

impl Serialize for Lines<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        list::serialize(serializer, || self.0.lines())
    }
}

impl Serialize for Runs<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        list::serialize(serializer, || self.0.runs.iter())
    }
}

/// Serialises a list of lines with their touches, and a list of pages with the accesses of their
/// runs.
impl Serialize for PageCounts {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        (Lines(self), Runs(self)).serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for PageCounts {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut counts = PageCounts::default();
        type List = Vec<(u64, u64)>;
        let (lines, runs) = <(List, List)>::deserialize(deserializer)?;
        for (line, touches) in lines {
            counts.add(line & u64::MAX >> LINE_LOG2, touches);
        }
        for (page, accesses) in runs {
            counts.add_run(page & u64::MAX >> PAGE_LOG2, accesses);
        }
        Ok(counts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_beyond_16_bits_are_whole() {
        let mut counts = PageCounts::default();
        let line = (7 << 6) + 5;
        counts.add(line, u16::MAX.into());
        counts.touch(&[line, line]);
        assert_eq!(counts.lines().collect::<Vec<_>>(), [(line, (1 << 16) + 1)]);
        counts.add(line, 1 << 33);
        let text = serde_json::to_string(&counts).unwrap();
        let read: PageCounts = serde_json::from_str(&text).unwrap();
        assert_eq!(read.lines().collect::<Vec<_>>(), [(line, (1 << 33) + (1 << 16) + 1)]);
        assert_eq!(read.iter().next().unwrap().touches(), (1 << 33) + (1 << 16) + 1);
    }
}
