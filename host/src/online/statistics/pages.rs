//! Counts accesses by page in a time slice.
//!
//! Each page has a counter of one byte, in a table whose address range is reserved completely and
//! that the kernel backs with memory on first access. The counters of 1 GiB take 256 KiB, which
//! stay in the cache at line rate. A counter that overflows spills into a map, which is rare, and
//! never returns to 0 within its slice. Apart from the spill, counting has no branch that depends
//! on the counter. A branch on whether a page is new would be mispredicted each time the counter is
//! not in the cache. Invariant: an access is counted in its byte, spilled, or rejected, never
//! dropped.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use hmtt_format::PhysAddr;
use hmtt_format::memory::PAGE_LOG2;

/// Number of pages of an interface that are counted individually: the first 64 GiB of its memory.
/// Accessed pages take a byte and a bit each, at most 18 MiB in all.
pub const MAX_TRACKED_PAGES: usize = 1 << 24;

const GROUP_LOG2: u32 = 9;
const GROUP_PAGES: usize = 1 << GROUP_LOG2;
const GROUPS: usize = MAX_TRACKED_PAGES / GROUP_PAGES;
/// Largest value of a counter.
const FULL: u64 = u8::MAX as u64;

/// Counters of consecutive pages.
type Group = [u8; GROUP_PAGES];
/// A bit for each page of a group.
type Bits = [u64; GROUP_PAGES / u64::BITS as usize];

/// Counts accesses by page.
#[derive(Debug)]
pub(super) struct PageTable {
    groups: Vec<Group>,
    /// For each group, whether one of its pages was accessed in the slice.
    touched: Vec<bool>,
    /// Counts that overflowed, by page number.
    spilled: BTreeMap<u64, u64>,
    /// Pages accessed in earlier slices, one bit each.
    ever: Vec<Bits>,
    pages: u64,
}

impl Default for PageTable {
    fn default() -> Self {
        PageTable {
            groups: vec![[0; GROUP_PAGES]; GROUPS],
            touched: vec![false; GROUPS],
            spilled: BTreeMap::new(),
            ever: vec![Bits::default(); GROUPS],
            pages: 0,
        }
    }
}

impl PageTable {
    /// Counts an access to a page. Returns false if the page is beyond the table. `page`: page
    /// number.
    #[inline(always)]
    pub fn add(&mut self, page: u64) -> bool {
        let (group, slot) = ((page >> GROUP_LOG2) as usize, page as usize % GROUP_PAGES);
        let (Some(slots), Some(touched)) =
            (self.groups.get_mut(group), self.touched.get_mut(group))
        else {
            return false;
        };
        *touched = true;
        let (count, is_full) = slots[slot].overflowing_add(1);
        slots[slot] = count | u8::from(is_full);
        if is_full {
            self.spill(page, FULL);
        }
        true
    }

    /// Counts a run of at least one access to a page. Returns false if the page is beyond the
    /// table.
    pub fn add_run(&mut self, page: u64, accesses: u64) -> bool {
        let tracked = self.add(page);
        if tracked && accesses > 1 {
            let slot = &mut self.groups[(page >> GROUP_LOG2) as usize][page as usize % GROUP_PAGES];
            let sum = u64::from(*slot) + accesses - 1;
            *slot = ((sum - 1) % FULL + 1) as u8;
            if sum > FULL {
                self.spill(page, (sum - 1) / FULL * FULL);
            }
        }
        tracked
    }

    #[cold]
    fn spill(&mut self, page: u64, accesses: u64) {
        *self.spilled.entry(page).or_default() += accesses;
    }

    /// Reads the counter of a page, to load it into the cache.
    #[inline(always)]
    pub fn peek(&self, page: u64) -> u8 {
        let group = self.groups.get((page >> GROUP_LOG2) as usize);
        group.map_or(0, |group| group[page as usize % GROUP_PAGES])
    }

    /// Number of distinct pages accessed in earlier slices.
    pub fn pages(&self) -> u64 {
        self.pages
    }

    /// Ends the slice. Returns the number of distinct pages accessed in it, and at most `most`
    /// pages with the most accesses, in descending order; equal counts by address.
    pub fn end_slice(&mut self, most: usize) -> (u64, Vec<(u64, PhysAddr)>) {
        let mut hottest = Hottest { most, heap: BinaryHeap::new(), floor: 0 };
        // Spilled counts exceed any counter, so they are offered first.
        for (&page, &spilled) in &self.spilled {
            hottest.offer(spilled + u64::from(self.peek(page)), page);
        }
        let mut pages = 0;
        let touched = self.touched.iter_mut().enumerate().filter(|(_, touched)| **touched);
        for (group, touched) in touched {
            *touched = false;
            let slots = &mut self.groups[group];
            let first = (group << GROUP_LOG2) as u64;
            if u64::from(slots.iter().fold(0, |most, slot| most.max(*slot))) > hottest.floor {
                let in_bytes = (first..).zip(&*slots).filter(|(page, _)| {
                    // The map is searched only if it is not empty.
                    self.spilled.is_empty() || !self.spilled.contains_key(page)
                });
                in_bytes.for_each(|(page, count)| hottest.offer(u64::from(*count), page));
            }
            pages += note(slots, &mut self.ever[group], &mut self.pages);
            slots.fill(0);
        }
        self.spilled.clear();
        (pages, hottest.into_pages())
    }
}

/// Returns the number of pages of a group that were accessed in the slice. Adds the pages that were
/// accessed for the first time to `pages`.
fn note(slots: &Group, ever: &mut Bits, pages: &mut u64) -> u64 {
    let mut touched = 0;
    for (slots, ever) in slots.chunks_exact(u64::BITS as usize).zip(ever) {
        let bits = slots.iter().rev().fold(0, |bits, slot| bits << 1 | u64::from(*slot != 0));
        touched += u64::from(bits.count_ones());
        *pages += u64::from((bits & !*ever).count_ones());
        *ever |= bits;
    }
    touched
}

/// The pages with the most accesses. Of pages with equal counts, the first offered ones are kept.
struct Hottest {
    most: usize,
    heap: BinaryHeap<Reverse<(u64, Reverse<u64>)>>,
    /// Largest count that is too small to be included.
    floor: u64,
}

impl Hottest {
    #[inline]
    fn offer(&mut self, count: u64, page: u64) {
        if count > self.floor {
            self.insert(count, page);
        }
    }

    fn insert(&mut self, count: u64, page: u64) {
        self.heap.push(Reverse((count, Reverse(page))));
        if self.heap.len() > self.most {
            self.heap.pop();
        }
        if self.heap.len() == self.most {
            self.floor = self.heap.peek().map_or(u64::MAX, |Reverse((count, _))| *count);
        }
    }

    fn into_pages(self) -> Vec<(u64, PhysAddr)> {
        let sorted = self.heap.into_sorted_vec().into_iter();
        sorted.map(|Reverse((count, Reverse(page)))| (count, PhysAddr(page << PAGE_LOG2))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_new_slice_starts_from_zero() {
        let mut table = PageTable::default();
        for slice in 0..3 {
            for page in [5, 5, 7 + slice] {
                assert!(table.add(page));
            }
            assert_eq!(table.end_slice(1), (2, vec![(2, PhysAddr(0x5000))]));
            assert_eq!(table.pages(), 2 + slice);
        }
        assert_eq!(table.end_slice(9), (0, vec![]));
    }

    #[test]
    fn pages_beyond_the_table_are_rejected() {
        let mut table = PageTable::default();
        let last = MAX_TRACKED_PAGES as u64 - 1;
        assert!(table.add(last));
        assert!(!table.add(last + 1));
        assert!(!table.add(u64::MAX));
        assert!(!table.add_run(last + 1, 7));
        assert_eq!(table.end_slice(0), (1, vec![]));
    }

    proptest! {
        /// Counters and spilled counts together equal the counts of a map.
        #[test]
        fn the_table_counts_like_a_map(
            runs in proptest::collection::vec((0u64..1200, 1u64..2000, any::<bool>()), 1..60),
            most in 0usize..20,
        ) {
            let (mut table, mut map) = (PageTable::default(), BTreeMap::new());
            for (page, accesses, single) in runs {
                let accesses = if single { accesses % 3 + 1 } else { accesses };
                if single {
                    (0..accesses).for_each(|_| assert!(table.add(page)));
                } else {
                    prop_assert!(table.add_run(page, accesses));
                }
                *map.entry(page).or_insert(0) += accesses;
            }
            let mut hottest: Vec<_> =
                map.iter().map(|(page, count)| (*count, PhysAddr(page << PAGE_LOG2))).collect();
            hottest.sort_by_key(|(count, _)| Reverse(*count));
            hottest.truncate(most);
            prop_assert_eq!(table.end_slice(most), (map.len() as u64, hottest));
            prop_assert_eq!(table.pages(), map.len() as u64);
        }
    }
}
