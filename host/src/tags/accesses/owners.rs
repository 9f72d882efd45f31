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

/// What is open in all threads; the function that a thread entered last counts as the innermost one, whatever stack it
/// is on. Changes come in pairs: what starts has not been, what stops has.
#[derive(Clone, Debug, Default)]
pub struct Owners {
    calls: OpenCalls,
    threads: Vec<Open>,
    running: BTreeSet<usize>,
}

/// A thread's open functions, and how often each is open.
#[derive(Clone, Debug, Default)]
struct Open {
    depths: FastMap<u32, u32>,
}

fn both(owner: Owner, is_start: bool, to: &mut impl FnMut(Change)) {
    [Kind::Own, Kind::Inclusive].into_iter().for_each(|kind| to(Change { kind, owner, is_start }));
}

impl Open {
    /// Whether it was not open.
    fn push(&mut self, number: u32) -> bool {
        let depth = self.depths.entry(number).or_default();
        *depth += 1;
        *depth == 1
    }

    /// Whether it is not open any more.
    fn remove(&mut self, number: u32) -> bool {
        let Some(depth) = self.depths.get_mut(&number) else { return false };
        *depth -= 1;
        let is_last = *depth == 0;
        if is_last {
            self.depths.remove(&number);
        }
        is_last
    }
}

impl Owners {
    /// What is before the first call.
    pub fn begin(&self, to: &mut impl FnMut(Change)) {
        both(Owner::Outside, true, to);
    }

    /// A thread enters a function, or leaves one that is open.
    pub fn call(
        &mut self,
        thread: usize,
        number: u32,
        is_entry: bool,
        to: &mut impl FnMut(Change),
    ) {
        if self.threads.len() <= thread {
            self.threads.resize_with(thread + 1, Open::default);
        }
        let has_others = self.running.len() > usize::from(self.running.contains(&thread));
        if has_others {
            return self.among_others(thread, number, is_entry, to);
        }
        let was_running = self.calls.innermost(thread).is_some();
        if is_entry && !was_running {
            both(Owner::Outside, false, to);
            self.running.insert(thread);
        }
        self.change(thread, number, is_entry, to);
        if was_running && self.calls.innermost(thread).is_none() {
            self.running.remove(&thread);
            both(Owner::Outside, true, to);
        }
    }

    /// Everything of a thread starts or stops.
    fn all(&self, thread: usize, is_start: bool, to: &mut impl FnMut(Change)) {
        if let Some(own) = self.calls.innermost(thread) {
            to(Change { kind: Kind::Own, owner: Owner::Function(own), is_start });
        }
        for number in self.threads[thread].depths.keys() {
            to(Change { kind: Kind::Inclusive, owner: Owner::Function(*number), is_start });
        }
    }

    /// Adds or removes a call while its thread is the only one; says what changes if `to` is told.
    fn change(&mut self, thread: usize, number: u32, is_entry: bool, to: &mut impl FnMut(Change)) {
        let own = self.calls.innermost(thread);
        let has_changed = if is_entry {
            self.calls.enter(thread, number);
            self.threads[thread].push(number)
        } else {
            self.calls.leave(thread, number) && self.threads[thread].remove(number)
        };
        if has_changed {
            let owner = Owner::Function(number);
            to(Change { kind: Kind::Inclusive, owner, is_start: is_entry });
        }
        let now = self.calls.innermost(thread);
        if own != now {
            let mut tell = |number: Option<u32>, is_start| {
                if let Some(owner) = number.map(Owner::Function) {
                    to(Change { kind: Kind::Own, owner, is_start });
                }
            };
            tell(own, false);
            tell(now, true);
        }
    }

    fn among_others(
        &mut self,
        thread: usize,
        number: u32,
        is_entry: bool,
        to: &mut impl FnMut(Change),
    ) {
        let before = self.running.len();
        self.change(thread, number, is_entry, &mut |_| {});
        if self.calls.innermost(thread).is_none() {
            self.running.remove(&thread);
        } else {
            self.running.insert(thread);
        }
        // Only the step from one thread to two, or back, changes whose accesses are.
        let only = self.running.iter().find(|other| **other != thread);
        match (only, before, self.running.len()) {
            (Some(only), 1, 2) => {
                self.all(*only, false, to);
                both(Owner::Several, true, to);
            }
            (Some(only), 2, 1) => {
                both(Owner::Several, false, to);
                self.all(*only, true, to);
            }
            _ => {}
        }
    }
}
