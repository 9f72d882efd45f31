//! Accesses between changes of whose they are, to the accesses of each function.
//!
//! Counts of what is open are differences of running totals, so that an access costs the same whatever the
//! depth; pages are told to everything that is open, once in a row.

use std::ops::{AddAssign, Sub};

use super::owners::{Change, Kind, Owner};
use super::pages::{PAGE_LOG2, PageSet};
use crate::tags::hash::FastMap;

/// What accesses amount to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// READs.
    pub reads: u64,
    /// WRITEs.
    pub writes: u64,
    /// Bytes of the lines or bursts.
    pub bytes: u64,
    /// Clocks in which they came, whether or not there were any.
    pub clocks: u64,
}

impl Traffic {
    /// Accesses.
    pub const fn accesses(&self) -> u64 {
        self.reads + self.writes
    }
}

impl AddAssign for Traffic {
    fn add_assign(&mut self, other: Self) {
        self.reads += other.reads;
        self.writes += other.writes;
        self.bytes += other.bytes;
        self.clocks += other.clocks;
    }
}

impl Sub for Traffic {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        Traffic {
            reads: self.reads - other.reads,
            writes: self.writes - other.writes,
            bytes: self.bytes - other.bytes,
            clocks: self.clocks - other.clocks,
        }
    }
}

/// Accesses of an owner, in one sense.
#[derive(Clone, Debug, Default)]
pub struct Share {
    /// What they amount to.
    pub traffic: Traffic,
    /// Pages they were on.
    pub pages: PageSet,
    /// Accesses that are the owner's for certain.
    pub least: u64,
    /// Accesses that may be.
    pub most: u64,
    /// All totals when they began to be the owner's.
    since: Option<Traffic>,
    /// Its place among those that are open.
    open_at: Option<usize>,
    bounds: Bounds,
}

/// Where an owner's accesses begin and end at the earliest and at the latest.
#[derive(Clone, Copy, Debug, Default)]
struct Bounds {
    /// Stretches that may have begun and may not be over.
    possible: u64,
    possible_since: u64,
    certain_since: Option<u64>,
    /// Stretches that were over before they had begun for certain.
    too_short: u64,
}

/// What a change's moment is: an error makes it three.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// It may have been from here on.
    Earliest,
    /// It is taken for this one.
    Likeliest,
    /// It has been by now.
    Latest,
}

/// Accesses of everybody.
#[derive(Debug, Default)]
pub struct Ledger {
    places: FastMap<u32, usize>,
    /// Of nobody, of several threads, then of functions as they appear; own and inclusive.
    shares: Vec<(Owner, [Share; 2])>,
    open: Vec<(usize, Kind)>,
    /// All so far.
    pub total: Traffic,
    /// The page that all that is open knows.
    page: Option<u64>,
    has_begun: bool,
}

impl Ledger {
    /// Time goes on; what was before the first time is nobody's.
    pub fn advance(&mut self, clock: u64) {
        if !self.has_begun {
            self.has_begun = true;
            let open = self.shares.iter_mut().flat_map(|(_, shares)| shares);
            open.filter_map(|share| share.since.as_mut()).for_each(|since| since.clocks = clock);
        }
        self.total.clocks = self.total.clocks.max(clock);
    }

    /// Takes accesses to a place.
    #[inline]
    pub fn access(&mut self, address: u64, accesses: Traffic) {
        self.total += accesses;
        let page = address >> PAGE_LOG2;
        if self.page != Some(page) {
            self.page = Some(page);
            for (place, kind) in &self.open {
                self.shares[*place].1[*kind as usize].pages.insert(address);
            }
        }
    }

    /// Takes a change at a moment that is known.
    pub fn change(&mut self, change: Change) {
        [Moment::Earliest, Moment::Likeliest, Moment::Latest]
            .into_iter()
            .for_each(|moment| self.change_at(change, moment));
    }

    /// Takes one of the moments of a change.
    pub fn change_at(&mut self, change: Change, moment: Moment) {
        let Change { kind, owner, is_start } = change;
        let place = self.place(owner);
        let (total, count) = (self.total, self.total.accesses());
        let share = &mut self.shares[place].1[kind as usize];
        match moment {
            Moment::Earliest => share.earliest(is_start, count),
            Moment::Latest => share.latest(is_start, count),
            Moment::Likeliest if is_start => {
                share.since = Some(total);
                if share.open_at.is_none() {
                    share.open_at = Some(self.open.len());
                    self.open.push((place, kind));
                }
                self.page = None;
            }
            Moment::Likeliest => {
                if let Some(since) = share.since.take() {
                    share.traffic += total - since;
                }
                if let Some(at) = share.open_at.take() {
                    self.open.swap_remove(at);
                    if let Some((moved, kind)) = self.open.get(at).copied() {
                        self.shares[moved].1[kind as usize].open_at = Some(at);
                    }
                }
            }
        }
    }

    /// Everything is over.
    pub fn finish(&mut self) {
        let (total, count) = (self.total, self.total.accesses());
        for share in self.shares.iter_mut().flat_map(|(_, shares)| shares) {
            if let Some(since) = share.since.take() {
                share.traffic += total - since;
            }
            share.open_at = None;
            share.close(count);
        }
        self.open.clear();
    }

    /// Own and inclusive accesses of everybody who had some time, in the order of owners.
    pub fn shares(&self) -> impl Iterator<Item = &(Owner, [Share; 2])> {
        self.shares.iter()
    }

    /// Those of one; none if it never had its time.
    pub fn of(&self, owner: Owner) -> Option<&[Share; 2]> {
        let place = match owner {
            Owner::Function(number) => *self.places.get(&number)?,
            other => self.shares.iter().position(|(owner, _)| *owner == other)?,
        };
        Some(&self.shares[place].1)
    }

    fn place(&mut self, owner: Owner) -> usize {
        if self.shares.is_empty() {
            self.shares.push((Owner::Outside, Default::default()));
            self.shares.push((Owner::Several, Default::default()));
        }
        match owner {
            Owner::Outside => 0,
            Owner::Several => 1,
            Owner::Function(number) => {
                let next = self.shares.len();
                let place = *self.places.entry(number).or_insert(next);
                if place == next {
                    self.shares.push((owner, Default::default()));
                }
                place
            }
        }
    }
}

impl Share {
    fn earliest(&mut self, is_start: bool, count: u64) {
        let bounds = &mut self.bounds;
        if is_start {
            if bounds.possible == 0 {
                bounds.possible_since = count;
            }
            bounds.possible += 1;
        } else if let Some(since) = bounds.certain_since.take() {
            self.least += count - since;
        } else {
            bounds.too_short += 1;
        }
    }

    fn latest(&mut self, is_start: bool, count: u64) {
        let bounds = &mut self.bounds;
        if !is_start {
            bounds.possible = bounds.possible.saturating_sub(1);
            if bounds.possible == 0 {
                self.most += count - bounds.possible_since;
            }
        } else if bounds.too_short != 0 {
            bounds.too_short -= 1;
        } else {
            bounds.certain_since = Some(count);
        }
    }

    fn close(&mut self, count: u64) {
        let bounds = std::mem::take(&mut self.bounds);
        if bounds.possible != 0 {
            self.most += count - bounds.possible_since;
        }
        if let Some(since) = bounds.certain_since {
            self.least += count - since;
        }
    }
}
