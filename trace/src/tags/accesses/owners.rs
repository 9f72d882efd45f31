//! Calls of threads, in the order of time, to whose an access would be at any moment.
//!
//! The bus does not say which thread an access is of. If one thread has open functions, it is that one's;
//! if several have, it cannot be told.

use std::collections::BTreeSet;

use super::open_calls::OpenCalls;
use crate::tags::hash::FastMap;

/// Whose accesses are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Owner {
    /// No function is open.
    Outside,
    /// Functions of several threads are open.
    Several,
    /// A function.
    Function(u32),
}

/// With the functions it called, or without.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// It is the innermost one.
    Own,
    /// It is open.
    Inclusive,
}

/// From here on, or no longer, accesses are somebody's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change {
    /// In which sense.
    pub kind: Kind,
    /// Whose.
    pub owner: Owner,
    /// They begin to be.
    pub is_start: bool,
}

/// What is open in all threads; the function that a thread entered last counts as its innermost one, whatever stack it
/// is on. Changes come in pairs: what starts has not been, what stops has.
///
/// A function is inclusively the owner from its first entry to its last exit, in all threads. What comes while several
/// threads have open functions is only [`Owner::Several`]'s, which starts and stops within that: the step from one
/// thread to two costs the same whatever is open. A function starts when that owner does not own, so one that is
/// entered meanwhile starts when it stops, if it is still open. (While a thread has open functions no other one can
/// be the only one, so within these limits everything but that owner's is the function's.)
#[derive(Clone, Debug, Default)]
pub struct Owners {
    calls: OpenCalls,
    /// How often each function is open, in all threads.
    times: FastMap<u32, u64>,
    running: BTreeSet<usize>,
    /// Functions that were entered while several threads had open ones, and have not started.
    entered: BTreeSet<u32>,
}

fn tell(kind: Kind, owner: Owner, is_start: bool, to: &mut impl FnMut(Change)) {
    to(Change { kind, owner, is_start });
}

impl Owners {
    /// What is before the first call.
    pub fn begin(&self, to: &mut impl FnMut(Change)) {
        [Kind::Own, Kind::Inclusive]
            .into_iter()
            .for_each(|kind| tell(kind, Owner::Outside, true, to));
    }

    /// A thread enters a function, or leaves one that is open.
    pub fn call(
        &mut self,
        thread: usize,
        number: u32,
        is_entry: bool,
        to: &mut impl FnMut(Change),
    ) {
        let before = self.own();
        if is_entry {
            self.calls.enter(thread, number);
            self.running.insert(thread);
        } else if !self.calls.leave(thread, number) {
            return;
        } else if self.calls.innermost(thread).is_none() {
            self.running.remove(&thread);
        }
        let now = self.own();
        if !is_entry && self.is_last(number) && !self.entered.remove(&number) {
            tell(Kind::Inclusive, Owner::Function(number), false, to);
        }
        if before != now {
            tell(Kind::Own, before, false, to);
            tell(Kind::Own, now, true, to);
            self.step(before, now, to);
        }
        if is_entry && self.is_first(number) {
            match now {
                Owner::Several => drop(self.entered.insert(number)),
                _ => tell(Kind::Inclusive, Owner::Function(number), true, to),
            }
        }
    }

    /// Whose accesses are, without those of functions called.
    fn own(&self) -> Owner {
        let mut running = self.running.iter();
        match (running.next(), running.next()) {
            (Some(thread), None) => {
                self.calls.innermost(*thread).map_or(Owner::Outside, Owner::Function)
            }
            (None, _) => Owner::Outside,
            _ => Owner::Several,
        }
    }

    /// From one owner to another: those that are no functions, inclusively.
    fn step(&mut self, before: Owner, now: Owner, to: &mut impl FnMut(Change)) {
        if !matches!(before, Owner::Function(_)) {
            tell(Kind::Inclusive, before, false, to);
        }
        if !matches!(now, Owner::Function(_)) {
            tell(Kind::Inclusive, now, true, to);
        }
        if before == Owner::Several {
            for number in std::mem::take(&mut self.entered) {
                tell(Kind::Inclusive, Owner::Function(number), true, to);
            }
        }
    }

    /// Whether a function that is entered was not open.
    fn is_first(&mut self, number: u32) -> bool {
        let times = self.times.entry(number).or_default();
        *times += 1;
        *times == 1
    }

    /// Whether a function that is left is not open any more.
    fn is_last(&mut self, number: u32) -> bool {
        let Some(times) = self.times.get_mut(&number) else { return false };
        *times -= 1;
        let is_last = *times == 0;
        if is_last {
            self.times.remove(&number);
        }
        is_last
    }
}
