//! Counts the frames of one card.

use hmtt::decode::frame::Body;
use hmtt_format::frame::{FrameKind, MAX_WORDS, SYNC_WORDS, Sync};
use hmtt_format::memory::MAX_BURST_LOG2;
use hmtt_format::{PhysAddr, Report};

use super::bank_rows::BankRowMap;
use super::banks::{BankCounts, Banks, MAX_UNCOLLECTED};
use super::block::{Block, Numbers};
use super::pages::PageTable;
use crate::online::activity::{AccessCounts, RowUse};

/// Number of frames between two collections of the bank counts.
const COLLECT_FRAMES: u64 = MAX_UNCOLLECTED / (2 * MAX_WORDS as u64);

/// Burst length that is assumed if each command selects its own.
const LONGEST_BURST: u8 = 1 << MAX_BURST_LOG2;

/// Number of pages whose counts, of one byte each, fit the processor's caches (512 KiB).
const CACHED_PAGES: u64 = 1 << 19;

/// Counts of one card.
#[derive(Debug, Default)]
pub(super) struct Card {
    pages: PageTable,
    /// Maps addresses to bank-row indices.
    bank_rows: Box<BankRowMap>,
    banks: Banks,
    /// Digest of the memory description of the last report.
    digest: Option<u64>,
    /// Base of the tag window of the last report.
    tag_window: Option<u64>,
    /// Bytes of a burst, by the last report.
    burst_bytes: u64,
    /// Number of pages accessed in the previous slice.
    last_pages: u64,
    /// Counts of this slice; pages and rows are added when it ends.
    seen: AccessCounts,
}

/// Counts of one card in a slice.
pub(super) struct Slice {
    pub seen: AccessCounts,
    /// For each of the pages with the most accesses, its number of accesses and its address.
    pub hottest: Vec<(u64, PhysAddr)>,
    pub banks: Vec<BankCounts>,
}

impl Card {
    /// Counts a frame.
    pub fn frame(&mut self, body: &Body<'_>) {
        match body.kind {
            FrameKind::Heartbeat => {}
            FrameKind::Info | FrameKind::End => self.report(body),
            FrameKind::Data => {
                if self.bank_rows.has_whole_pages() {
                    self.data::<true>(body);
                } else {
                    self.data::<false>(body);
                }
                self.seen.frames += 1;
                if self.seen.frames.is_multiple_of(COLLECT_FRAMES) {
                    self.banks.collect();
                }
            }
        }
    }

    fn report(&mut self, body: &Body<'_>) {
        let words: Vec<u64> = body.words().skip(usize::from(SYNC_WORDS)).collect();
        let Ok(report) = Report::decode(&words) else { return };
        self.tag_window = report.tag_window;
        let burst_words = report.burst_length.unwrap_or(LONGEST_BURST);
        self.burst_bytes = u64::from(burst_words) << report.memory.bus_log2;
        if self.digest.replace(report.digest) != Some(report.digest) {
            *self.bank_rows = BankRowMap::new(&report.memory.map);
            self.banks = Banks::new(&report.memory.map);
        }
    }

    fn data<const WHOLE_PAGES: bool>(&mut self, body: &Body<'_>) {
        let mut words = body.words();
        let (Some(first), Some(second)) = (words.next(), words.next()) else { return };
        let sync = Sync::decode([first, second]);
        let mut block = Block::<WHOLE_PAGES> {
            pages: &mut self.pages,
            bank_rows: &self.bank_rows,
            banks: &mut self.banks,
            tag_window: self.tag_window,
            is_scattered: self.last_pages > CACHED_PAGES,
            numbers: Numbers::new(sync),
            burst_bytes: self.burst_bytes,
            seen: AccessCounts::default(),
        };
        block.words(words);
        let seen = block.seen;
        self.seen.add(&seen);
    }

    /// Number of distinct pages accessed so far.
    pub fn pages(&self) -> u64 {
        self.pages.pages()
    }

    /// Ends the slice and returns its counts. `hot_pages`: largest number of pages in
    /// [`Slice::hottest`].
    pub fn end_slice(&mut self, hot_pages: usize) -> Slice {
        let (pages, hottest) = self.pages.end_slice(hot_pages);
        self.last_pages = pages;
        let banks = self.banks.end_slice();
        let rows = self.digest.map(|_| {
            let mut sum = RowUse::default();
            banks.iter().for_each(|bank| sum.add(bank.slice));
            sum
        });
        let seen = AccessCounts { pages, rows, ..std::mem::take(&mut self.seen) };
        Slice { seen, hottest, banks }
    }
}
