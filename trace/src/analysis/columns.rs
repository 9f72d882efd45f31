//! Divides time into a bounded number of columns, so that a trace of any length fits. If there are
//! more than [`MOST_COLUMNS`], each column becomes twice as long.
//!
//! A column's length is a power of two, and column n begins at n times the length. So columns of
//! different pieces can be joined, and a column is exactly the sum of the columns from which it was
//! made. For example, the columns 6 and 7 of length 4 become column 3 of length 8, which has the
//! times 24 to 31.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

/// Maximum number of columns, from the first one in use to the last.
pub const MOST_COLUMNS: u64 = 512;

/// The counts of a column.
pub trait Column: Default {
    /// Adds the counts of a later column, because both become one column.
    fn join(&mut self, later: &Self);
}

/// Columns from the first one in use to the last.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Columns<C> {
    log2: u32,
    first: u64,
    cells: VecDeque<C>,
}

impl<C: Column> Columns<C> {
    /// log2 of the length of a column.
    pub fn log2(&self) -> u32 {
        self.log2.min(63)
    }

    /// Number of the first column in use: it begins at this multiple of the length.
    pub fn first(&self) -> u64 {
        self.first
    }

    /// The columns with their numbers, in the order of time.
    pub fn iter(&self) -> impl Iterator<Item = (u64, &C)> {
        (0..).zip(&self.cells).map(|(index, cell)| (self.first.saturating_add(index), cell))
    }

    /// The columns, in the order of time, for changes of their counts.
    pub fn cells_mut(&mut self) -> impl Iterator<Item = &mut C> {
        self.cells.iter_mut()
    }

    /// The time at which the last column ends; 0 without columns.
    pub fn end(&self) -> u64 {
        let end = self.first.saturating_add(self.cells.len() as u64);
        if self.cells.is_empty() { 0 } else { end.saturating_mul(1 << self.log2()) }
    }

    /// The column of a time. If the time is too far from the other columns, columns become longer
    /// until there are at most [`MOST_COLUMNS`].
    #[inline]
    pub fn at(&mut self, at: u64) -> &mut C {
        let index = (at >> self.log2()).wrapping_sub(self.first);
        let index = if index < self.cells.len() as u64 { index as usize } else { self.reach(at) };
        &mut self.cells[index]
    }

    /// Adds the column of a time. Returns its index in `cells`.
    fn reach(&mut self, at: u64) -> usize {
        if self.cells.is_empty() {
            self.first = at >> self.log2();
        }
        let number = loop {
            let number = at >> self.log2();
            let last = self.first.saturating_add((self.cells.len() as u64).saturating_sub(1));
            if last.max(number) - self.first.min(number) < MOST_COLUMNS {
                break number;
            }
            self.double();
        };
        while number < self.first {
            self.cells.push_front(C::default());
            self.first -= 1;
        }
        let index = (number - self.first) as usize;
        while self.cells.len() <= index {
            self.cells.push_back(C::default());
        }
        index
    }

    /// Makes columns twice as long: joins the columns 2n and 2n + 1.
    fn double(&mut self) {
        let (first, cells) = (self.first, std::mem::take(&mut self.cells));
        self.first /= 2;
        self.log2 = self.log2() + 1;
        for (cell, index) in cells.into_iter().zip(0..) {
            let place = (first.saturating_add(index) / 2 - self.first) as usize;
            match self.cells.get_mut(place) {
                Some(joined) => joined.join(&cell),
                None => self.cells.push_back(cell),
            }
        }
    }

    /// Makes columns at least 2^`log2` long.
    pub fn lengthen(&mut self, log2: u32) {
        while self.log2() < log2.min(63) {
            self.double();
        }
    }

    /// Adds later columns, which are moved by `shift`. The result is exact if `shift` is a multiple
    /// of the length.
    pub fn append(&mut self, mut later: Columns<C>, shift: u64) {
        later.lengthen(self.log2());
        self.lengthen(later.log2());
        let log2 = later.log2();
        for (number, cell) in later.iter() {
            self.at(number.saturating_mul(1 << log2).saturating_add(shift)).join(cell);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    impl Column for u64 {
        fn join(&mut self, later: &Self) {
            *self += later;
        }
    }

    #[test]
    fn the_ends_of_time_fit() {
        let mut columns = Columns::<u64>::default();
        for at in [u64::MAX, 0, u64::MAX - 1] {
            *columns.at(at) += 1;
        }
        assert_eq!(columns.iter().map(|(_, count)| count).sum::<u64>(), 3);
        assert_eq!((columns.log2(), columns.end()), (55, u64::MAX));
    }

    proptest! {
        #[test]
        fn columns_are_those_of_a_plain_division(
            times in prop::collection::vec((0u32..64, any::<u64>()), 1..60),
            cut in 0usize..60,
        ) {
            let times: Vec<u64> = times.into_iter().map(|(shift, at)| at >> shift).collect();
            let cut = cut.min(times.len());
            let mut pieces = [Columns::<u64>::default(), Columns::default()];
            for (piece, times) in pieces.iter_mut().zip([&times[..cut], &times[cut..]]) {
                times.iter().for_each(|at| *piece.at(*at) += 1);
            }
            let [mut joined, later] = pieces;
            joined.append(later, 0);
            let counts: Vec<_> = joined.iter().filter(|(_, count)| **count > 0).collect();
            prop_assert!(joined.iter().count() as u64 <= MOST_COLUMNS);
            for (number, count) in counts {
                let inside = times.iter().filter(|at| **at >> joined.log2() == number).count();
                prop_assert_eq!(inside as u64, *count);
            }
            prop_assert_eq!(joined.iter().map(|(_, count)| count).sum::<u64>(), times.len() as u64);
        }
    }
}
