//! Models the online statistics with simple code: counts one access after the other in maps.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashSet};

use hmtt_format::address_map::AddressMap;
use hmtt_format::frame::Sync;
use hmtt_format::{Block, Direction, Event, PhysAddr};
use hmtt_host::online::{AccessCounts, Activity, BankUse, HotPage, MAX_TRACKED_PAGES, RowUse};

use super::{HOT_PAGES, Rows, map};

/// The statistics of one card.
#[derive(Default)]
pub struct Model {
    rows: Option<Rows>,
    map: Option<AddressMap>,
    tag_window: Option<u64>,
    last: BTreeMap<(u32, u32), u32>,
    bank_totals: BTreeMap<(u32, u32), RowUse>,
    banks: BTreeMap<(u32, u32), RowUse>,
    pages: BTreeMap<u64, u64>,
    ever: HashSet<u64>,
    seen: AccessCounts,
}

impl Model {
    pub fn report(&mut self, rows: Rows, tag_window: Option<u64>) {
        self.tag_window = tag_window;
        if self.rows.replace(rows) != Some(rows) {
            let banks = (0..4).flat_map(|rank| (0..8).map(move |bank| (rank, bank)));
            self.banks = banks.map(|bank| (bank, RowUse::default())).collect();
            self.bank_totals = self.banks.clone();
            self.last.clear();
            self.map = Some(map(rows));
        }
    }

    pub fn data(&mut self, sync: Sync, words: &[u64]) {
        self.seen.frames += 1;
        let words: Vec<u64> = [&sync.encode()[..], words].concat();
        for event in Block::new(words.into_iter()).unwrap() {
            match event {
                Ok(Event::Access(access)) => {
                    self.seen.bytes += 1 << sync.unit_log2;
                    self.access(access.direction, access.address.0);
                }
                Ok(Event::Page { address, reads, writes, .. }) => {
                    self.seen.bytes += u64::from(reads + writes) * self.burst_bytes();
                    for _ in 0..reads {
                        self.run_access(Direction::Read, address.0);
                    }
                    for _ in 0..writes {
                        self.run_access(Direction::Write, address.0);
                    }
                }
                Ok(Event::Slice { reads, writes, .. }) if sync.unit_log2 == 0 => {
                    let (reads, writes) = (u64::from(reads), u64::from(writes));
                    self.seen.reads += reads;
                    self.seen.writes += writes;
                    self.seen.bytes += (reads + writes) * self.burst_bytes();
                    self.seen.pageless += reads + writes;
                }
                Ok(Event::Tag { direction, offset, .. }) => {
                    self.seen.bytes += self.burst_bytes();
                    match self.tag_window {
                        Some(base) => self.access(direction, base + u64::from(offset)),
                        None => {
                            self.count(direction);
                            self.seen.pageless += 1;
                        }
                    }
                }
                Ok(_) => {}
                Err(_) => break,
            }
        }
    }

    /// Bytes of a burst after a report: eight words of eight bytes.
    fn burst_bytes(&self) -> u64 {
        if self.rows.is_some() { 64 } else { 0 }
    }

    fn count(&mut self, direction: Direction) {
        match direction {
            Direction::Read => self.seen.reads += 1,
            Direction::Write => self.seen.writes += 1,
        }
    }

    fn page(&mut self, address: u64) {
        if address >> 12 < MAX_TRACKED_PAGES as u64 {
            *self.pages.entry(address >> 12).or_default() += 1;
            self.ever.insert(address >> 12);
        } else {
            self.seen.untracked += 1;
        }
    }

    fn row(&mut self, address: u64) {
        let Some(map) = &self.map else { return };
        let at = map.to_coordinates(address);
        let hit = self.last.insert((at.rank, at.bank), at.row) == Some(at.row);
        let bank = self.banks.get_mut(&(at.rank, at.bank)).unwrap();
        bank.accesses += 1;
        bank.row_hits += u64::from(hit);
    }

    fn access(&mut self, direction: Direction, address: u64) {
        self.count(direction);
        self.page(address);
        self.row(address);
    }

    fn run_access(&mut self, direction: Direction, address: u64) {
        self.count(direction);
        self.page(address);
        if self.rows == Some(Rows::OfWholePages) {
            self.row(address);
        }
    }

    fn end_slice(&mut self, link: usize) -> (AccessCounts, Vec<HotPage>, Vec<BankUse>) {
        let mut seen = std::mem::take(&mut self.seen);
        seen.accesses = seen.reads + seen.writes;
        seen.pages = self.pages.len() as u64;
        let mut pages: Vec<HotPage> = std::mem::take(&mut self.pages)
            .into_iter()
            .map(|(page, accesses)| HotPage { link, address: PhysAddr(page << 12), accesses })
            .collect();
        pages.sort_by_key(|page| (Reverse(page.accesses), page.address));
        let mut rows = RowUse::default();
        let mut banks = Vec::new();
        for (&(rank, bank), slice) in &mut self.banks {
            let slice = std::mem::take(slice);
            rows.accesses += slice.accesses;
            rows.row_hits += slice.row_hits;
            let total = self.bank_totals.get_mut(&(rank, bank)).unwrap();
            total.accesses += slice.accesses;
            total.row_hits += slice.row_hits;
            banks.push(BankUse { link, rank, bank, slice, total: *total });
        }
        seen.rows = self.rows.map(|_| rows);
        (seen, pages, banks)
    }
}

/// Returns the activity of all models, in the form of [`Statistics::activity`].
pub fn expected(models: &mut [Model], total: &mut AccessCounts) -> Activity {
    let mut activity = Activity::default();
    for (link, model) in models.iter_mut().enumerate() {
        let (seen, pages, banks) = model.end_slice(link);
        add(&mut activity.slice, &seen);
        activity.hot_pages.extend(pages);
        activity.banks.extend(banks);
    }
    activity.hot_pages.sort_by_key(|page| (Reverse(page.accesses), page.link, page.address));
    activity.hot_pages.truncate(HOT_PAGES);
    add(total, &activity.slice);
    total.pages = models.iter().map(|model| model.ever.len() as u64).sum();
    activity.total = *total;
    activity
}

fn add(to: &mut AccessCounts, seen: &AccessCounts) {
    to.frames += seen.frames;
    to.accesses += seen.accesses;
    to.reads += seen.reads;
    to.writes += seen.writes;
    to.bytes += seen.bytes;
    to.pages += seen.pages;
    to.pageless += seen.pageless;
    to.untracked += seen.untracked;
    if let Some(rows) = seen.rows {
        let sum = to.rows.get_or_insert_default();
        sum.accesses += rows.accesses;
        sum.row_hits += rows.row_hits;
    }
}
