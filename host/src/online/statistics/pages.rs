//! Page numbers to how often each was accessed in a time slice, and to their places.
//!
//! One slot for each page, in a table that is reserved whole and that the kernel fills with memory
//! where it is touched:
//!
//! ```text
//! slot   63..39 place | 38 touched ever | 31..0 accesses in this slice
//! ```
//!
//! One word tells all there is to know of an access, and the only branch on it is taken once for each
//! page ever: one that depends on whether a page was touched in this slice would be guessed wrong each
//! time the memory is slow to answer. Slots are in groups; the end of a slice looks at those that were
//! ever touched. Invariant: an access is counted in its slot or refused, never dropped.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use hmtt_format::PhysAddr;
use hmtt_format::memory::PAGE_LOG2;

use super::places::{PLACE_BITS, Places};

/// Pages of an interface that are told apart: the first 64 GiB of its memory. What was touched takes
/// 8 bytes for each page, at most 128 MiB.
pub const MAX_TRACKED_PAGES: usize = 1 << 24;

const GROUP_LOG2: u32 = 9;
const GROUP_PAGES: usize = 1 << GROUP_LOG2;
const GROUPS: usize = MAX_TRACKED_PAGES / GROUP_PAGES;

const COUNT_MASK: u64 = (1 << u32::BITS) - 1;
const PLACE_AT: u32 = u64::BITS - PLACE_BITS;
const TOUCHED: u64 = 1 << (PLACE_AT - 1);
/// Accesses that may be counted in one slice, so that no slot can overflow: 143 s at line rate.
pub(super) const MAX_SLICE_ACCESSES: u64 = COUNT_MASK;

/// Counts accesses by page.
#[derive(Debug)]
pub(super) struct PageTable {
    slots: Vec<u64>,
    marks: Marks,
}

/// What is noted when a page is touched for the first time.
#[derive(Debug)]
struct Marks {
    /// How addresses become places.
    places: Box<Places>,
    /// Whether a page of each group was ever touched.
    groups: Vec<bool>,
    /// Pages touched ever.
    pages: u64,
}

/// A [`PageTable`] taken apart for a tight loop: what the loop reads stays in registers.
pub(super) struct OpenTable<'a> {
    slots: &'a mut [u64],
    marks: &'a mut Marks,
}

impl Default for PageTable {
    fn default() -> Self {
        let marks = Marks { places: Box::default(), groups: vec![false; GROUPS], pages: 0 };
        PageTable { slots: vec![0; MAX_TRACKED_PAGES], marks }
    }
}

impl OpenTable<'_> {
    /// Counts accesses, at least one, to a page: its place comes back, or `None` if the page cannot
    /// be tracked. `page`: its number.
    #[inline(always)]
    pub fn add(&mut self, page: u64, accesses: u64) -> Option<u32> {
        let slot = self.slots.get_mut(usize::try_from(page).ok()?)?;
        let mut counted = *slot;
        if counted == 0 {
            counted = self.marks.first_touch(page);
        }
        *slot = counted + accesses;
        Some((counted >> PLACE_AT) as u32)
    }

    /// What the slot of a page holds, for nothing but to have it near when it is needed.
    #[inline(always)]
    pub fn peek(&self, page: u64) -> u64 {
        usize::try_from(page).ok().and_then(|page| self.slots.get(page)).copied().unwrap_or(0)
    }

    /// How addresses become places.
    #[inline(always)]
    pub fn places(&self) -> &Places {
        &self.marks.places
    }
}

impl PageTable {
    /// The table, for a tight loop. One that is `full` refuses every access.
    pub fn open(&mut self, full: bool) -> OpenTable<'_> {
        let slots = if full { &mut [] } else { self.slots.as_mut_slice() };
        OpenTable { slots, marks: &mut self.marks }
    }

    /// How addresses become places.
    pub fn places(&self) -> &Places {
        &self.marks.places
    }

    /// From here on places are these.
    pub fn set_places(&mut self, places: Places) {
        *self.marks.places = places;
        for (group, slots) in touched_groups(&mut self.slots, &self.marks.groups) {
            for (page, slot) in (group << GROUP_LOG2..).zip(slots).filter(|(_, slot)| **slot != 0) {
                let place = u64::from(self.marks.places.of_page(page as u64));
                *slot = *slot & ((1 << PLACE_AT) - 1) | place << PLACE_AT;
            }
        }
    }

    /// Pages touched ever.
    pub fn pages(&self) -> u64 {
        self.marks.pages
    }

    /// Ends the slice. How many pages were touched in it comes back, and those with most accesses,
    /// most first, equal counts by address; at most `most`.
    pub fn end_slice(&mut self, most: usize) -> (u64, Vec<(u64, PhysAddr)>) {
        let mut hottest = Hottest { most, heap: BinaryHeap::new(), floor: 0 };
        let mut pages = 0;
        for (group, slots) in touched_groups(&mut self.slots, &self.marks.groups) {
            let (mut in_group, mut any) = (0, 0);
            for slot in &*slots {
                let count = slot & COUNT_MASK;
                in_group += u64::from(count != 0);
                any |= u64::from(count > hottest.floor);
            }
            if in_group == 0 {
                continue;
            }
            pages += in_group;
            if any != 0 {
                hottest.insert_all(slots, group << GROUP_LOG2);
            }
            slots.iter_mut().for_each(|slot| *slot &= !COUNT_MASK);
        }
        (pages, hottest.into_pages())
    }
}

/// The groups of which a page was ever touched, with their numbers.
fn touched_groups<'a>(
    slots: &'a mut [u64],
    touched: &'a [bool],
) -> impl Iterator<Item = (usize, &'a mut [u64])> {
    let groups = slots.chunks_exact_mut(GROUP_PAGES).enumerate().zip(touched);
    groups.filter(|(_, touched)| **touched).map(|(group, _)| group)
}

/// The pages with most accesses; those that come first win where counts are equal.
struct Hottest {
    most: usize,
    heap: BinaryHeap<Reverse<(u64, Reverse<u64>)>>,
    /// No count up to this can enter.
    floor: u64,
}

impl Hottest {
    /// `first`: the number of the first slot's page.
    fn insert_all(&mut self, slots: &[u64], first: usize) {
        for (page, slot) in (first as u64..).zip(slots) {
            let count = slot & COUNT_MASK;
            if count > self.floor {
                self.insert(count, page);
            }
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

impl Marks {
    /// The slot of a page that was never touched.
    #[cold]
    fn first_touch(&mut self, page: u64) -> u64 {
        self.pages += 1;
        if let Some(group) = self.groups.get_mut((page >> GROUP_LOG2) as usize) {
            *group = true;
        }
        u64::from(self.places.of_page(page)) << PLACE_AT | TOUCHED
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_slice_counts_anew() {
        let mut table = PageTable::default();
        for slice in 0..3 {
            let mut open = table.open(false);
            for page in [5, 5, 7 + slice] {
                assert_eq!(open.add(page, 1), Some(0));
            }
            assert_eq!(table.end_slice(1), (2, vec![(2, PhysAddr(0x5000))]));
            assert_eq!(table.pages(), 2 + slice);
        }
        assert_eq!(table.end_slice(9), (0, vec![]));
    }

    #[test]
    fn pages_beyond_the_table_are_refused() {
        let mut table = PageTable::default();
        let last = MAX_TRACKED_PAGES as u64 - 1;
        let mut open = table.open(false);
        assert_eq!(open.add(last, 1), Some(0));
        assert_eq!(open.add(last + 1, 1), None);
        assert_eq!(open.add(u64::MAX, 1), None);
        assert_eq!(table.open(true).add(0, 1), None);
        assert_eq!(table.end_slice(0), (1, vec![]));
    }

    #[test]
    fn a_count_of_all_that_a_slice_may_hold_spills_nowhere() {
        let mut table = PageTable::default();
        assert_eq!(table.open(false).add(3, MAX_SLICE_ACCESSES), Some(0));
        assert_eq!(table.end_slice(1), (1, vec![(MAX_SLICE_ACCESSES, PhysAddr(0x3000))]));
        assert_eq!(table.pages(), 1);
    }
}
