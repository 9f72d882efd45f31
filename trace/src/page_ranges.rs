//! Stores sets of pages as ranges, for pages that ranges of addresses cover completely.
//!
//! A string instruction may access any number of elements, and a row of a table states their
//! number. Such an instruction adds only one range, so time and memory do not depend on the number
//! of its elements. Invariant: ranges neither overlap nor touch.

use std::collections::BTreeMap;

#[cfg(feature = "analysis")]
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Maximum number of page borders that a short range of lines crosses. A short range is returned
/// and not stored, because a table of single pages is cheaper for it.
const MOST_SINGLE: u64 = 4;

/// A set of page numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PageRanges {
    /// For each range, its first page and its last page.
    ranges: BTreeMap<u64, u64>,
}

impl PageRanges {
    /// Adds the pages from `first` to `last`. Does nothing if `first` is larger.
    pub fn add(&mut self, mut first: u64, mut last: u64) {
        if first > last {
            return;
        }
        // A range is removed at most once after it was added, so the work is linear in the calls.
        while let Some((start, end)) = self.at_or_before(last.saturating_add(1))
            && end >= first.saturating_sub(1)
        {
            self.ranges.remove(&start);
            (first, last) = (first.min(start), last.max(end));
        }
        self.ranges.insert(first, last);
    }

    /// Adds the pages that a range of lines covers completely. Returns the remaining lines at the
    /// begin and at the end of the range. If the range is short, adds nothing and returns all
    /// lines. `lines_log2`: log2 of the lines in a page. Example: with 64 lines in a page, lines 10
    /// to 400 add the pages 1 to 5, and the lines 10 to 63 and 384 to 400 are returned.
    pub fn add_lines(&mut self, first: u64, last: u64, lines_log2: u32) -> [Option<(u64, u64)>; 2] {
        let (page, end) = (first >> lines_log2, last >> lines_log2);
        if end - page <= MOST_SINGLE {
            return [Some((first, last)), None];
        }
        let of_page = (1 << lines_log2) - 1;
        let (starts, ends) = (first & of_page == 0, last & of_page == of_page);
        self.add(page + u64::from(!starts), end - u64::from(!ends));
        let head = (first, first | of_page);
        let tail = (last & !of_page, last);
        [(!starts).then_some(head), (!ends).then_some(tail)]
    }

    /// The last range that begins at `page` or before it.
    fn at_or_before(&self, page: u64) -> Option<(u64, u64)> {
        self.ranges.range(..=page).next_back().map(|(first, last)| (*first, *last))
    }

    /// Whether a page is in a range.
    pub fn contains(&self, page: u64) -> bool {
        self.at_or_before(page).is_some_and(|(_, last)| last >= page)
    }

    /// Number of pages in the set.
    pub fn pages(&self) -> u64 {
        let sizes = self.ranges.iter().map(|(first, last)| (last - first).saturating_add(1));
        sizes.fold(0, u64::saturating_add)
    }

    /// Number of ranges in the set.
    #[cfg(any(test, feature = "access-traces"))]
    pub fn len(&self) -> usize {
        self.ranges.len()
    }

    /// Whether the set is empty.
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// Adds all pages of another set.
    pub fn append(&mut self, other: &PageRanges) {
        other.ranges.iter().for_each(|(first, last)| self.add(*first, *last));
    }
}

/// Serialized as a list of pairs: first and last page of each range.
#[cfg(feature = "analysis")]
impl Serialize for PageRanges {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(&self.ranges)
    }
}

#[cfg(feature = "analysis")]
impl<'de> Deserialize<'de> for PageRanges {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut ranges = PageRanges::default();
        let pairs = Vec::<(u64, u64)>::deserialize(deserializer)?;
        pairs.into_iter().for_each(|(first, last)| ranges.add(first, last));
        Ok(ranges)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn ranges_have_the_pages_that_were_added(
            page_runs in prop::collection::vec((0u64..200, 0u64..20), 0..40),
        ) {
            let (mut ranges, mut expected) = (PageRanges::default(), BTreeSet::new());
            for (first, more) in page_runs {
                ranges.add(first, first + more);
                expected.extend(first..=first + more);
            }
            prop_assert_eq!(ranges.pages(), expected.len() as u64);
            for page in 0..230 {
                prop_assert_eq!(ranges.contains(page), expected.contains(&page));
            }
            let ends: Vec<_> = ranges.ranges.iter().collect();
            prop_assert!(ends.windows(2).all(|two| *two[0].1 + 1 < *two[1].0));
        }

        #[test]
        fn lines_are_in_a_page_or_left(first in 0u64..1000, more in 0u64..1000) {
            let mut ranges = PageRanges::default();
            let left = ranges.add_lines(first, first + more, 6);
            for line in 0..2100 {
                let is_left = left.iter().flatten().any(|(first, last)| (*first..=*last).contains(&line));
                let is_in = (first..=first + more).contains(&line);
                prop_assert_eq!(is_left || ranges.contains(line >> 6), is_in);
                prop_assert!(!(is_left && ranges.contains(line >> 6)));
            }
        }
    }

    #[test]
    fn the_whole_address_space_is_one_range() {
        let mut ranges = PageRanges::default();
        ranges.add(5, 5);
        ranges.add(7, 2);
        ranges.add(0, u64::MAX);
        ranges.add(u64::MAX, u64::MAX);
        assert_eq!((ranges.len(), ranges.pages()), (1, u64::MAX));
        assert!(ranges.contains(u64::MAX) && ranges.contains(0));
    }
}
