//! Accesses between changes of whose they are, to the accesses of each function.
//!
//! Counts of what is open are differences of running totals, so that an access costs the same whatever the
//! depth: of all accesses, and for functions that are open of those that are not several threads' ([`Several`]).
//! Pages are told to everything that is open, once in a row. That takes the depth for each access, so there is a limit
//! of steps and of memory that grows with the input: beyond it pages of open functions are not known.

mod several;

use std::ops::{AddAssign, Sub};

use super::owners::{Change, Kind, Owner};
use super::pages::{PAGE_LOG2, PageSet};
use crate::tags::hash::FastMap;
use several::Several;

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
    /// The pages would have taken too long, or too much memory.
    pub is_without_pages: bool,
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

/// Running totals that an owner's accesses are differences of.
#[derive(Clone, Copy, Debug)]
struct Totals {
    traffic: Traffic,
    /// Of which it is certain that they may be its.
    certain: u64,
    /// Of which it is possible.
    possible: u64,
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
    several: Several,
    /// Accesses and starts so far, which the limits grow with.
    steps: u64,
    /// Pages that were told to functions that are open.
    told: u64,
    /// Blocks of pages that these have memory for.
    blocks: u64,
    has_begun: bool,
}

/// Most pages told to open functions, and as many for each step.
const MOST_TOLD: u64 = 10_000_000;
const MOST_TOLD_EACH: u64 = 64;
/// Most blocks of pages of open functions, 84 bytes each, and steps for each block more.
const MOST_BLOCKS: u64 = 1 << 19;
const STEPS_OF_BLOCK: u64 = 4;

/// Whether accesses are told to many at a time.
fn is_of_function(place: usize, kind: Kind) -> bool {
    place > SEVERAL && kind == Kind::Inclusive
}

/// Places of those that are no functions.
const OUTSIDE: usize = 0;
const SEVERAL: usize = 1;

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
        self.steps += 1;
        let page = address >> PAGE_LOG2;
        if self.page != Some(page) {
            self.page = Some(page);
            if let Some((_, shares)) =
                self.shares.get_mut(SEVERAL).filter(|(_, [own, _])| own.since.is_some())
            {
                shares.iter_mut().for_each(|share| share.pages.insert(address));
                return;
            }
            let open = self.open.len() as u64;
            let most = self.steps.saturating_mul(MOST_TOLD_EACH).saturating_add(MOST_TOLD);
            if self.told + open > most || self.blocks > MOST_BLOCKS + self.steps / STEPS_OF_BLOCK {
                self.give_pages_up();
            }
            self.told += self.open.len() as u64;
            for (place, kind) in &self.open {
                let pages = &mut self.shares[*place].1[*kind as usize].pages;
                let before = pages.capacity();
                pages.insert(address);
                if is_of_function(*place, *kind) {
                    self.blocks += pages.capacity() - before;
                }
            }
        }
    }

    /// Pages of the functions that are open are not known: each is told this once.
    fn give_pages_up(&mut self) {
        for (place, kind) in std::mem::take(&mut self.open) {
            let share = &mut self.shares[place].1[kind as usize];
            if is_of_function(place, kind) {
                self.blocks -= share.pages.capacity();
                (share.pages, share.is_without_pages) = (PageSet::default(), true);
                share.open_at = None;
            } else {
                share.open_at = Some(self.open.len());
                self.open.push((place, kind));
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
        let is_of_several = place == SEVERAL && kind == Kind::Inclusive;
        if is_of_several && moment != Moment::Likeliest {
            self.step(is_start, moment);
        }
        // A function that stops while several threads have open ones has not been the owner since they have.
        let stops_before =
            !is_start && kind == Kind::Inclusive && place > SEVERAL && self.several.is_on(moment);
        let totals = self.totals(place, kind);
        let share = &mut self.shares[place].1[kind as usize];
        match moment {
            Moment::Earliest => {
                share.earliest(is_start, totals);
                if stops_before && !self.several.keep(place) {
                    share.no_longer_possible(totals);
                }
            }
            Moment::Latest if stops_before => {}
            Moment::Latest => share.latest(is_start, totals),
            Moment::Likeliest => self.likeliest(place, kind, is_start, totals),
        }
    }

    fn likeliest(&mut self, place: usize, kind: Kind, is_start: bool, totals: Totals) {
        let share = &mut self.shares[place].1[kind as usize];
        // Who starts does not know the page, nor do those that go on after several threads.
        self.page = None;
        if is_start {
            share.since = Some(totals.traffic);
            self.steps += 1;
            if share.open_at.is_none() && !share.is_without_pages {
                share.open_at = Some(self.open.len());
                self.open.push((place, kind));
            }
            return;
        }
        share.stop(totals);
        if let Some(at) = share.open_at.take() {
            self.open.swap_remove(at);
            if let Some((moved, kind)) = self.open.get(at).copied() {
                self.shares[moved].1[kind as usize].open_at = Some(at);
            }
        }
    }

    /// Several threads have open functions from here on, or no longer.
    fn step(&mut self, is_start: bool, moment: Moment) {
        let totals = self.totals(SEVERAL + 1, Kind::Inclusive);
        for place in self.several.step(is_start, moment) {
            self.shares[place].1[Kind::Inclusive as usize].no_longer_possible(totals);
        }
    }

    /// What an owner's accesses are differences of.
    fn totals(&self, place: usize, kind: Kind) -> Totals {
        let (traffic, count) = (self.total, self.total.accesses());
        if kind == Kind::Own || place <= SEVERAL {
            return Totals { traffic, certain: count, possible: count };
        }
        let several = &self.shares[SEVERAL].1[Kind::Inclusive as usize];
        let now = several.until(Totals { traffic, certain: count, possible: count });
        Totals {
            traffic: traffic - now.traffic,
            certain: count - now.possible,
            possible: count - now.certain,
        }
    }

    /// Everything is over.
    pub fn finish(&mut self) {
        if self.shares.is_empty() {
            return;
        }
        let all = self.totals(OUTSIDE, Kind::Own);
        let of_functions = self.totals(SEVERAL + 1, Kind::Inclusive);
        for (place, (_, shares)) in self.shares.iter_mut().enumerate() {
            for (share, kind) in shares.iter_mut().zip([Kind::Own, Kind::Inclusive]) {
                let is_of_function = kind == Kind::Inclusive && place > SEVERAL;
                let totals = if is_of_function { of_functions } else { all };
                share.stop(totals);
                share.open_at = None;
                share.close(totals);
            }
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
            Owner::Outside => OUTSIDE,
            Owner::Several => SEVERAL,
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
    fn earliest(&mut self, is_start: bool, totals: Totals) {
        let bounds = &mut self.bounds;
        if is_start {
            if bounds.possible == 0 {
                bounds.possible_since = totals.possible;
            }
            bounds.possible += 1;
        } else if let Some(since) = bounds.certain_since.take() {
            self.least += totals.certain - since;
        } else {
            bounds.too_short += 1;
        }
    }

    fn latest(&mut self, is_start: bool, totals: Totals) {
        let bounds = &mut self.bounds;
        if !is_start {
            self.no_longer_possible(totals);
        } else if bounds.too_short != 0 {
            bounds.too_short -= 1;
        } else {
            bounds.certain_since = Some(totals.certain);
        }
    }

    /// A stretch has been over.
    fn no_longer_possible(&mut self, totals: Totals) {
        let bounds = &mut self.bounds;
        bounds.possible = bounds.possible.saturating_sub(1);
        if bounds.possible == 0 {
            self.most += totals.possible - bounds.possible_since;
        }
    }

    fn stop(&mut self, totals: Totals) {
        if let Some(since) = self.since.take() {
            self.traffic += totals.traffic - since;
        }
    }

    fn close(&mut self, totals: Totals) {
        let bounds = std::mem::take(&mut self.bounds);
        if bounds.possible != 0 {
            self.most += totals.possible - bounds.possible_since;
        }
        if let Some(since) = bounds.certain_since {
            self.least += totals.certain - since;
        }
    }

    /// Its accesses up to now.
    fn until(&self, totals: Totals) -> Totals {
        let mut until = Totals { traffic: self.traffic, certain: self.least, possible: self.most };
        if let Some(since) = self.since {
            until.traffic += totals.traffic - since;
        }
        if self.bounds.possible != 0 {
            until.possible += totals.possible - self.bounds.possible_since;
        }
        if let Some(since) = self.bounds.certain_since {
            until.certain += totals.certain - since;
        }
        until
    }
}
