//! Evaluates the dumps of the card's analysis: hot pages with bounds, reuse distances and the use
//! of banks.
//!
//! A bound is stated only if all data on which it depends were received: the complete dump, the
//! previous dump of the same part, and the dumps in between. Accesses that these dumps skipped
//! widen the bound.

use std::collections::BTreeMap;
use std::fmt;

use hmtt_format::Event;
use hmtt_format::event::{hot_page_at_most, other_page_at_most};
use hmtt_format::record::{
    ALL_PARTS, CountGroup, HOT_PARTS_LOG2, REUSE_COLD, REUSE_SAMPLE_LOG2, other_count,
};
use serde::Serialize;

use crate::decode::Item;

const PARTS: usize = 1 << HOT_PARTS_LOG2;

/// A page with bounds of its number of accesses.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct HotPage {
    /// Address of the page's first byte, hexadecimal.
    pub address: String,
    /// Lower bound of the accesses to the page.
    pub at_least: u64,
    /// Upper bound of the accesses to the page; `None` if dumps are missing.
    pub at_most: Option<u64>,
}

/// Row buffer outcomes of a bank.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Bank {
    /// Number of the rank.
    pub rank: u16,
    /// Number of the bank in its rank.
    pub bank: u16,
    /// Accesses to the open row after its first access.
    pub row_hits: u32,
    /// First accesses to a row of a closed bank.
    pub row_misses: u32,
    /// First accesses to a row for which another row was closed.
    pub row_conflicts: u32,
}

/// The content of one dump.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Dump {
    /// Clock at which the dump began.
    pub clock: u64,
    /// Clock from which the hot pages of the dump are counted; `None` if dumps are missing.
    pub since_clock: Option<u64>,
    /// Part of the table of hot pages that the dump holds; `None` stands for all parts.
    pub part: Option<u8>,
    /// Whether all records of the dump were received.
    pub complete: bool,
    /// Accesses since the previous dump that were not counted for hot pages.
    pub skipped_accesses: u64,
    /// Row buffer outcomes that were not counted.
    pub skipped_rows: u64,
    /// Runs of sampled pages that were not counted.
    pub skipped_runs: u64,
    /// Hot pages, in descending order of accesses.
    pub hot_pages: Vec<HotPage>,
    /// Upper bound of the accesses to each page of these parts that is not listed; `None` if dumps
    /// are missing.
    pub others_at_most: Option<u64>,
    /// Reuse distances, each with its number of runs of sampled pages. A distance is the
    /// approximate least number of distinct pages used in between. `None` stands for a distance
    /// beyond the stored pages, or for a first use.
    pub reuse: Vec<(Option<u64>, u32)>,
    /// Banks that were used.
    pub banks: Vec<Bank>,
    #[serde(skip)]
    number: Option<u8>,
    #[serde(skip)]
    records: u32,
    #[serde(skip)]
    entries: Vec<(String, u32, u32)>,
    #[serde(skip)]
    outcomes: BTreeMap<u16, [u32; 3]>,
}

/// Losses of a part since its last dump.
#[derive(Clone, Copy, Debug, Default)]
struct Since {
    clock: Option<u64>,
    skipped: u64,
}

/// Collects the dumps of a trace.
///
/// ```
/// # const CAPTURE: &[u8] = include_bytes!(concat!(env!("CARGO_MANIFEST_DIR"), "/examples/worked.pcapng"));
/// # fn main() -> Result<(), hmtt::pcapng::ReadError> {
/// let mut trace = hmtt::Trace::from_reader(CAPTURE)?;
/// let mut analysis = hmtt::report::analysis::Analysis::default();
/// for next in trace.items() {
///     analysis.item(&next?.1);
/// }
/// assert!(analysis.finish().is_empty(), "the card was not in analysis mode");
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Default)]
pub struct Analysis {
    dumps: Vec<Dump>,
    open: Option<Dump>,
    parts: [Since; PARTS],
    began: bool,
}

impl Analysis {
    /// Processes the next item of a trace.
    pub fn item(&mut self, item: &Item) {
        match item {
            Item::Event(event) => self.event(event),
            Item::Report { clock, .. } if !self.began => {
                self.began = true;
                self.parts = [Since { clock: Some(clock.0), skipped: 0 }; PARTS];
            }
            Item::Gap(gap) if gap.frames + gap.malformed_frames + u64::from(gap.records) != 0 => {
                self.close(false);
                self.parts = [Since::default(); PARTS];
            }
            Item::Restart | Item::NoEnd => {
                self.close(false);
                (self.parts, self.began) = Default::default();
            }
            _ => {}
        }
    }

    /// Completes the last dump and returns all dumps.
    pub fn finish(mut self) -> Vec<Dump> {
        self.close(false);
        self.dumps
    }

    fn event(&mut self, event: &Event) {
        match *event {
            Event::Interval { clock, part } => {
                self.close(false);
                let part = (part != ALL_PARTS).then_some(part);
                self.open = Some(Dump { clock: clock.0, part, records: 1, ..Dump::default() });
            }
            Event::HotPage { dump, address, count, votes } => {
                if let Some(open) = self.record(dump) {
                    open.entries.push((format!("0x{address}"), count, votes));
                }
            }
            Event::Count { dump, group, index, value } => self.count(dump, group, index, value),
            _ => {}
        }
    }

    /// Counts a record of the dump with this number. Returns the open dump; `None` if the record is
    /// of another dump, or if no dump is open.
    fn record(&mut self, number: u8) -> Option<&mut Dump> {
        let open = self.open.as_mut()?;
        if *open.number.get_or_insert(number) != number {
            self.close(false);
            return None;
        }
        open.records += 1;
        self.open.as_mut()
    }

    fn count(&mut self, dump: u8, group: CountGroup, index: u16, value: u32) {
        let Some(open) = self.record(dump) else { return };
        match (group, index) {
            (CountGroup::Other, other_count::ACCESSES_SKIPPED) => {
                open.skipped_accesses = value.into();
            }
            (CountGroup::Other, other_count::ROWS_SKIPPED) => open.skipped_rows = value.into(),
            (CountGroup::Other, other_count::RUNS_SKIPPED) => open.skipped_runs = value.into(),
            (CountGroup::Other, other_count::CLOSING) => {
                let complete = open.records == value.saturating_add(1);
                self.close(complete);
            }
            (CountGroup::Other, _) => {}
            (CountGroup::Reuse, index) => open.reuse.push((distance(index), value)),
            (state, index) => open.outcomes.entry(index).or_default()[state as usize] = value,
        }
    }

    fn close(&mut self, complete: bool) {
        let Some(mut dump) = self.open.take() else { return };
        dump.complete = complete;
        if complete {
            self.parts.iter_mut().for_each(|part| part.skipped += dump.skipped_accesses);
        } else {
            self.parts = [Since::default(); PARTS];
        }
        let parts = match dump.part {
            None => 0..PARTS,
            Some(part) => usize::from(part) % PARTS..usize::from(part) % PARTS + 1,
        };
        let slice = &mut self.parts[parts];
        // Where the bounds of parts differ, the widest is stated for all.
        let known = slice.iter().all(|part| part.clock.is_some());
        let skipped = slice.iter().map(|part| part.skipped).max().filter(|_| known);
        dump.since_clock = slice.iter().filter_map(|part| part.clock).min().filter(|_| known);
        dump.bound(skipped.filter(|_| complete));
        if complete {
            // Accesses to a part during its dump are skipped; this dump or the next one reports
            // their number.
            let skipped = dump.skipped_accesses;
            slice.fill(Since { clock: Some(dump.clock), skipped });
        }
        self.dumps.push(dump);
    }
}

/// Approximate least number of distinct pages between the uses that a bucket counts; `None` for the
/// bucket of first uses.
fn distance(bucket: u16) -> Option<u64> {
    let least = |bucket: u16| 1u64.checked_shl(u32::from(bucket) - 1).unwrap_or(0);
    match bucket {
        REUSE_COLD => None,
        0 => Some(0),
        bucket => Some(least(bucket.min(32)) << REUSE_SAMPLE_LOG2),
    }
}

impl Dump {
    /// Keeps only the first `top` hot pages; the other pages are included in `others_at_most`.
    pub fn keep(&mut self, top: usize) {
        let left_out = self.hot_pages.drain(self.hot_pages.len().min(top)..);
        for page in left_out {
            self.others_at_most = self.others_at_most.max(page.at_most);
        }
    }

    fn bound(&mut self, skipped: Option<u64>) {
        let entries = std::mem::take(&mut self.entries);
        let others = entries.iter().map(|(_, c, v)| u64::from(other_page_at_most(*c, *v)));
        let others = others.max().unwrap_or(0);
        self.others_at_most = skipped.map(|skipped| others + skipped);
        let page = |(address, count, votes): (String, u32, u32)| HotPage {
            address,
            at_least: count.into(),
            at_most: skipped.map(|skipped| u64::from(hot_page_at_most(count, votes)) + skipped),
        };
        self.hot_pages = entries.into_iter().map(page).collect();
        self.hot_pages.sort_by_key(|page| std::cmp::Reverse((page.at_least, page.at_most)));
        let outcomes = std::mem::take(&mut self.outcomes);
        let bank = |(index, [row_hits, row_misses, row_conflicts]): (u16, [u32; 3])| Bank {
            rank: index >> 4,
            bank: index & 15,
            row_hits,
            row_misses,
            row_conflicts,
        };
        self.banks = outcomes.into_iter().map(bank).collect();
    }
}

fn known(value: Option<u64>) -> String {
    value.map_or_else(|| "?".into(), |value| value.to_string())
}

impl fmt::Display for Dump {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let part = self.part.map_or_else(|| "all parts".into(), |part| format!("part {part}"));
        writeln!(f, "clocks {} to {}, {part}", known(self.since_clock), self.clock)?;
        if !self.complete {
            writeln!(f, "  incomplete: records of this dump are missing")?;
        }
        for page in &self.hot_pages {
            let HotPage { address, at_least, at_most } = page;
            writeln!(f, "  page {address:>10}  {at_least} to {} accesses", known(*at_most))?;
        }
        writeln!(f, "  any other page: at most {} accesses", known(self.others_at_most))?;
        for (distance, runs) in &self.reuse {
            match distance {
                Some(distance) => writeln!(f, "  reuse after about {distance} pages: {runs} runs")?,
                None => writeln!(f, "  reuse after more pages, or first use: {runs} runs")?,
            }
        }
        for Bank { rank, bank, row_hits, row_misses, row_conflicts } in &self.banks {
            writeln!(
                f,
                "  rank {rank} bank {bank}: {row_hits} hits, {row_misses} misses, {row_conflicts} conflicts"
            )?;
        }
        let skipped = [
            (self.skipped_accesses, "accesses by the hot pages"),
            (self.skipped_rows, "row outcomes"),
            (self.skipped_runs, "runs by the reuse distances"),
        ];
        for (number, what) in skipped.into_iter().filter(|(number, _)| *number != 0) {
            writeln!(f, "  skipped: {number} {what}")?;
        }
        Ok(())
    }
}
