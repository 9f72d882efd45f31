//! Reconstructs calls from the tags in a trace, and attributes the accesses of the trace to
//! functions.
//!
//! The bus shows neither threads nor stack pointers, so all calls are on one stack. An entry pushes
//! a call. An exit closes the innermost call of its function, and the calls above it, which were
//! left without an exit tag. An entry of a block closes the calls above the innermost call of the
//! block's function. At a gap of the trace the open calls are not known: all calls end there, so
//! that no function gets accesses of another function.
//!
//! ```text
//! tag          open calls
//! entry of f   f
//! entry of g   f, g
//! entry of h   f, g, h
//! exit of g    f: h was abandoned, g has returned
//! ```

use hmtt_files::tag_log::{FunctionId, TagEvent};
use hmtt_files::tag_map::Window;

use super::current_blocks::CurrentBlocks;
use super::current_owners::CurrentOwners;
use super::ledger::Ledger;
use super::owners::Owners;
use super::regions::Regions;
use super::steps::{Step, Steps};
use crate::decode::{Accesses, Item};
use crate::tags::hash::FastMap;
use crate::tags::stack::{Call, DEPTH, Exit, Listener};
use crate::tags::threads::{BlockEntries, Threads};

/// Bytes between the window addresses of consecutive event numbers.
const STRIDE: u64 = 64;
/// Distance between the stack pointers that are assigned to consecutive calls, in bytes: the size
/// of the smallest frame.
const FRAME_BYTES: u32 = 16;
/// Stack pointer that is assigned to a stack without calls.
const STACK_TOP: u32 = 0x8000_0000;

/// A [`Listener`] that attributes accesses to the open calls.
#[derive(Debug, Default)]
pub struct Split {
    owners: Owners,
    current: CurrentBlocks,
    /// Accesses of each owner so far.
    pub ledger: Ledger,
    /// Functions that own the next access.
    pub now: CurrentOwners,
}

impl Split {
    /// Counts an entry or exit of a function at a clock.
    fn call(&mut self, number: FunctionId, is_entry: bool, clock: u64) {
        let Split { owners, ledger, now, .. } = self;
        ledger.advance(clock);
        owners.call(0, number, is_entry, &mut |change| {
            ledger.change(change);
            now.change(change);
        });
    }

    /// Counts an entry of a block by the innermost call.
    fn begin(&mut self, block: FunctionId, clock: u64) {
        let Split { owners, ledger, .. } = self;
        ledger.advance(clock);
        owners.block(0, block, &mut |change| ledger.change(change));
    }
}

impl Listener for Split {
    /// Index of the call in [`CurrentBlocks`].
    type Note = usize;

    fn enter(&mut self, _caller: Option<usize>, number: FunctionId, clock: u64) -> usize {
        self.call(number, true, clock);
        self.current.enter()
    }

    fn pause(&mut self, _note: usize, number: FunctionId, clock: u64) {
        self.call(number, false, clock);
    }

    fn resume(&mut self, note: usize, number: FunctionId, clock: u64) {
        self.call(number, true, clock);
        if let Some(block) = self.current.get(note) {
            self.begin(block, clock);
        }
    }

    fn block(&mut self, note: usize, block: FunctionId, clock: u64) {
        self.current.begin(note, block);
        self.begin(block, clock);
    }

    fn leave(&mut self, call: &Call<usize>) {
        if !call.is_paused {
            self.call(call.number, false, call.left);
        }
        self.current.leave(call.note);
    }
}

/// Analyses a trace that contains tags.
pub struct Bus<L: Listener> {
    /// The calls of the trace, as calls of one thread with the number 0.
    pub threads: Threads<(L, Split)>,
    /// Converts the items of the trace, and counts them.
    pub steps: Steps,
    tags: Tags,
}

/// Converts offsets in the window to events with stack pointers, as [`Threads`] needs them.
#[derive(Debug, Default)]
struct Tags {
    /// The window that the map states.
    window: Option<Window>,
    /// Number of writes to the card's window that are not tags of this map.
    others: u64,
    /// Functions of the open calls, from the outermost to the innermost.
    open: Vec<FunctionId>,
    /// Number of open calls of each function.
    depths: FastMap<FunctionId, u32>,
}

impl<L: Listener> Bus<L> {
    /// Starts an analysis. `window`: the window that the map states. `regions`: the blocks and
    /// loops of the map.
    pub fn new(window: Option<Window>, regions: Regions, listener: L) -> Self {
        let blocks: Vec<_> = regions.blocks().collect();
        let mut split = Split { owners: Owners::new(regions), ..Split::default() };
        split.owners.begin(&mut |change| split.ledger.change(change));
        let threads = Threads::new(true, blocks, (listener, split));
        Bus { threads, steps: Steps::default(), tags: Tags { window, ..Tags::default() } }
    }

    /// Processes accesses.
    pub fn accesses(&mut self, accesses: &Accesses<'_>) {
        let Bus { threads, steps, .. } = self;
        let ledger = &mut threads.listener.1.ledger;
        steps.accesses(accesses, &mut |clock, step| {
            ledger.advance(clock);
            if let Step::Accesses { address, traffic } = step {
                ledger.access(address, traffic);
            }
        });
    }

    /// Processes an item of the trace that is not in [`accesses`](Self::accesses).
    pub fn item(&mut self, item: &Item) {
        let Bus { threads, steps, tags } = self;
        let base = steps.window;
        steps.item(item, &mut |clock, step| match step {
            Step::Accesses { address, traffic } => {
                let ledger = &mut threads.listener.1.ledger;
                ledger.advance(clock);
                ledger.access(address, traffic);
            }
            Step::Tag(offset) => {
                if let Some(event) = tags.event(clock, base, offset, &threads.blocks) {
                    threads.event(0, event);
                }
            }
            Step::Gap | Step::Restart => {
                tags.forget();
                threads.thread_ended(0, Exit::Abandoned);
            }
            Step::Mark(_) => threads.marks += 1,
        });
    }

    /// Ends the trace, and all calls. Returns the number of writes to the card's window that are
    /// not tags of the map.
    pub fn finish(&mut self) -> u64 {
        self.threads.listener.1.ledger.advance(self.steps.last);
        self.threads.finish();
        self.threads.listener.1.ledger.finish();
        self.tags.others
    }
}

impl Tags {
    /// Converts a write at an offset of the card's window to an event. `base`: address of the
    /// card's window, if the card has reported it. `None` if the write is not a tag of the map.
    fn event(
        &mut self,
        tsc: u64,
        base: Option<u64>,
        offset: u64,
        blocks: &FastMap<FunctionId, BlockEntries>,
    ) -> Option<TagEvent> {
        let (stride, offset) = match (&self.window, base) {
            (None, _) => (STRIDE, offset),
            (Some(window), base) => {
                let stride = u64::from(window.stride_bytes).max(1);
                // A map without an address for its window must mean the card's window.
                let known = base.filter(|_| window.address != 0).unwrap_or(window.address);
                let within = known.saturating_add(offset).checked_sub(window.address);
                match within.filter(|within| *within < window.bytes) {
                    Some(within) => (stride, within),
                    None => {
                        self.others += 1;
                        return None;
                    }
                }
            }
        };
        let event = offset / stride;
        let number = FunctionId(u32::try_from(event / 2).ok()?);
        let is_exit = event % 2 != 0;
        let sp = match blocks.get(&number) {
            Some(block) => self.block(block.function),
            None => self.step(number, is_exit),
        };
        Some(TagEvent { tsc, sp, number, is_exit })
    }

    /// Closes all calls. `depths` is replaced, because clearing it would take time for its whole
    /// capacity.
    fn forget(&mut self) {
        self.open.clear();
        self.depths = FastMap::default();
    }

    /// Applies an entry or exit to the stack of calls. Returns the stack pointer that is assigned
    /// to the event.
    fn step(&mut self, number: FunctionId, is_exit: bool) -> u32 {
        if !is_exit {
            if self.open.len() >= DEPTH {
                self.forget();
            }
            self.open.push(number);
            *self.depths.entry(number).or_default() += 1;
            return sp(self.open.len());
        }
        if !self.depths.contains_key(&number) {
            // This stack pointer is below all frames, so the exit closes none.
            return sp(self.open.len()).wrapping_sub(1);
        }
        let depth = self.innermost(number);
        self.close(depth);
        sp(depth + 1)
    }

    /// Applies an entry of a block of `function` to the stack of calls. Returns the stack pointer
    /// that is assigned to the event. Calls above the innermost call of the function have ended. If
    /// the function has no open call, no call is closed.
    fn block(&mut self, function: FunctionId) -> u32 {
        if self.depths.contains_key(&function) {
            self.close(self.innermost(function) + 1);
        }
        sp(self.open.len())
    }

    /// Index in `open` of the innermost call of a function, which must have one.
    fn innermost(&self, number: FunctionId) -> usize {
        self.open.iter().rposition(|open| *open == number).unwrap_or_default()
    }

    /// Closes all calls from the index `depth` on.
    fn close(&mut self, depth: usize) {
        for closed in self.open.drain(depth..) {
            if let Some(times) = self.depths.get_mut(&closed) {
                *times -= 1;
                if *times == 0 {
                    self.depths.remove(&closed);
                }
            }
        }
    }
}

/// Stack pointer of the innermost of `depth` open calls.
fn sp(depth: usize) -> u32 {
    STACK_TOP.wrapping_sub(FRAME_BYTES * depth as u32)
}
