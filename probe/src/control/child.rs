//! Gives a child process tags of its own.
//!
//! The child is a copy of a tagged process: it has the jumps and the stubs, and still shares the memory that its
//! parent's tags write to. New shared memory replaces that, at the same address, so nothing else in the copy changes.
//! Counts begin at zero, and a call that the parent's thread has entered belongs to the parent.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use nix::unistd::Pid;

use super::conflicts::ConflictWatch;
use super::patch;
use super::shared::InheritedMemory;
use super::{Collector, Output, TagError, Tagged};
use crate::address::RunAddr;
use crate::ptrace::{Process, StopState};

impl Tagged {
    /// Makes a child a tagged process of its own. The child has a copy of this process's memory and is stopped before
    /// its first instruction.
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
            return Err(TagError::GsInUse(pid));
        }
        let mut process = Process::from_traced(pid)?;
        process.threads.insert(pid, stop_state);
        process.restorers.clone_from(&self.process.restorers);
        let gs = RunAddr(process.registers(pid)?.gs_base);
        process.risk_policy = self.process.risk_policy;
        let (start, cookie) = (self.collector.memory().start, self.collector.shared().cookie());
        let inherited = Some(InheritedMemory { start, gs, cookie });
        let program = Arc::clone(&self.program);
        let numbers = self.patched.iter().map(|one| one.numbers() as usize).sum();
        let sizes = (numbers, self.max_functions);
        let collector = Collector::new(&mut process, inherited, output, sizes)?;
        let mut child = Tagged {
            process,
            patched: self.patched.clone(),
            refused: self.refused.clone(),
            collector,
            program,
            selection: self.selection.clone(),
            sink: self.sink,
            breakpoints: self.breakpoints.clone(),
            jumps: self.jumps.clone(),
            unread: Vec::new(),
            libraries: self.libraries.clone(),
            areas: self.areas.clone(),
            list: self.list,
            described_code: self.described_code.clone(),
            tables: self.tables.clone(),
            budget: None,
            removed: self.removed.clone(),
            overwritten: Vec::new(),
            is_changed: true,
            max_functions: self.max_functions,
            restorers: self.restorers.clone(),
            memory_sharers: BTreeMap::new(),
            watch: ConflictWatch::default(),
            notices: Vec::new(),
        };
        child.collector.add(numbers)?;
        let breakpoints = child.breakpoints.iter();
        let breakpoints = breakpoints
            .map(|breakpoint| (&breakpoint.stubs, std::slice::from_ref(&breakpoint.patched)));
        for (stubs, patched) in breakpoints {
            child.collector.record_area(stubs)?;
            child.collector.record(&patch::overwritten(patched))?;
        }
        for area in &child.areas {
            child.collector.record_area(area)?;
        }
        child.collector.record(&child.restorers.overwritten())?;
        child.collector.record(&patch::overwritten(&child.patched))?;
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
        let process = Process::from_traced(pid)?;
        self.remove_jumps(&process)?;
        self.collector.discard_output_of(&process)
    }

    /// Stops all threads, and processes that share their memory. `beside`: threads that are stopped already. `gone`:
    /// processes that no longer share the memory.
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
        let stopped = self.process.stop_all_but(stop_states, &memory_sharers);
        self.check_gs_of_ended();
        stopped?;
        let is_stopped = |thread: &Pid| self.process.threads.contains_key(thread);
        for thread in self.collector.threads().iter().filter(|thread| !is_stopped(thread)) {
            self.collector.remove_thread(*thread);
        }
        if self.any_gs_taken() {
            return Ok(());
        }
        self.add_new_threads(gone)
    }

    /// Adds threads that have begun. `gone`: processes that no longer share the memory.
    pub(super) fn add_new_threads(&mut self, gone: &BTreeSet<Pid>) -> Result<(), TagError> {
        let is_memory_sharer =
            |thread: &Pid| self.memory_sharers.contains_key(thread) && !gone.contains(thread);
        let new = |thread: &&Pid| !self.collector.has_thread(**thread) && !is_memory_sharer(thread);
        let new: Vec<Pid> = self.process.threads.keys().filter(new).copied().collect();
        new.into_iter().try_for_each(|thread| self.add_thread(thread))
    }

    /// Lets all threads continue except those that wait for a process that shares their memory.
    pub(super) fn resume(&mut self) -> Result<(), TagError> {
        for thread in self.memory_sharers.values().flatten() {
            self.process.threads.remove(thread);
        }
        Ok(self.process.resume()?)
    }

    /// Handles a process that no longer shares the memory. Returns the thread that waits for this.
    pub(super) fn memory_sharer_left(&mut self, pid: Pid) -> Option<Pid> {
        self.collector.remove_thread(pid);
        self.process.threads.remove(&pid);
        for waiting in self.memory_sharers.values_mut() {
            // The waiting thread may have ended.
            waiting.take_if(|thread| *thread == pid);
        }
        self.memory_sharers.remove(&pid).flatten()
    }
}
