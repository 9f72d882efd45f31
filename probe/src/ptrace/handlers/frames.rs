//! Searches the stacks of all threads of a stopped process for signal frames.
//!
//! A handler may run on an alternate stack, and may be interrupted by a handler on another stack.
//! Each stack is searched from the stack pointer at which the thread has left it.
//!
//! Threads may have their stacks in one mapping, as Go's threads do, and the same stacks are
//! searched several times during a stop. So results are kept until a thread runs: each byte is
//! searched once, whatever the number of threads. The work is linear in the number of stack pages
//! that the process has touched. [`STACK_BYTES`] limits the work for the process as a whole.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;

use nix::unistd::Pid;

use super::super::search::for_each_piece;
use super::super::search_budget::SearchBudget;
use super::super::touched::TouchedPages;
use super::super::{Mapping, PtraceError, ReadMemory};
use super::{
    CS, FRAME, HandlerReturn, IN_RESTORER, RIP, RSP_BEFORE, SEGMENTS_BEHIND, UC_FLAGS, is_restorer,
    is_returning,
};
use crate::address::RunAddr;
use crate::ranges::Ranges;
use crate::stubs::layout::PAGE_BYTES;

/// Maximum number of bytes that are searched on all stacks of a thread. The kernel does not show
/// where a stack in a large mapping ends.
const THREAD_BYTES: u64 = 64 << 20;
/// Maximum number of bytes that are searched on the stacks of a process during a stop. 1 GiB takes
/// less than a second. A frame counts as a page.
const STACK_BYTES: u64 = 4 << 30;
/// Maximum number of addresses at which a restorer is looked for. A program has few restorers.
/// Beyond this number, all memory that has the layout of a frame counts as a frame.
const MOST_RESTORERS: usize = 4096;

/// A thread with its instruction pointer and its stack pointer.
type Thread = (Pid, (RunAddr, RunAddr));

/// Signal frames that were found in a stopped process.
#[derive(Debug, Default)]
pub(in super::super) struct SignalFrames {
    /// Parts of the memory that were searched.
    searched: Ranges,
    /// Restorer and interrupted stack pointer of each frame, by address of the frame.
    frames: BTreeMap<RunAddr, (RunAddr, RunAddr)>,
    /// Addresses that were checked, and whether each is a restorer.
    known: HashMap<RunAddr, bool>,
    /// For each thread, the addresses of saved instruction pointers, with the restorers.
    of_threads: HashMap<Thread, Vec<(RunAddr, Option<RunAddr>)>>,
    budget: Option<SearchBudget>,
}

/// The process's memory and mappings, as a search needs them.
struct Stacks<'m, M> {
    memory: &'m M,
    pages: TouchedPages,
    mappings: &'m [Mapping],
    restorers: &'m [RunAddr],
}

impl<M> Stacks<'_, M> {
    /// The mapping that contains an address. A binary search is used: a process may have tens of
    /// thousands of mappings.
    fn holding(&self, address: RunAddr) -> Option<&Mapping> {
        let next = self.mappings.partition_point(|mapping| mapping.start <= address);
        let mapping = self.mappings.get(next.checked_sub(1)?);
        mapping.filter(|mapping| address < mapping.end)
    }

    fn is_code(&self, address: RunAddr) -> bool {
        self.holding(address).is_some_and(|mapping| mapping.executable)
    }
}

impl SignalFrames {
    /// Forgets the frames, because a thread may have run. The budget stays spent.
    pub fn forget_frames(&mut self) {
        let budget = self.budget.take();
        *self = SignalFrames { budget, ..SignalFrames::default() };
    }

    /// Returns the returns from all signal handlers that a thread is in. `restorers`: addresses of
    /// restorers whose code was changed.
    pub fn returns<M: ReadMemory>(
        &mut self,
        memory: &M,
        thread: Thread,
        mappings: &[Mapping],
        restorers: &[RunAddr],
    ) -> Result<Vec<HandlerReturn>, PtraceError> {
        if !self.of_threads.contains_key(&thread) {
            let pages = TouchedPages::open(memory.pid());
            let stacks = Stacks { memory, pages, mappings, restorers };
            let places = self.find(&stacks, thread.1).inspect_err(|error| match error {
                // The search was interrupted before any change depended on it, so its budget starts
                // anew.
                PtraceError::Interrupted(_) => *self = SignalFrames::default(),
                _ => self.forget_frames(),
            })?;
            self.of_threads.insert(thread, places);
        }
        // The saved instruction pointers may have been changed since the search, so they are read
        // again.
        let returns = self.of_threads[&thread].iter().map(|(place, restorer)| {
            let mut rip = [0; 8];
            memory.read(*place, &mut rip)?;
            let rip = RunAddr(u64::from_le_bytes(rip));
            Ok(HandlerReturn { rip, place: *place, restorer: *restorer })
        });
        returns.collect()
    }

    fn find<M: ReadMemory>(
        &mut self,
        stacks: &Stacks<'_, M>,
        (rip, rsp): (RunAddr, RunAddr),
    ) -> Result<Vec<(RunAddr, Option<RunAddr>)>, PtraceError> {
        let mut places = Vec::new();
        let mut pending = vec![rsp];
        if is_returning(stacks.memory, rip, stacks.restorers) {
            let place = rsp.wrapping_add(IN_RESTORER as u64);
            let mut saved = [0; RSP_BEFORE + 8];
            if stacks.memory.read(place.wrapping_sub(RSP_BEFORE as u64), &mut saved).is_ok() {
                places.push((place, None));
                pending.extend(saved.first_chunk().map(|rsp| RunAddr(u64::from_le_bytes(*rsp))));
            }
        }
        let (mut own, mut left) = (Ranges::default(), THREAD_BYTES);
        while let Some(rsp) = pending.pop() {
            // A stack that is not mapped, such as one that is about to be replaced, has no frames.
            let Some(stack) = stacks.holding(rsp) else { continue };
            let start = rsp.next_multiple_of(8).min(stack.end);
            let end = stack.end.min(start + left);
            if start == end {
                continue;
            }
            for part in own.add(start.0..end.0) {
                left = left.saturating_sub(part.end - part.start);
                self.search(stacks, stack, &part)?;
                let part = RunAddr(part.start)..RunAddr(part.end);
                for (at, (restorer, before)) in self.frames.range(part) {
                    spend(&mut self.budget, stacks.memory.pid()).take(PAGE_BYTES)?;
                    places.push((*at + RIP as u64, Some(*restorer)));
                    // If the interrupted stack pointer is on this stack, the search covers it.
                    if !(start..stack.end).contains(before) {
                        pending.push(*before);
                    }
                }
            }
        }
        Ok(places)
    }

    /// Searches a part of a stack, except bytes that were searched before.
    fn search<M: ReadMemory>(
        &mut self,
        stacks: &Stacks<'_, M>,
        stack: &Mapping,
        part: &Range<u64>,
    ) -> Result<(), PtraceError> {
        let SignalFrames { searched, frames, known, budget, .. } = self;
        let budget = spend(budget, stacks.memory.pid());
        for part in searched.add(part.clone()) {
            let of_stack = (stack, RunAddr(part.start)..RunAddr(part.end));
            let each = |at: RunAddr, own: usize, bytes: &[u8], budget: &mut SearchBudget| {
                for (offset, restorer, rsp) in frames_in(stacks, known, own, bytes) {
                    budget.take(PAGE_BYTES)?;
                    frames.insert(at + offset as u64, (restorer, rsp));
                }
                Ok(())
            };
            let (memory, pages) = (stacks.memory, &stacks.pages);
            for_each_piece(memory, pages, of_stack, FRAME as u64, budget, each)?;
        }
        Ok(())
    }
}

/// The budget of a process. The first search of the process creates it.
fn spend(budget: &mut Option<SearchBudget>, pid: Pid) -> &mut SearchBudget {
    budget.get_or_insert_with(|| SearchBudget::new(pid, "stack", STACK_BYTES))
}

/// Finds signal frames that begin in the first `own` bytes. Returns offset, restorer and
/// interrupted stack pointer of each frame.
fn frames_in<M: ReadMemory>(
    stacks: &Stacks<'_, M>,
    known: &mut HashMap<RunAddr, bool>,
    own: usize,
    bytes: &[u8],
) -> impl Iterator<Item = (usize, RunAddr, RunAddr)> {
    let words = bytes.as_chunks::<8>().0;
    let word = |index: usize| words.get(index).map(|word| u64::from_le_bytes(*word));
    let segments = words.iter().skip((RIP + SEGMENTS_BEHIND) / 8).take(own / 8).enumerate();
    // The segment registers are compared first, because few words have their value.
    let alike = segments.filter(|(_, [low, high, ..])| u16::from_le_bytes([*low, *high]) == CS);
    alike.filter_map(move |(index, _)| {
        let restorer = RunAddr(word(index)?);
        if word(index + 1)? > UC_FLAGS || !stacks.is_code(restorer) {
            return None;
        }
        let is_full = known.len() >= MOST_RESTORERS;
        let check = || stacks.restorers.contains(&restorer) || is_restorer(stacks.memory, restorer);
        let returns = match known.get(&restorer) {
            Some(returns) => *returns,
            None if is_full => true,
            None => *known.entry(restorer).or_insert_with(check),
        };
        let rsp = RunAddr(word(index + (RIP - RSP_BEFORE) / 8)?);
        returns.then_some((index * 8, restorer, rsp))
    })
}

#[cfg(test)]
mod tests;
