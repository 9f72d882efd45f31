//! Counts accesses, pages and row hits of captured frames at line rate.
//!
//! Losses and malformed frames are counted exactly by [`crate::receive`]. Here a frame that cannot
//! be decoded is skipped, and a frame that can be decoded in part counts up to the error. Every
//! frame can be decoded alone, so frames may be skipped. Invariant: reads + writes = accesses, and
//! the counts of all pages + pageless + untracked = accesses. Memory is bounded by
//! [`MAX_TRACKED_PAGES`] for each interface.

mod bank_rows;
mod banks;
mod block;
mod card;
mod pages;

use banks::BankCounts;
use card::Card;
pub use pages::MAX_TRACKED_PAGES;

use std::cmp::Reverse;

use hmtt::decode::Frame;

use super::activity::{AccessCounts, Activity, BankUse, HotPage};

/// Options of the statistics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Largest number of pages in [`Activity::hot_pages`].
    pub hot_pages: usize,
}

impl Default for Options {
    fn default() -> Self {
        Options { hot_pages: 16 }
    }
}

/// Counts accesses, pages and row hits. A time slice lasts from one [`Statistics::activity`] to the
/// next.
#[derive(Debug)]
pub struct Statistics {
    options: Options,
    /// Cards by interface: each has its own memory.
    cards: Vec<Card>,
    total: AccessCounts,
}

impl Statistics {
    /// Creates statistics without counts.
    pub fn new(options: Options) -> Self {
        Statistics { options, cards: Vec::new(), total: AccessCounts::default() }
    }

    /// Counts the accesses of a frame. `link`: index of the interface. `bytes`: the frame, with or
    /// without FCS. Frames that no card sent are skipped; the caller must leave out duplicates.
    pub fn frame(&mut self, link: usize, bytes: &[u8]) {
        let Some(Frame { body: Ok(body), .. }) = Frame::parse(bytes) else { return };
        if link >= self.cards.len() {
            self.cards.resize_with(link + 1, Card::default);
        }
        self.cards[link].frame(&body);
    }

    /// Ends the time slice and returns its activity and the totals. Takes less than a millisecond
    /// for each million pages that were accessed so far.
    pub fn activity(&mut self) -> Activity {
        let mut activity = Activity::default();
        let mut pages = 0;
        for (link, card) in self.cards.iter_mut().enumerate() {
            let slice = card.end_slice(self.options.hot_pages);
            let hottest = slice.hottest.into_iter();
            activity.hot_pages.extend(hottest.map(|(accesses, address)| HotPage {
                link,
                address,
                accesses,
            }));
            let banks = slice.banks.into_iter();
            activity.banks.extend(banks.map(|BankCounts { rank, bank, slice, total }| BankUse {
                link,
                rank,
                bank,
                slice,
                total,
            }));
            activity.slice.add(&slice.seen);
            pages += card.pages();
        }
        // The sort is stable, and each card's pages are in order.
        activity.hot_pages.sort_by_key(|page| Reverse(page.accesses));
        activity.hot_pages.truncate(self.options.hot_pages);
        self.total.add(&activity.slice);
        // Slices share pages, so the sum over slices would count pages several times.
        self.total.pages = pages;
        activity.total = self.total;
        activity
    }
}
