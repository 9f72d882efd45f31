//! Holds sets of addresses or file offsets, for searches that look at each part once.

use std::collections::BTreeMap;
use std::ops::Range;

/// A set of addresses: ranges that do not overlap, end by start.
#[derive(Debug, Default)]
pub(crate) struct Ranges(BTreeMap<u64, u64>);

impl Ranges {
    /// Adds a range. Returns the parts of the range that were not in the set. For example, if
    /// 10..20 is in the set, adding 15..30 returns 20..30.
    pub fn add(&mut self, new: Range<u64>) -> Vec<Range<u64>> {
        let before = self.0.range(..new.start).next_back().filter(|(_, end)| **end >= new.start);
        let mut whole = before.map_or(new.start, |(start, _)| *start)..new.end;
        let mut rest = Vec::new();
        let mut at = new.start;
        let overlapping: Vec<(u64, u64)> =
            self.0.range(whole.start..=new.end).map(|(start, end)| (*start, *end)).collect();
        for (start, end) in overlapping {
            if at < start {
                rest.push(at..start);
            }
            at = at.max(end);
            whole.end = whole.end.max(end);
            self.0.remove(&start);
        }
        if at < new.end {
            rest.push(at..new.end);
        }
        self.0.insert(whole.start, whole.end);
        rest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_that_is_added_twice_is_returned_once() {
        let mut ranges = Ranges::default();
        let mut add = |start, end| -> Vec<(u64, u64)> {
            ranges.add(start..end).into_iter().map(|range| (range.start, range.end)).collect()
        };
        assert_eq!(add(10, 20), [(10, 20)]);
        assert_eq!(add(15, 30), [(20, 30)]);
        assert_eq!(add(40, 50), [(40, 50)]);
        assert_eq!(add(0, 60), [(0, 10), (30, 40), (50, 60)]);
        assert_eq!(add(5, 55), []);
        assert_eq!(ranges.0, BTreeMap::from([(0, 60)]));
    }
}
