//! Determines the owner of accesses at each time, from the calls of threads in the order of time.
//!
//! The bus does not show which thread makes an access. If only one thread has open functions, the
//! access is attributed to that thread; if several threads have, it cannot be attributed.

use std::collections::BTreeSet;

use super::open_calls::OpenCalls;
use super::regions::Regions;
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
    /// Own accesses of a function with tagged blocks, before one of them was entered in the same
    /// call.
    OutsideBlocks(FunctionId),
    /// Accesses after the entry of the block with this number, until its call enters another tagged
    /// block.
    Block(FunctionId),
    /// Accesses while a call of a function is in a block of the loop with this number.
    Loop(u32),
}

impl Owner {
    /// A number that no other owner has.
    pub const fn key(self) -> u64 {
        match self {
            Owner::Outside => 0,
            Owner::SeveralThreads => 1,
            Owner::Function(number) => 1 << 32 | number.0 as u64,
            Owner::OutsideBlocks(number) => 2 << 32 | number.0 as u64,
            Owner::Block(number) => 3 << 32 | number.0 as u64,
            Owner::Loop(number) => 4 << 32 | number as u64,
        }
    }
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

/// Open functions of all threads. The function that a thread entered last counts as its innermost
/// one, on whatever stack it runs. Changes come in pairs: an owner that starts does not own yet, an
/// owner that stops does.
///
/// A function is inclusively the owner from its first entry to its last exit, over all threads.
/// Accesses while several threads have open functions are only those of [`Owner::SeveralThreads`],
/// which starts and stops in between: the change from one thread to two costs the same for any
/// number of open functions. A function starts only while [`Owner::SeveralThreads`] does not own; a
/// function that is entered in that time starts at its end, if it is still open. (While one thread
/// has open functions, no other thread can be the only one with open functions. So all accesses
/// between a function's start and stop are the function's, except those of
/// [`Owner::SeveralThreads`].)
///
/// The same holds for blocks: a block is open from its entry until the same call enters another
/// block or ends. A function's own accesses are those of its blocks and those outside of its
/// blocks. A loop is open while a call is in one of its blocks; own accesses of a loop are those of
/// its blocks without the blocks of the loops that it contains.
#[derive(Clone, Debug, Default)]
pub struct Owners {
    regions: Regions,
    calls: OpenCalls,
    /// Number of open calls of each function, block and loop, over all threads, by [`Owner::key`].
    times: FastMap<u64, u64>,
    running: BTreeSet<usize>,
    /// Functions, blocks and loops that were entered while several threads had open functions, and
    /// have not started.
    entered: BTreeSet<Owner>,
}

/// Owners of own accesses: a function or one of the owners that are not functions, and the parts of
/// the function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct OwnOwners {
    owner: Owner,
    /// Block of the function, or [`Owner::OutsideBlocks`] if the function has blocks.
    part: Option<Owner>,
    /// Innermost loop that contains the block.
    innermost_loop: Option<Owner>,
}

fn report(kind: Kind, owner: Owner, is_start: bool, to: &mut impl FnMut(Change)) {
    to(Change { kind, owner, is_start });
}

impl Owners {
    /// Starts without open calls. `regions`: the blocks and loops to which accesses are attributed.
    pub fn new(regions: Regions) -> Self {
        Owners { regions, ..Owners::default() }
    }

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
        } else {
            let Some((_, block)) = self.calls.leave(thread, number) else { return };
            if self.calls.innermost(thread).is_none() {
                self.running.remove(&thread);
            }
            self.close(Owner::Function(number), to);
            if let Some(block) = block {
                self.close(Owner::Block(block), to);
                self.close_loops(self.regions.loop_of(block), None, to);
            }
        }
        let now = self.own();
        self.report_own(before, now, to);
        if before.owner != now.owner {
            self.step(before.owner, now.owner, to);
        }
        if is_entry {
            self.open(Owner::Function(number), now.owner, to);
        }
    }

    /// Processes an entry of a block by a thread's innermost call. It is ignored if the call is
    /// none of the block's function.
    pub fn block(&mut self, thread: usize, block: FunctionId, to: &mut impl FnMut(Change)) {
        let Some((number, previous)) = self.calls.innermost(thread) else { return };
        if self.regions.function_of(block) != Some(number) || previous == Some(block) {
            return;
        }
        let before = self.own();
        self.calls.begin_block(thread, block);
        previous.into_iter().for_each(|previous| self.close(Owner::Block(previous), to));
        let left = previous.and_then(|previous| self.regions.loop_of(previous));
        let entered = self.regions.loop_of(block);
        let common = self.regions.common(left, entered);
        self.close_loops(left, common, to);
        let now = self.own();
        self.report_own(before, now, to);
        self.open(Owner::Block(block), now.owner, to);
        let mut next = entered;
        while let Some(number) = next.filter(|_| next != common) {
            self.open(Owner::Loop(number), now.owner, to);
            next = self.regions.outer(number);
        }
    }

    /// Counts an exit of a loop and of those that contain it, up to the loop `kept`.
    fn close_loops(
        &mut self,
        mut next: Option<u32>,
        kept: Option<u32>,
        to: &mut impl FnMut(Change),
    ) {
        while let Some(number) = next.filter(|_| next != kept) {
            self.close(Owner::Loop(number), to);
            next = self.regions.outer(number);
        }
    }

    /// The owners of own accesses.
    fn own(&self) -> OwnOwners {
        let mut running = self.running.iter();
        let none = |owner| OwnOwners { owner, part: None, innermost_loop: None };
        match (running.next(), running.next()) {
            (Some(thread), None) => match self.calls.innermost(*thread) {
                None => none(Owner::Outside),
                Some((number, block)) => {
                    let outside =
                        || self.regions.has_blocks(number).then_some(Owner::OutsideBlocks(number));
                    let part = block.map(Owner::Block).or_else(outside);
                    let innermost_loop = block.and_then(|block| self.regions.loop_of(block));
                    let innermost_loop = innermost_loop.map(Owner::Loop);
                    OwnOwners { owner: Owner::Function(number), part, innermost_loop }
                }
            },
            (None, _) => none(Owner::Outside),
            _ => none(Owner::SeveralThreads),
        }
    }

    /// Reports the changes of the owners of own accesses.
    fn report_own(&self, before: OwnOwners, now: OwnOwners, to: &mut impl FnMut(Change)) {
        let pairs = [
            (Some(before.owner), Some(now.owner)),
            (before.part, now.part),
            (before.innermost_loop, now.innermost_loop),
        ];
        for (before, now) in pairs.into_iter().filter(|(before, now)| before != now) {
            before.into_iter().for_each(|before| report(Kind::Own, before, false, to));
            now.into_iter().for_each(|now| report(Kind::Own, now, true, to));
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
            for owner in std::mem::take(&mut self.entered) {
                report(Kind::Inclusive, owner, true, to);
            }
        }
    }

    /// Counts an entry of a function, block or loop. `own`: the owner of own accesses after it.
    fn open(&mut self, owner: Owner, own: Owner, to: &mut impl FnMut(Change)) {
        let times = self.times.entry(owner.key()).or_default();
        *times += 1;
        if *times == 1 {
            match own {
                Owner::SeveralThreads => drop(self.entered.insert(owner)),
                _ => report(Kind::Inclusive, owner, true, to),
            }
        }
    }

    /// Counts an exit of a function, block or loop.
    fn close(&mut self, owner: Owner, to: &mut impl FnMut(Change)) {
        let Some(times) = self.times.get_mut(&owner.key()) else { return };
        *times -= 1;
        if *times == 0 {
            self.times.remove(&owner.key());
            if !self.entered.remove(&owner) {
                report(Kind::Inclusive, owner, false, to);
            }
        }
    }
}
