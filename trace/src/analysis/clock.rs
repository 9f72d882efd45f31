//! Determines the time of accesses: the source's clock, or the number of earlier accesses if there
//! is no clock.

use std::ops::Range;

use serde::{Deserialize, Serialize};

use super::columns::{Column, Columns};
use super::slices::SliceUnit;
use super::{Batch, Gap, Known};

/// Number of clocks that are compared at once.
const PIECE: usize = 64;

/// The time of the accesses to one memory. The time continues after a restart of the clock.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct Clock {
    known: Known,
    /// Unit of time; `None` before the first access.
    unit: Option<SliceUnit>,
    /// Time of earlier sessions, which is added to clocks. If accesses are the time: the number of
    /// accesses so far.
    before: u64,
    /// Time of the last access.
    last: u64,
}

impl Clock {
    /// Takes what is known of the source.
    pub fn known(&mut self, known: &Known) {
        self.known = *known;
    }

    /// The unit of time; [`SliceUnit::Accesses`] until the first access.
    pub fn unit(&self) -> SliceUnit {
        self.unit.unwrap_or(SliceUnit::Accesses)
    }

    /// A time in seconds; `None` if accesses are the time, or if the period of the clock is not
    /// known.
    pub fn seconds(&self, time: u64) -> Option<f64> {
        self.known.seconds(time).filter(|_| self.unit() == SliceUnit::Clocks)
    }

    /// The unit of time for a batch with accesses. The first such batch decides for all.
    fn unit_of(&mut self, batch: &Batch<'_>) -> SliceUnit {
        let usual = match batch.clocks() {
            Some(_) if self.known.clocks => SliceUnit::Clocks,
            _ => SliceUnit::Accesses,
        };
        *self.unit.get_or_insert(usual)
    }

    /// Splits a batch at the borders of columns. Calls `add` for each part with the range of its
    /// rows, the time of its first row, log2 of the column's length, and the column.
    pub fn each_column<C: Column>(
        &mut self,
        batch: &Batch<'_>,
        columns: &mut Columns<C>,
        mut add: impl FnMut(Range<usize>, u64, u32, &mut C),
    ) {
        // A batch without accesses does not decide the unit of time.
        if batch.is_empty() {
            return;
        }
        let is_clocked = self.unit_of(batch) == SliceUnit::Clocks;
        let clocks = batch.clocks().filter(|_| is_clocked);
        let mut from = 0;
        while from < batch.len() {
            let at = match clocks {
                Some(clocks) => clocks[from].saturating_add(self.before),
                None if is_clocked => self.last,
                None => self.before,
            };
            // Columns may become longer here, so their length is read afterwards.
            columns.at(at);
            let log2 = columns.log2();
            let left = batch.len() - from;
            let count = match clocks {
                Some(clocks) => self.within(&clocks[from..], at >> log2, log2),
                None if is_clocked => left,
                None => left.min(usize::try_from((1 << log2) - at % (1 << log2)).unwrap_or(left)),
            };
            add(from..from + count, at, log2, columns.at(at));
            from += count;
            match clocks {
                Some(clocks) => self.last = clocks[from - 1].saturating_add(self.before),
                None if is_clocked => {}
                None => {
                    self.before = self.before.saturating_add(count as u64);
                    self.last = self.before.saturating_sub(1);
                }
            }
        }
    }

    /// Number of clocks, from the first one on, that are all within a column.
    fn within(&self, clocks: &[u64], column: u64, log2: u32) -> usize {
        let differs = |clock: &u64| clock.saturating_add(self.before) >> log2 ^ column;
        let mut count = 0;
        for piece in clocks.chunks(PIECE) {
            // Without branches, because most pieces are within the column.
            if piece.iter().fold(0, |bits, clock| bits | differs(clock)) != 0 {
                let end = piece.iter().position(|clock| differs(clock) != 0);
                return count + end.unwrap_or(piece.len());
            }
            count += piece.len();
        }
        count
    }

    /// The times of the first and the last clock of a record that states only the number of its
    /// accesses. If accesses are the time: the times of the record's first and last access.
    pub fn of_record(&mut self, first: u64, last: u64, accesses: u64) -> (u64, u64) {
        let usual = if self.known.clocks { SliceUnit::Clocks } else { SliceUnit::Accesses };
        let (first, last) = match *self.unit.get_or_insert(usual) {
            SliceUnit::Clocks => {
                (first.saturating_add(self.before), last.saturating_add(self.before))
            }
            SliceUnit::Accesses => {
                let first = self.before;
                self.before = self.before.saturating_add(accesses);
                (first, self.before.saturating_sub(1).max(first))
            }
        };
        self.last = last;
        (first, last)
    }

    /// The time of a gap, by its clock. A gap without a clock has the time of the last access.
    pub fn of_gap(&self, gap: &Gap) -> u64 {
        let clock = gap.after_clock.or(gap.before_clock);
        // Before the first access it is only known whether the source has clocks.
        let has_clocks = self.unit.map_or(self.known.clocks, |unit| unit == SliceUnit::Clocks);
        let clock = clock.filter(|_| has_clocks);
        clock.map_or(self.last, |clock| clock.saturating_add(self.before))
    }

    /// Notes that the clock begins at 0 again. `at`: the time of this 0.
    pub fn restart(&mut self, at: u64) {
        if self.unit == Some(SliceUnit::Clocks) {
            self.before = at;
        }
    }

    /// The time at which a later piece is appended: the piece's time 0 becomes this time.
    pub fn shift(&self) -> u64 {
        self.before
    }

    /// Appends a later piece, and continues after it.
    pub fn append(&mut self, later: &Clock) {
        let shift = self.before;
        let mut known = self.known;
        known.append(&later.known);
        if later.unit.is_none() {
            // The later piece is empty.
            self.known = known;
            return;
        }
        *self = Clock {
            known,
            unit: self.unit.or(later.unit),
            before: shift.saturating_add(later.before),
            last: shift.saturating_add(later.last),
        };
    }
}
