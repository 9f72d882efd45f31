//! The time of accesses: that of the source's clock, or the number of accesses before where there is no clock.

use serde::{Deserialize, Serialize};

use super::slices::SliceUnit;
use super::{Batch, Gap, Known};

/// The time of the accesses to one memory. After a restart of the clock it continues.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct Clock {
    known: Known,
    unit: Option<SliceUnit>,
    /// What is added to clocks: the time of earlier sessions. Accesses before this one, if accesses are the time.
    before: u64,
    last: u64,
}

impl Clock {
    /// Takes what is known of the source.
    pub fn known(&mut self, known: &Known) {
        self.known = *known;
    }

    /// What time is measured in.
    pub fn unit(&self) -> SliceUnit {
        self.unit.unwrap_or(SliceUnit::Accesses)
    }

    /// Seconds of a time; `None` if it is one of accesses, or the period of the clock is not known.
    pub fn seconds(&self, time: u64) -> Option<f64> {
        self.known.seconds(time).filter(|_| self.unit() == SliceUnit::Clocks)
    }

    /// Calls `add` with the row and the time of each access.
    #[inline]
    pub fn each(&mut self, batch: &Batch<'_>, mut add: impl FnMut(usize, u64)) {
        let usual = match batch.clocks() {
            Some(_) if self.known.clocks => SliceUnit::Clocks,
            _ => SliceUnit::Accesses,
        };
        let clocks = batch.clocks().unwrap_or_default();
        if *self.unit.get_or_insert(usual) == SliceUnit::Clocks {
            for row in 0..batch.len() {
                self.last = clocks.get(row).map_or(self.last, |at| at.saturating_add(self.before));
                add(row, self.last);
            }
            return;
        }
        for row in 0..batch.len() {
            self.last = self.before;
            self.before = self.before.saturating_add(1);
            add(row, self.last);
        }
    }

    /// The time of a gap.
    pub fn of_gap(&self, gap: &Gap) -> u64 {
        let clock = gap.after_clock.or(gap.before_clock);
        // Before the first access it is only known whether the source has clocks.
        let has_clocks = self.unit.map_or(self.known.clocks, |unit| unit == SliceUnit::Clocks);
        let clock = clock.filter(|_| has_clocks);
        clock.map_or(self.last, |clock| clock.saturating_add(self.before))
    }

    /// The clock begins at 0 again, at this time.
    pub fn restart(&mut self, at: u64) {
        if self.unit == Some(SliceUnit::Clocks) {
            self.before = at;
        }
    }

    /// The time at which a later piece begins whose own begin is at 0.
    pub fn shift(&self) -> u64 {
        self.before
    }

    /// Continues behind a later piece.
    pub fn append(&mut self, later: &Clock) {
        let shift = self.before;
        let mut known = self.known;
        known.append(&later.known);
        if later.unit.is_none() {
            // It is empty.
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
