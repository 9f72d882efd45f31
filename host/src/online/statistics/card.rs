//! The frames of one card to its counts.

use hmtt::decode::frame::Body;
use hmtt_format::frame::{FrameKind, MAX_WORDS, SYNC_WORDS, Sync};
use hmtt_format::memory::MAX_BURST_LOG2;
use hmtt_format::{PhysAddr, Report};

use super::banks::{Banks, MAX_UNCOLLECTED, Used};
use super::block::{Block, Numbers};
use super::pages::PageTable;
use super::places::Places;
use crate::online::activity::{RowUse, Seen};

/// Frames from one collection of the banks to the next.
const COLLECT_FRAMES: u64 = MAX_UNCOLLECTED / (2 * MAX_WORDS as u64);

/// What a burst is taken for where each command says its length.
const LONGEST_BURST: u8 = 1 << MAX_BURST_LOG2;

/// Pages whose counts stay near the processor: 512 KiB of them.
const CACHED_PAGES: u64 = 1 << 19;

/// What one card told.
#[derive(Debug, Default)]
pub(super) struct Card {
    pages: PageTable,
    /// How addresses become places.
    places: Box<Places>,
    banks: Banks,
    /// Digest of the memory description, once there was a report.
    digest: Option<u64>,
    /// Base of the tag window, by the last report.
    tag_window: Option<u64>,
    /// Bytes a command moves, by the last report.
    burst_bytes: u64,
    /// Pages touched in the slice before.
    last_pages: u64,
    /// In this slice; its pages and rows are added when it ends.
    seen: Seen,
}

/// What one card told in a slice.
pub(super) struct Slice {
    pub seen: Seen,
    /// Accesses and address of the hottest pages.
    pub hottest: Vec<(u64, PhysAddr)>,
    pub banks: Vec<Used>,
}

impl Card {
    /// Counts what a frame tells.
    pub fn frame(&mut self, body: &Body<'_>) {
        match body.kind {
            FrameKind::Heartbeat => {}
            FrameKind::Info | FrameKind::End => self.report(body),
            FrameKind::Data => {
                if self.places.has_whole_pages() {
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
            *self.places = Places::new(&report.memory.map);
            self.banks = Banks::new(&report.memory.map);
        }
    }

    fn data<const WHOLE_PAGES: bool>(&mut self, body: &Body<'_>) {
        let mut words = body.words();
        let (Some(first), Some(second)) = (words.next(), words.next()) else { return };
        let sync = Sync::decode([first, second]);
        let mut block = Block::<WHOLE_PAGES> {
            pages: &mut self.pages,
            places: &self.places,
            banks: &mut self.banks,
            tag_window: self.tag_window,
            is_scattered: self.last_pages > CACHED_PAGES,
            numbers: Numbers::new(sync),
            burst_bytes: self.burst_bytes,
            seen: Seen::default(),
        };
        block.words(words);
        let seen = block.seen;
        self.seen.add(&seen);
    }

    /// Pages touched ever.
    pub fn pages(&self) -> u64 {
        self.pages.pages()
    }

    /// What was seen in the slice, which ends. `hot_pages`: how many of the hottest pages to name.
    pub fn end_slice(&mut self, hot_pages: usize) -> Slice {
        let (pages, hottest) = self.pages.end_slice(hot_pages);
        self.last_pages = pages;
        let banks = self.banks.end_slice();
        let rows = self.digest.map(|_| {
            let mut all = RowUse::default();
            banks.iter().for_each(|bank| all.add(bank.slice));
            all
        });
        let seen = Seen { pages, rows, ..std::mem::take(&mut self.seen) };
        Slice { seen, hottest, banks }
    }
}
