//! Gives a child process tags of its own.
//!
//! The child is a copy of a tagged process: it has the jumps and the stubs, and still shares the
//! memory that its parent's tags write to. New shared memory replaces this memory at the same
//! address, so addresses in the copied stubs stay valid. Counts begin at zero. A call that the
//! parent's thread has entered before the copy counts for the parent.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use nix::unistd::Pid;

use super::collector::Collector;
use super::patch;
use super::shared::InheritedMemory;
use super::{Output, TagError, Tagged, Tags};
use crate::address::RunAddr;
use crate::ptrace::{Process, StopState, Stopped};

impl Tagged {
    /// Makes a child a tagged process of its own. The child has a copy of this process's memory and
    /// is stopped before its first instruction.
    ///
    /// # Errors
    /// [`TagError`]; the child still has its parent's tags then.
    pub(super) fn child(
        &self,
        pid: Pid,
        stop_state: StopState,
        output: Output,
    ) -> Result<Tagged, TagError> {
        if self.is_untagged() {
            return Err(self.untagged_because(pid));
        }
        let mut process = Process::from_traced(pid)?;
        process.threads.insert(pid, stop_state);
        process.restorers.clone_from(&self.process.restorers);
        process.risk_policy = self.process.risk_policy;
        let mut stopped = process.stopped()?;
        let gs = RunAddr(stopped.registers(pid)?.gs_base);
        let shared = self.tags.collector.shared();
        let inherited = InheritedMemory { start: shared.start, gs, cookie: shared.cookie() };
        let tags = self.tags.child(&mut stopped, inherited, output)?;
        let (budget, watch, memory_sharers) = Default::default();
        let mut child = Tagged { process, tags, budget, watch, memory_sharers };
        child.check_log()?;
        child.add_thread(pid)?;
        if let Some(share) = self.share() {
            child.set_budget(share)?;
        }
        Ok(child)
    }

    /// Removes the tags from a child that has a copy of this process's memory and is stopped.
    pub(super) fn untag_child(&self, pid: Pid) -> Result<(), TagError> {
        if self.is_untagged() {
            return Ok(());
        }
        let mut process = Process::from_traced(pid)?;
        let stopped = process.stopped()?;
        self.tags.code.remove_jumps(&stopped)?;
        self.tags.collector.discard_output_of(&stopped)
    }

    /// Stops all threads, and the processes that share their memory. `beside`: threads that are
    /// already stopped. `gone`: processes that no longer share the memory.
    pub(super) fn stop(
        &mut self,
        beside: BTreeMap<Pid, StopState>,
        gone: &BTreeSet<Pid>,
    ) -> Result<(), TagError> {
        let waiting =
            self.memory_sharers.values().flatten().map(|thread| (*thread, StopState::InSyscall));
        let mut stop_states: BTreeMap<Pid, StopState> = waiting.collect();
        stop_states.extend(beside);
        let memory_sharers = self.memory_sharers.keys().filter(|sharer| !gone.contains(sharer));
        let memory_sharers: BTreeSet<Pid> = memory_sharers.copied().collect();
        let stopped = self.process.stop_all_but(stop_states, &memory_sharers).map(drop);
        self.check_gs_of_ended();
        stopped?;
        let is_stopped = |thread: &Pid| self.process.threads.contains_key(thread);
        for thread in self.tags.collector.threads().iter().filter(|thread| !is_stopped(thread)) {
            self.tags.collector.remove_thread(*thread);
        }
        if self.any_gs_taken() {
            return Ok(());
        }
        self.add_new_threads(gone)
    }

    /// Adds threads that have begun since the process was stopped. `gone`: processes that no longer
    /// share the memory.
    pub(super) fn add_new_threads(&mut self, gone: &BTreeSet<Pid>) -> Result<(), TagError> {
        let is_memory_sharer =
            |thread: &Pid| self.memory_sharers.contains_key(thread) && !gone.contains(thread);
        let new =
            |thread: &&Pid| !self.tags.collector.has_thread(**thread) && !is_memory_sharer(thread);
        let new: Vec<Pid> = self.process.threads.keys().filter(new).copied().collect();
        new.into_iter().try_for_each(|thread| self.add_thread(thread))
    }

    /// Resumes all threads except those that wait for a process that shares their memory.
    pub(super) fn resume(&mut self) -> Result<(), TagError> {
        for thread in self.memory_sharers.values().flatten() {
            self.process.threads.remove(thread);
        }
        Ok(self.process.resume()?)
    }

    /// Handles a process that no longer shares the memory. Returns the parent thread that waits for
    /// this event.
    pub(super) fn memory_sharer_left(&mut self, pid: Pid) -> Option<Pid> {
        self.tags.collector.remove_thread(pid);
        self.process.threads.remove(&pid);
        for waiting in self.memory_sharers.values_mut() {
            // The waiting thread may have ended.
            waiting.take_if(|thread| *thread == pid);
        }
        self.memory_sharers.remove(&pid).flatten()
    }
}

impl Tags {
    /// Builds the same tags for a child, which is stopped and has a copy of the process's memory.
    /// The child gets memory of its own to write to.
    fn child(
        &self,
        process: &mut Stopped<'_>,
        inherited: InheritedMemory,
        output: Output,
    ) -> Result<Tags, TagError> {
        let numbers = self.code.numbers() as usize;
        let sizes = (numbers, self.max_functions);
        let mut child = Tags {
            program: Arc::clone(&self.program),
            selection: self.selection.clone(),
            max_functions: self.max_functions,
            collector: Collector::new(process, Some(inherited), output, sizes)?,
            code: self.code.clone(),
            unwinding: self.unwinding.clone(),
            libraries: self.libraries.child(),
            removed: self.removed.clone(),
            refused: self.refused.clone(),
            overwritten: Vec::new(),
            notices: Vec::new(),
            is_changed: true,
        };
        child.collector.add(numbers)?;
        let shared = child.collector.shared();
        for breakpoint in &child.code.breakpoints {
            shared.record_area(&breakpoint.stubs)?;
            shared.record(&patch::overwritten(std::slice::from_ref(&breakpoint.patched)))?;
        }
        for area in &child.code.areas {
            shared.record_area(area)?;
        }
        shared.record(&child.code.restorers.overwritten())?;
        shared.record(&patch::overwritten(&child.code.functions))?;
        Ok(child)
    }
}
