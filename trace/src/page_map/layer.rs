//! Stores one value for each page, in ranges of pages with the same value.
//!
//! Invariant: ranges are not empty and do not overlap. [`Layer::put`] joins touching ranges that
//! have the same value. So each change adds at most three ranges, and all changes together remove
//! at most as many ranges as were added.

use std::collections::BTreeMap;
use std::ops::Range;

/// A map from pages to values.
#[derive(Debug)]
pub(super) struct Layer<V> {
    /// For each range, its first page, the page after its last page, and its value.
    ranges: BTreeMap<u64, (u64, V)>,
    /// Number of ranges that were added and removed so far.
    #[cfg(test)]
    pub(super) steps: u64,
}

impl<V: Copy + PartialEq> Layer<V> {
    /// Creates a layer without pages.
    pub(super) fn new() -> Self {
        Layer {
            ranges: BTreeMap::new(),
            #[cfg(test)]
            steps: 0,
        }
    }

    /// Removes the pages of a range. Returns the removed ranges with their values, in order.
    /// Example: from 0..10 with value `a`, taking 4..6 leaves 0..4 and 6..10, and returns 4..6 with
    /// `a`.
    pub(super) fn take(&mut self, pages: Range<u64>) -> Vec<(Range<u64>, V)> {
        let before =
            self.ranges.range(..pages.start).next_back().map(|(start, entry)| (*start, *entry));
        if let Some((start, (end, value))) = before.filter(|(_, (end, _))| *end > pages.start) {
            self.insert(start..pages.start, value);
            self.insert(pages.start..end, value);
        }
        let starts: Vec<u64> = self.ranges.range(pages.clone()).map(|(start, _)| *start).collect();
        let mut removed = Vec::with_capacity(starts.len());
        for start in starts {
            let Some((end, value)) = self.remove(start) else { continue };
            if end > pages.end {
                self.insert(pages.end..end, value);
            }
            removed.push((start..end.min(pages.end), value));
        }
        removed
    }

    /// Sets the value of a range. The layer must have none of its pages.
    pub(super) fn put(&mut self, pages: Range<u64>, value: V) {
        if pages.is_empty() {
            return;
        }
        let Range { mut start, mut end } = pages;
        let before = self.ranges.range(..start).next_back().map(|(start, entry)| (*start, *entry));
        if let Some((first, _)) = before.filter(|(_, entry)| *entry == (start, value)) {
            self.remove(first);
            start = first;
        }
        if self.ranges.get(&end).is_some_and(|(_, entry)| *entry == value)
            && let Some((last, _)) = self.remove(end)
        {
            end = last;
        }
        self.insert(start..end, value);
    }

    fn insert(&mut self, pages: Range<u64>, value: V) {
        self.ranges.insert(pages.start, (pages.end, value));
        #[cfg(test)]
        {
            self.steps += 1;
        }
    }

    fn remove(&mut self, start: u64) -> Option<(u64, V)> {
        #[cfg(test)]
        {
            self.steps += 1;
        }
        self.ranges.remove(&start)
    }
}
