//! Determines the owners of accesses at each time, from the calls of threads in order of time.
//!
//! The bus does not show which thread makes an access. If only one thread has open functions, the
//! access is attributed to the functions of this thread. If several threads have open functions,
//! the access is attributed to [`Owner::SeveralThreads`].

use std::collections::BTreeSet;

use super::open_calls::OpenCalls;
use super::regions::Regions;
use crate::tags::hash::FastMap;
use hmtt_files::tag_log::FunctionId;

/// An owner of accesses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Owner {
    /// Accesses while no function is open.
    Outside,
    /// Accesses while functions of several threads are open.
    SeveralThreads,
    /// Accesses of the function with this number.
    Function(FunctionId),
    /// Own accesses of a function with tagged blocks, before its call has entered one of them.
    OutsideBlocks(FunctionId),
    /// Accesses after the entry of the block with this number, until its call enters another tagged
    /// block.
    Block(FunctionId),
    /// Accesses while a call of a function is in a block of the loop with this number.
    Loop(u32),
}

impl Owner {
    /// A number that is different for each owner.
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

/// Whether a function's accesses include the accesses of the functions that it has called.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// Accesses while the function is the innermost open one.
    Own,
    /// Accesses while the function is open, including accesses of the functions that it has called.
    Inclusive,
}

/// A start or an end of ownership.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change {
    /// Kind of the accesses whose owner changes.
    pub kind: Kind,
    /// Owner that starts or stops.
    pub owner: Owner,
    /// Whether the ownership starts (true) or stops.
    pub is_start: bool,
}

/// Tracks the open functions, blocks and loops of all threads, and reports changes of ownership.
/// The function that a thread entered last counts as its innermost function, on whatever stack it
/// runs. Starts and stops of an owner alternate.
///
/// A function inclusively owns accesses from its first entry to its last exit, over all threads.
/// While several threads have open functions, accesses belong to [`Owner::SeveralThreads`] alone.
/// This owner starts and stops while the functions stay started, so the change from one thread to
/// two costs the same for any number of open functions. A function that is entered in this time
/// only starts when [`Owner::SeveralThreads`] stops, if it is still open then:
///
/// ```text
/// event                 changes of inclusive owners
/// thread 1 enters f     Outside stops, f starts
/// thread 2 enters g     SeveralThreads starts
/// thread 1 leaves f     f stops, SeveralThreads stops, g starts
/// ```
///
/// While a thread has open functions, no other thread can be the only one with open functions. So
/// all accesses between the start and the stop of a function belong to the function, except the
/// accesses of [`Owner::SeveralThreads`].
///
/// Blocks and loops start and stop by the same rules. A block is open from its entry until the same
/// call enters another block or ends. A function's own accesses are the own accesses of its blocks,
/// and the accesses outside of its blocks. A loop is open while a call is in one of its blocks. The
/// own accesses of a loop are the accesses of its blocks, without the blocks of the loops that it
/// contains.
#[derive(Clone, Debug, Default)]
pub struct Owners {
    regions: Regions,
    calls: OpenCalls,
    /// Number of open calls of each function, block and loop, over all threads, by [`Owner::key`].
    times: FastMap<u64, u64>,
    /// Threads with open functions.
    running: BTreeSet<usize>,
    /// Open functions, blocks and loops that were entered while several threads had open functions,
    /// and so have not started.
    entered: BTreeSet<Owner>,
}

/// The owners of own accesses: a function with its current block and loop, or [`Owner::Outside`],
/// or [`Owner::SeveralThreads`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct OwnOwners {
    owner: Owner,
    /// Current block of the function. If the call has entered none, [`Owner::OutsideBlocks`], or
    /// `None` for a function without tagged blocks.
    part: Option<Owner>,
    /// Innermost loop that contains the block.
    innermost_loop: Option<Owner>,
}

/// Passes a change to `to`.
fn report(kind: Kind, owner: Owner, is_start: bool, to: &mut impl FnMut(Change)) {
    to(Change { kind, owner, is_start });
}

impl Owners {
    /// Starts without open calls. `regions`: the blocks and loops to which accesses are attributed.
    pub fn new(regions: Regions) -> Self {
        Owners { regions, ..Owners::default() }
    }

    /// Reports the owner before the first call: [`Owner::Outside`].
    pub fn begin(&self, to: &mut impl FnMut(Change)) {
        [Kind::Own, Kind::Inclusive]
            .into_iter()
            .for_each(|kind| report(kind, Owner::Outside, true, to));
    }

    /// Processes an entry or exit of a function, and reports the changes of ownership to `to`. An
    /// exit of a function that the thread has not open is ignored.
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

    /// Processes an entry of a block by a thread's innermost call. The entry is ignored if that
    /// call is not a call of the block's function.
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

    /// Counts an exit of the loop `next` and of each loop around it, up to but without the loop
    /// `kept`.
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

    /// The current owners of own accesses.
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

    /// Reports the inclusive changes of [`Owner::Outside`] and [`Owner::SeveralThreads`]. When
    /// [`Owner::SeveralThreads`] stops, the functions, blocks and loops start that were entered in
    /// the meantime and are still open.
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

    /// Counts an entry of a function, block or loop. `own`: the owner of own accesses after the
    /// entry.
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
