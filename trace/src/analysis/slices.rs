//! Divides accesses into slices of time, or into slices of equal numbers of accesses if time is not
//! known.
//!
//! Time is the source's clock, from its 0 on. After a restart of the clock, time continues with the
//! next slice. Memory is bounded: if there are more than [`MOST_SLICES`] slices with accesses, each
//! becomes twice as long.

use std::ops::Range;

use serde::{Deserialize, Serialize};

use super::{Batch, Known};

/// Maximum number of slices with accesses.
pub const MOST_SLICES: usize = 1 << 20;

/// The unit in which the length of slices is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SliceUnit {
    /// Clocks of the source.
    Clocks,
    /// Accesses, because the source has no clock, or because slices of a given time need the period
    /// of the clock, which is not known.
    Accesses,
}

/// The wanted length of slices.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SliceLength {
    /// Length in nanoseconds, for a source that has a clock with a known period.
    pub ns: u64,
    /// Length in accesses, for other sources.
    pub accesses: u64,
}

/// 1 ms, or 2^20 accesses.
impl Default for SliceLength {
    fn default() -> Self {
        SliceLength { ns: 1_000_000, accesses: 1 << 20 }
    }
}

/// The counts of a slice.
pub trait Slice: Copy {
    /// Adds the counts of the next slice, because both become one slice.
    fn join(&mut self, next: &Self);
}

/// The place of a slice in time, in its unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// The first time in the slice.
    pub begin: u64,
    /// Length of the slice; at least 1.
    pub width: u64,
}

impl Span {
    /// Whether a time is in the slice.
    pub fn contains(&self, at: u64) -> bool {
        at >= self.begin && at - self.begin < self.width
    }
}

/// Slices with accesses, by number, and the counts of each slice.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Slices<S> {
    length: SliceLength,
    unit: Option<SliceUnit>,
    /// Length of a slice in its unit; at least 1.
    width: u64,
    /// Time of earlier sessions, which is added to clocks. If slices are of accesses: the number of
    /// accesses so far.
    before: u64,
    /// Number and counts of each slice. A number can occur twice if the clock has gone back.
    slices: Vec<(u64, S)>,
}

impl<S: Slice> Slices<S> {
    /// Begins without slices. `length`: the wanted length of slices.
    pub fn new(length: SliceLength) -> Self {
        Slices { length, unit: None, width: length.accesses.max(1), before: 0, slices: Vec::new() }
    }

    /// Chooses the unit by the facts that are known before the first access. Once the unit is
    /// chosen, a call changes nothing.
    pub fn known(&mut self, known: &Known) {
        if self.unit.is_some() {
            return;
        }
        let period = known.tck_ps.filter(|_| known.clocks).filter(|period| *period > 0);
        self.width = match period {
            Some(period) => (self.length.ns.saturating_mul(1000) / u64::from(period)).max(1),
            None => self.length.accesses.max(1),
        };
        self.unit = period.map(|_| SliceUnit::Clocks);
    }

    /// The unit of the slices; [`SliceUnit::Accesses`] until it is chosen.
    pub fn unit(&self) -> SliceUnit {
        self.unit.unwrap_or(SliceUnit::Accesses)
    }

    /// Length of a slice in its unit.
    pub fn width(&self) -> u64 {
        self.width.max(1)
    }

    /// Continues in the next slice, with a clock that begins at 0 again.
    pub fn restart(&mut self) {
        if self.unit == Some(SliceUnit::Clocks) {
            let last = self.slices.last().map_or(0, |(number, _)| number.saturating_add(1));
            self.before = last.saturating_mul(self.width());
        }
    }

    /// Splits a batch at the borders of slices. Calls `add` for each part with the range of its
    /// rows, its slice, and the counts of the slice. `new`: the counts of a slice without accesses.
    pub fn split(
        &mut self,
        batch: &Batch<'_>,
        new: S,
        mut add: impl FnMut(Range<usize>, Span, &mut S),
    ) {
        let unit = *self.unit.get_or_insert(SliceUnit::Accesses);
        let clocks = batch.clocks().filter(|_| unit == SliceUnit::Clocks);
        let mut from = 0;
        while from < batch.len() {
            let at = match clocks {
                Some(clocks) => clocks[from].saturating_add(self.before),
                None => self.before,
            };
            let number = at / self.width();
            let left = self.width() - at % self.width();
            let to = match clocks {
                Some(clocks) => {
                    let first = at - at % self.width();
                    let is_inside = |clock: &u64| {
                        let at = clock.saturating_add(self.before);
                        at >= first && at - first < self.width()
                    };
                    let more = clocks[from + 1..].iter().position(|clock| !is_inside(clock));
                    more.map_or(batch.len(), |more| from + 1 + more)
                }
                None => batch.len().min(from.saturating_add(left as usize)),
            };
            let (span, counts) = self.of(number, at, new);
            add(from..to, span, counts);
            if clocks.is_none() {
                self.before = self.before.saturating_add((to - from) as u64);
            }
            from = to;
        }
    }

    /// Calls `add` with the slice of a record that states only the number of its accesses, and with
    /// the counts of the slice. `clock`: the record's first clock.
    pub fn record(&mut self, clock: u64, accesses: u64, new: S, add: impl FnOnce(Span, &mut S)) {
        let at = match *self.unit.get_or_insert(SliceUnit::Accesses) {
            SliceUnit::Clocks => clock.saturating_add(self.before),
            SliceUnit::Accesses => {
                let at = self.before;
                self.before = at.saturating_add(accesses);
                at
            }
        };
        let (span, counts) = self.of(at / self.width(), at, new);
        add(span, counts);
    }

    /// The slice of a time, and its counts. `number`: the number of the slice. If slices become
    /// longer here, the number is computed again from the time `at`.
    fn of(&mut self, number: u64, at: u64, new: S) -> (Span, &mut S) {
        let is_last = self.slices.last().is_some_and(|(last, _)| *last == number);
        if !is_last {
            if self.slices.len() >= MOST_SLICES {
                self.double();
                let number = at / self.width();
                if self.slices.last().is_none_or(|(last, _)| *last != number) {
                    self.slices.push((number, new));
                }
            } else {
                self.slices.push((number, new));
            }
        }
        let (last, width) = (self.slices.len() - 1, self.width());
        let (number, counts) = &mut self.slices[last];
        (Span { begin: number.saturating_mul(width), width }, counts)
    }

    /// Makes slices twice as long: joins the slices 2n and 2n + 1.
    fn double(&mut self) {
        self.slices = self.sorted();
        let mut joined: Vec<(u64, S)> = Vec::with_capacity(self.slices.len());
        for (number, slice) in self.slices.drain(..) {
            match joined.last_mut() {
                Some((last, counts)) if *last == number / 2 => counts.join(&slice),
                _ => joined.push((number / 2, slice)),
            }
        }
        // If few slices had a neighbour, there are still too many.
        self.slices = joined;
        self.width = self.width().saturating_mul(2);
        if self.slices.len() > MOST_SLICES / 2 && self.width < u64::MAX / 2 {
            self.double();
        }
    }

    /// All slices in the order of time, one for each number.
    pub fn sorted(&self) -> Vec<(u64, S)> {
        let mut slices: Vec<&(u64, S)> = self.slices.iter().collect();
        slices.sort_by_key(|(number, _)| *number);
        let mut sorted: Vec<(u64, S)> = Vec::with_capacity(slices.len());
        for (number, slice) in slices {
            match sorted.last_mut() {
                Some((last, counts)) if last == number => counts.join(slice),
                _ => sorted.push((*number, *slice)),
            }
        }
        sorted
    }

    /// The end of the slices: after the last slice of clocks, or after the last access.
    fn end(&self) -> u64 {
        let last = self.slices.iter().map(|(number, _)| number.saturating_add(1)).max();
        match self.unit() {
            SliceUnit::Accesses => self.before,
            SliceUnit::Clocks => last.unwrap_or(0).saturating_mul(self.width()),
        }
    }

    /// Adds the slices of a later piece. If both pieces have slices of clocks, the clock continues;
    /// otherwise the later slices follow the existing ones. If the longer length is not the shorter
    /// one times a power of two, a later slice counts in the slice in which it begins. Returns the
    /// number of units by which later slices were moved.
    pub fn append(&mut self, later: Slices<S>) -> u64 {
        if self.unit.is_none() {
            *self = later;
            return 0;
        }
        if later.slices.is_empty() && later.before == 0 {
            return 0;
        }
        while self.width() < later.width() && self.width() < u64::MAX / 2 {
            self.double();
        }
        let is_counted = self.unit() == SliceUnit::Accesses || later.unit() == SliceUnit::Accesses;
        let (width, of_later) = (self.width(), later.width());
        // The later piece continues the last session.
        let shift =
            if is_counted { self.end().div_ceil(self.width()) } else { self.before / self.width() };
        for (number, slice) in later.slices {
            let number = (number.saturating_mul(of_later) / width).saturating_add(shift);
            match self.slices.last_mut() {
                Some((last, counts)) if *last == number => counts.join(&slice),
                _ => self.slices.push((number, slice)),
            }
        }
        self.before = if is_counted {
            shift.saturating_mul(self.width()).saturating_add(later.before)
        } else {
            self.before.saturating_add(later.before)
        };
        let moved = shift.saturating_mul(self.width());
        if self.slices.len() > MOST_SLICES {
            self.double();
        }
        moved
    }
}
