//! A process that begins as the copy of a tagged one to a tagged one of its own.
//!
//! The copy has the jumps and the stubs, and still shares the memory that its parent's tags write to. New
//! memory takes its place, at the same address: so nothing else in the copy needs to change. Counts begin at
//! zero, and a call that the parent's thread had entered is the parent's.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use nix::unistd::Pid;

use super::patch;
use super::shared::Inherited;
use super::watch::Watch;
use super::{Collector, Output, TagError, Tagged};
use crate::ptrace::{Process, Standing};

impl Tagged {
    /// Makes a child of it, which has a copy of its memory and stands still before it does anything, one of
    /// its own.
    ///
    /// # Errors
    /// [`TagError`]; the child still has its parent's tags.
    pub(super) fn child(
        &self,
        pid: Pid,
        standing: Standing,
        output: Output,
    ) -> Result<Tagged, TagError> {
        if self.is_plain() {
            return Err(TagError::GsInUse(pid));
        }
        let mut process = Process::of(pid)?;
        process.threads.insert(pid, standing);
        process.restorers.clone_from(&self.process.restorers);
        let gs = process.registers(pid)?.gs_base;
        process.treatment = self.process.treatment;
        let (start, cookie) = (self.collector.memory().start, self.collector.shared().cookie());
        let inherited = Some(Inherited { start, gs, cookie });
        let program = Arc::clone(&self.program);
        let numbers = self.patched.iter().map(|one| one.numbers() as usize).sum();
        let room = (numbers, self.at_most);
        let collector = Collector::new(&mut process, inherited, output, room)?;
        let mut child = Tagged {
            process,
            patched: self.patched.clone(),
            refused: self.refused.clone(),
            collector,
            program,
            selection: self.selection.clone(),
            sink: self.sink,
            gates: self.gates.clone(),
            jumps: self.jumps.clone(),
            unread: Vec::new(),
            libraries: self.libraries.clone(),
            areas: self.areas.clone(),
            list: self.list,
            described: self.described.clone(),
            tables: self.tables.clone(),
            budget: None,
            taken_out: self.taken_out.clone(),
            overwritten: Vec::new(),
            is_changed: true,
            at_most: self.at_most,
            restorers: self.restorers.clone(),
            lodgers: BTreeMap::new(),
            watch: Watch::default(),
            notices: Vec::new(),
        };
        child.collector.add(numbers)?;
        let gates = child.gates.iter();
        let gates = gates.map(|gate| (&gate.stubs, std::slice::from_ref(&gate.patched)));
        for (stubs, patched) in gates {
            child.collector.note_area(stubs)?;
            child.collector.note(&patch::overwritten(patched))?;
        }
        for area in &child.areas {
            child.collector.note_area(area)?;
        }
        child.collector.note(&child.restorers.overwritten())?;
        child.collector.note(&patch::overwritten(&child.patched))?;
        child.check_log()?;
        child.enter(pid)?;
        if let Some(share) = self.share() {
            child.set_budget(share)?;
        }
        Ok(child)
    }

    /// Makes a child, which has a copy of its memory and stands still, one without tags.
    pub(super) fn disown(&self, pid: Pid) -> Result<(), TagError> {
        if self.is_plain() {
            return Ok(());
        }
        let process = Process::of(pid)?;
        self.take_out(&process)?;
        self.collector.disown(&process)
    }

    /// Stops all threads, and those of other processes with the same memory, beside those that stand still
    /// already. `gone`: what has other memory meanwhile.
    pub(super) fn stop(
        &mut self,
        beside: BTreeMap<Pid, Standing>,
        gone: &BTreeSet<Pid>,
    ) -> Result<(), TagError> {
        let waiting = self.lodgers.values().flatten().map(|thread| (*thread, Standing::InCall));
        let mut standing: BTreeMap<Pid, Standing> = waiting.collect();
        standing.extend(beside);
        let lodgers = self.lodgers.keys().filter(|lodger| !gone.contains(lodger));
        let lodgers: BTreeSet<Pid> = lodgers.copied().collect();
        let stopped = self.process.stop_beside(standing, &lodgers);
        self.look_at_ended();
        stopped?;
        let stands = |thread: &Pid| self.process.threads.contains_key(thread);
        for thread in self.collector.threads().iter().filter(|thread| !stands(thread)) {
            self.collector.leave(*thread);
        }
        if self.has_lost_any() {
            return Ok(());
        }
        self.enter_new(gone)
    }

    /// Gives threads that have begun what tags need. `gone`: what has other memory.
    pub(super) fn enter_new(&mut self, gone: &BTreeSet<Pid>) -> Result<(), TagError> {
        let is_lodger = |thread: &Pid| self.lodgers.contains_key(thread) && !gone.contains(thread);
        let new = |thread: &&Pid| !self.collector.knows(**thread) && !is_lodger(thread);
        let new: Vec<Pid> = self.process.threads.keys().filter(new).copied().collect();
        new.into_iter().try_for_each(|thread| self.enter(thread))
    }

    /// Lets all threads go on, but those that wait for others anyway.
    pub(super) fn go_on(&mut self) -> Result<(), TagError> {
        for thread in self.lodgers.values().flatten() {
            self.process.threads.remove(thread);
        }
        Ok(self.process.go_on()?)
    }

    /// Takes note that a process does not have the same memory any more. The thread that waits for that comes
    /// back.
    pub(super) fn lodger_left(&mut self, pid: Pid) -> Option<Pid> {
        self.collector.leave(pid);
        self.process.threads.remove(&pid);
        for waiting in self.lodgers.values_mut() {
            // One that waits may have ended.
            waiting.take_if(|thread| *thread == pid);
        }
        self.lodgers.remove(&pid).flatten()
    }
}
