//! Determines the owner of accesses at each time, from the calls of threads in the order of time.
//!
//! The bus does not show which thread makes an access. If only one thread has open functions, the access is
//! attributed to that thread; if several threads have, it cannot be attributed.

use std::collections::BTreeSet;

use super::open_calls::OpenCalls;
use crate::tags::hash::FastMap;
use hmtt_format::tag_log::FunctionId;

/// What accesses are attributed to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Owner {
    /// Accesses while no function is open.
    Outside,
    /// Accesses while functions of several threads are open.
    SeveralThreads,
    /// Accesses of the function with this number.
    Function(FunctionId),
}

/// Whether a function's accesses include those of the functions that it called.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// Accesses while the function is the innermost one.
    Own,
    /// Accesses while the function is open.
    Inclusive,
}

/// A start or an end of ownership.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change {
    /// Kind of accesses that change their owner.
    pub kind: Kind,
    /// Owner that starts or stops.
    pub owner: Owner,
    /// Whether the ownership starts (true) or stops.
    pub is_start: bool,
}

/// Open functions of all threads. The function that a thread entered last counts as its innermost one, on whatever
/// stack it runs. Changes come in pairs: an owner that starts does not own yet, an owner that stops does.
///
/// A function is inclusively the owner from its first entry to its last exit, over all threads. Accesses while several
/// threads have open functions are only those of [`Owner::SeveralThreads`], which starts and stops in between: the change
/// from one thread to two costs the same for any number of open functions. A function starts only while
/// [`Owner::SeveralThreads`] does not own; a function that is entered in that time starts at its end, if it is still open.
/// (While one thread has open functions, no other thread can be the only one with open functions. So all accesses
/// between a function's start and stop are the function's, except those of [`Owner::SeveralThreads`].)
#[derive(Clone, Debug, Default)]
pub struct Owners {
    calls: OpenCalls,
    /// Number of open calls of each function, over all threads.
    times: FastMap<FunctionId, u64>,
    running: BTreeSet<usize>,
    /// Functions that were entered while several threads had open functions, and have not started.
    entered: BTreeSet<FunctionId>,
}

fn report(kind: Kind, owner: Owner, is_start: bool, to: &mut impl FnMut(Change)) {
    to(Change { kind, owner, is_start });
}

impl Owners {
    /// Reports the owner before the first call.
    pub fn begin(&self, to: &mut impl FnMut(Change)) {
        [Kind::Own, Kind::Inclusive]
            .into_iter()
            .for_each(|kind| report(kind, Owner::Outside, true, to));
    }

    /// Processes an entry, or an exit of an open function, and reports the changes of ownership.
    pub fn call(
        &mut self,
        thread: usize,
        number: FunctionId,
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
            report(Kind::Inclusive, Owner::Function(number), false, to);
        }
        if before != now {
            report(Kind::Own, before, false, to);
            report(Kind::Own, now, true, to);
            self.step(before, now, to);
        }
        if is_entry && self.is_first(number) {
            match now {
                Owner::SeveralThreads => drop(self.entered.insert(number)),
                _ => report(Kind::Inclusive, Owner::Function(number), true, to),
            }
        }
    }

    /// The owner of own accesses.
    fn own(&self) -> Owner {
        let mut running = self.running.iter();
        match (running.next(), running.next()) {
            (Some(thread), None) => {
                self.calls.innermost(*thread).map_or(Owner::Outside, Owner::Function)
            }
            (None, _) => Owner::Outside,
            _ => Owner::SeveralThreads,
        }
    }

    /// Reports the inclusive changes of the owners that are not functions.
    fn step(&mut self, before: Owner, now: Owner, to: &mut impl FnMut(Change)) {
        if !matches!(before, Owner::Function(_)) {
            report(Kind::Inclusive, before, false, to);
        }
        if !matches!(now, Owner::Function(_)) {
            report(Kind::Inclusive, now, true, to);
        }
        if before == Owner::SeveralThreads {
            for number in std::mem::take(&mut self.entered) {
                report(Kind::Inclusive, Owner::Function(number), true, to);
            }
        }
    }

    /// Counts an entry; whether the function was not open before.
    fn is_first(&mut self, number: FunctionId) -> bool {
        let times = self.times.entry(number).or_default();
        *times += 1;
        *times == 1
    }

    /// Counts an exit; whether the function is no longer open.
    fn is_last(&mut self, number: FunctionId) -> bool {
        let Some(times) = self.times.get_mut(&number) else { return false };
        *times -= 1;
        let is_last = *times == 0;
        if is_last {
            self.times.remove(&number);
        }
        is_last
    }
}
