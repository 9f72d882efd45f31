//! Captured frames to counts of accesses, pages and rows, at line rate.
//!
//! On the way of nothing: whatever is lost or malformed is counted exactly elsewhere, here a frame
//! that cannot be read is passed over, and one that cannot be read to its end counts up to there.
//! Every frame decodes alone, so frames may be left out. Invariant: reads + writes = accesses, and the
//! counts of all pages + pageless + untracked = accesses. Memory is bounded by
//! [`MAX_TRACKED_PAGES`] for each interface.

mod banks;
mod block;
mod card;
mod pages;
mod places;

use banks::Used;
use card::Card;
pub use pages::MAX_TRACKED_PAGES;

use std::cmp::Reverse;

use hmtt::decode::Frame;

use super::activity::{Activity, BankUse, HotPage, Seen};

/// What to state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// How many of the hottest pages of a slice are named.
    pub hot_pages: usize,
}

impl Default for Options {
    fn default() -> Self {
        Options { hot_pages: 16 }
    }
}

/// Counts what frames tell. One slice lasts from one [`Statistics::activity`] to the next.
#[derive(Debug)]
pub struct Statistics {
    options: Options,
    /// By interface: each has a card and a memory of its own.
    cards: Vec<Card>,
    total: Seen,
}

impl Statistics {
    /// Nothing seen yet.
    pub fn new(options: Options) -> Self {
        Statistics { options, cards: Vec::new(), total: Seen::default() }
    }

    /// Counts what a frame tells. `link`: index of its interface. `bytes`: of the frame, without or
    /// with FCS; others than a card's are passed over, copies must be left out by the caller.
    pub fn frame(&mut self, link: usize, bytes: &[u8]) {
        let Some(Frame { body: Ok(body), .. }) = Frame::parse(bytes) else { return };
        if link >= self.cards.len() {
            self.cards.resize_with(link + 1, Card::default);
        }
        self.cards[link].frame(&body);
    }

    /// What happened since the last call and since the start. Takes less than a millisecond for each
    /// million pages that were ever accessed.
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
            activity.banks.extend(banks.map(|Used { rank, bank, slice, total }| BankUse {
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
        // Pages of several slices are the same pages.
        self.total.pages = pages;
        activity.total = self.total;
        activity
    }
}
