//! Sums the accesses of each owner, from accesses and changes of ownership in order of time.
//!
//! The counts of a function are differences of running totals: the total at the end of the time in
//! which it owned accesses, less the total at the start. So the cost of an access does not depend
//! on the depth of calls. There are totals of all accesses, and totals without the accesses made
//! while functions of several threads were open (`overlaps`).
//!
//! A page is added to the sets of all open functions, once for consecutive accesses to it. This
//! costs time in proportion to the depth of calls. So the additions and the memory are limited in
//! proportion to the input. Beyond the limits the pages of open functions are not known.

mod overlaps;

use super::owners::{Change, Kind, Owner};
use super::pages::{PAGE_LOG2, PageSet};
use super::traffic::Traffic;
use crate::tags::hash::FastMap;
use overlaps::Overlaps;

/// The accesses of an owner, of one [`Kind`]. A *stretch* is a time in which the owner owns
/// accesses without interruption.
#[derive(Clone, Debug, Default)]
pub struct Share {
    /// Counts of the accesses.
    pub traffic: Traffic,
    /// Pages that were accessed.
    pub pages: PageSet,
    /// Whether the pages are unknown because they would have taken too much time or memory.
    pub is_without_pages: bool,
    /// Lower bound: accesses that are certainly the owner's.
    pub least: u64,
    /// Upper bound: accesses that may be the owner's.
    pub most: u64,
    /// Running totals at the start of the owner's current stretch; `None` outside of a stretch.
    since: Option<Traffic>,
    /// Index of the owner in [`Ledger::open`], if it is there.
    open_at: Option<usize>,
    bounds: Bounds,
}

/// State of an owner's stretches whose starts and ends have an error.
///
/// Example: the error is 5 clocks, and a stretch is from clock 100 to clock 200. An access at 150
/// is certainly in the stretch. Accesses at 97 and at 203 are possibly in it, and an access at 90
/// is not.
#[derive(Clone, Copy, Debug, Default)]
struct Bounds {
    /// Number of stretches whose earliest start has passed and whose latest end has not.
    possible: u64,
    /// Running total of possible accesses when `possible` became 1.
    possible_since: u64,
    /// Running total of certain accesses at the latest start of a stretch, until its earliest end.
    certain_since: Option<u64>,
    /// Number of stretches whose earliest end came before their latest start, which is still to
    /// come. They have no certain access.
    too_short: u64,
}

/// One of the three times of a change whose time has an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// The first time at which the change may have happened.
    Earliest,
    /// The most probable time, at which accesses change their owner.
    Likeliest,
    /// The last time at which the change may have happened.
    Latest,
}

/// Running totals. The accesses of an owner are differences of them.
#[derive(Clone, Copy, Debug)]
struct Totals {
    traffic: Traffic,
    /// Accesses that the owner certainly owns if it is open.
    certain: u64,
    /// Accesses that the owner possibly owns if it is open.
    possible: u64,
}

/// Sums the accesses of all owners.
#[derive(Debug, Default)]
pub struct Ledger {
    /// Index in `shares` of each function, block and loop, by [`Owner::key`].
    places: FastMap<u64, usize>,
    /// Own and inclusive share of each owner: first [`Owner::Outside`], then
    /// [`Owner::SeveralThreads`], then functions, blocks and loops in the order in which they
    /// appear.
    shares: Vec<(Owner, [Share; 2])>,
    /// Owners to whose sets of pages the next page is added: index in `shares`, and kind.
    open: Vec<(usize, Kind)>,
    /// Counts of all accesses so far.
    pub total: Traffic,
    /// Number of the page that the sets of all open owners contain.
    page: Option<u64>,
    several: Overlaps,
    /// Number of calls of [`access`](Self::access) and of starts of owners so far. The limits grow
    /// with it.
    steps: u64,
    /// Number of additions of pages to the sets of open functions.
    page_additions: u64,
    /// Number of blocks of pages for which the sets of open functions have memory.
    blocks: u64,
    /// Whether [`advance`](Self::advance) was called.
    has_begun: bool,
}

/// Limit of the additions of pages to open functions: this constant, plus
/// [`PAGE_ADDITIONS_PER_STEP`] for each step.
const MAX_PAGE_ADDITIONS: u64 = 10_000_000;
const PAGE_ADDITIONS_PER_STEP: u64 = 64;
/// Limit of the blocks of pages of open functions, which have 84 bytes each: this constant, plus
/// one block for every [`STEPS_PER_BLOCK`] steps.
const MAX_BLOCKS: u64 = 1 << 19;
const STEPS_PER_BLOCK: u64 = 4;

/// Whether many owners of this kind can own the same access. This holds for the inclusive accesses
/// of functions, blocks and loops.
fn is_of_function(place: usize, kind: Kind) -> bool {
    place > SEVERAL && kind == Kind::Inclusive
}

/// Index in `shares` of [`Owner::Outside`].
const OUTSIDE: usize = 0;
/// Index in `shares` of [`Owner::SeveralThreads`].
const SEVERAL: usize = 1;

impl Ledger {
    /// Advances to a clock. The time before the first call of this function is not counted.
    pub fn advance(&mut self, clock: u64) {
        if !self.has_begun {
            self.has_begun = true;
            let open = self.shares.iter_mut().flat_map(|(_, shares)| shares);
            open.filter_map(|share| share.since.as_mut()).for_each(|since| since.clocks = clock);
        }
        self.total.clocks = self.total.clocks.max(clock);
    }

    /// Counts accesses to a page, line or burst at `address` for the current owners.
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
            let most = self
                .steps
                .saturating_mul(PAGE_ADDITIONS_PER_STEP)
                .saturating_add(MAX_PAGE_ADDITIONS);
            if self.page_additions + open > most
                || self.blocks > MAX_BLOCKS + self.steps / STEPS_PER_BLOCK
            {
                self.drop_pages();
            }
            self.page_additions += self.open.len() as u64;
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

    /// Stops recording the pages of all open functions, and marks them as unknown.
    fn drop_pages(&mut self) {
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

    /// Applies a change whose time is exact.
    pub fn change(&mut self, change: Change) {
        [Moment::Earliest, Moment::Likeliest, Moment::Latest]
            .into_iter()
            .for_each(|moment| self.change_at(change, moment));
    }

    /// Applies a change at one of its three times.
    pub fn change_at(&mut self, change: Change, moment: Moment) {
        let Change { kind, owner, is_start } = change;
        let place = self.place(owner);
        let is_of_several = place == SEVERAL && kind == Kind::Inclusive;
        if is_of_several && moment != Moment::Likeliest {
            self.step(is_start, moment);
        }
        // If a function stops in an overlap, it has owned no accesses since the start of the
        // overlap.
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

    /// Applies a change at its likeliest time: starts or ends a stretch.
    fn likeliest(&mut self, place: usize, kind: Kind, is_start: bool, totals: Totals) {
        let share = &mut self.shares[place].1[kind as usize];
        // The page is not in the set of an owner that starts, nor in the sets of owners that
        // continue after an overlap.
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

    /// Starts or ends an overlap: a time in which several threads have open functions.
    fn step(&mut self, is_start: bool, moment: Moment) {
        let totals = self.totals(SEVERAL + 1, Kind::Inclusive);
        for place in self.several.step(is_start, moment) {
            self.shares[place].1[Kind::Inclusive as usize].no_longer_possible(totals);
        }
    }

    /// The running totals for an owner. For the inclusive accesses of functions, blocks and loops,
    /// they do not count overlaps.
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

    /// Ends all open stretches.
    pub fn finish(&mut self) {
        if self.shares.is_empty() {
            return;
        }
        let full_totals = self.totals(OUTSIDE, Kind::Own);
        let of_functions = self.totals(SEVERAL + 1, Kind::Inclusive);
        for (place, (_, shares)) in self.shares.iter_mut().enumerate() {
            for (share, kind) in shares.iter_mut().zip([Kind::Own, Kind::Inclusive]) {
                let is_of_function = kind == Kind::Inclusive && place > SEVERAL;
                let totals = if is_of_function { of_functions } else { full_totals };
                share.stop(totals);
                share.open_at = None;
                share.close(totals);
            }
        }
        self.open.clear();
    }

    /// Own and inclusive accesses of each owner: [`Owner::Outside`], [`Owner::SeveralThreads`],
    /// then the others in the order in which they appeared.
    pub fn shares(&self) -> impl Iterator<Item = &(Owner, [Share; 2])> {
        self.shares.iter()
    }

    /// Own and inclusive accesses of one owner. `None` if it has not appeared.
    pub fn share_of(&self, owner: Owner) -> Option<&[Share; 2]> {
        let place = match owner {
            Owner::Outside if !self.shares.is_empty() => OUTSIDE,
            Owner::SeveralThreads if !self.shares.is_empty() => SEVERAL,
            owner => *self.places.get(&owner.key())?,
        };
        Some(&self.shares[place].1)
    }

    /// Index of an owner in `shares`. Adds the owner if it is new.
    fn place(&mut self, owner: Owner) -> usize {
        if self.shares.is_empty() {
            self.shares.push((Owner::Outside, Default::default()));
            self.shares.push((Owner::SeveralThreads, Default::default()));
        }
        match owner {
            Owner::Outside => OUTSIDE,
            Owner::SeveralThreads => SEVERAL,
            owner => {
                let next = self.shares.len();
                let place = *self.places.entry(owner.key()).or_insert(next);
                if place == next {
                    self.shares.push((owner, Default::default()));
                }
                place
            }
        }
    }
}

impl Share {
    /// Counts the earliest time of a start or end.
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

    /// Counts the latest time of a start or end.
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

    /// Ends a stretch at its latest end.
    fn no_longer_possible(&mut self, totals: Totals) {
        let bounds = &mut self.bounds;
        bounds.possible = bounds.possible.saturating_sub(1);
        if bounds.possible == 0 {
            self.most += totals.possible - bounds.possible_since;
        }
    }

    /// Ends a stretch at its likeliest end.
    fn stop(&mut self, totals: Totals) {
        if let Some(since) = self.since.take() {
            self.traffic += totals.traffic - since;
        }
    }

    /// Ends all stretches for both bounds.
    fn close(&mut self, totals: Totals) {
        let bounds = std::mem::take(&mut self.bounds);
        if bounds.possible != 0 {
            self.most += totals.possible - bounds.possible_since;
        }
        if let Some(since) = bounds.certain_since {
            self.least += totals.certain - since;
        }
    }

    /// The owner's accesses up to now, including its current stretch.
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
