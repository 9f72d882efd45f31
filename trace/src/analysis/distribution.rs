//! The cumulative distribution of touches over pages: which part of all touches the hottest pages have.

use std::cmp::Reverse;

use serde::Serialize;

use super::page_counts::{PageCount, PageCounts};
use super::pages::Pages;

/// The hottest pages, and the part of all touches that they have.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct HotShare {
    /// Pages of 4 KiB, the hottest ones.
    pub pages: u64,
    /// Touches of these.
    pub touches: u64,
    /// Part of all touches that they have, from 0 to 1.
    pub touch_share: f64,
}

/// The distribution at numbers of pages that grow by at least a factor of 1 + 1/`steps`, up to all pages.
pub fn distribution(of: &Pages, steps: u64) -> Vec<HotShare> {
    let counts = of.counts().iter().flat_map(PageCounts::iter);
    let mut touches: Vec<u64> = counts.map(|page: PageCount| page.touches()).collect();
    touches.sort_unstable_by_key(|touches| Reverse(*touches));
    let all = touches.iter().fold(0u64, |sum, more| sum.saturating_add(*more));
    let (last, mut next, mut sum) = (touches.len() as u64, 1, 0u64);
    let mut found = Vec::new();
    for (touches, pages) in touches.into_iter().zip(1..) {
        sum = sum.saturating_add(touches);
        if pages >= next || pages == last {
            found.push(HotShare { pages, touches: sum, touch_share: sum as f64 / all as f64 });
            next = pages + (pages / steps.max(1)).max(1);
        }
    }
    found
}
