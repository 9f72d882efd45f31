//! Adds new processes, and programs that processes execute, to the process tree.

use std::path::PathBuf;
use std::time::Instant;

use nix::unistd::Pid;

use super::super::{AbandonedTags, Start, TagError, Tagged, program_image};
use super::{ProcessTree, Tracee};
use crate::ptrace::{self, Child, Process, Status, StopState, Waited, resume, wait_for_stop};

impl ProcessTree<'_> {
    /// Lets the first process continue.
    pub fn start(&mut self) -> Result<(), TagError> {
        let first = self.first;
        let Some(Tracee::Tagged(tagged)) = self.tracees.get_mut(&first) else { return Ok(()) };
        self.threads.extend(tagged.process.threads.keys().map(|thread| (*thread, first)));
        if std::mem::take(&mut tagged.tags.is_changed) {
            self.observer.changed(tagged);
        }
        for child in std::mem::take(&mut tagged.process.forked) {
            // A child that has a copy of the memory began before the tags were inserted. Its copy
            // has no tags.
            match self.start.filter(|_| !child.shares_memory) {
                None => self.add_child(first, child)?,
                Some(_) => {
                    if let Some(stop_state) = self.first_stop(child.pid) {
                        self.add(child.pid, Tracee::Untagged);
                        self.tag_now(child.pid, Start::Now, stop_state)?;
                    }
                }
            }
        }
        self.resume(first)
    }

    fn add(&mut self, pid: Pid, tracee: Tracee) {
        self.tracees.insert(pid, tracee);
        self.threads.insert(pid, pid);
    }

    /// Waits until a child is stopped before its first instruction. `None` if the child has ended.
    fn first_stop(&mut self, child: Pid) -> Option<StopState> {
        self.early.remove(&child).or_else(|| match wait_for_stop(child) {
            Ok(Waited::Status(Status::Event(_, _, libc::PTRACE_EVENT_EXIT))) => {
                // The end of the child is handled when ptrace reports it.
                let _ = resume(child, None);
                None
            }
            Ok(Waited::Status(Status::Event(..))) => Some(StopState::AtInstruction),
            Ok(Waited::Status(Status::Stopped(_, signal))) => {
                Some(StopState::PendingSignal(signal))
            }
            _ => None,
        })
    }

    /// Adds a child to the tree, or detaches from it.
    pub(super) fn add_child(&mut self, pid: Pid, child: Child) -> Result<(), TagError> {
        let Some(stop_state) = self.first_stop(child.pid) else { return Ok(()) };
        let follows = self.start.is_some();
        match self.tracees.get_mut(&pid) {
            // A child in `vfork` is followed until it executes a program, even if no children are
            // followed: its parent thread waits for it.
            Some(Tracee::Tagged(tagged))
                if child.shares_memory && (follows || child.is_waited_for) =>
            {
                let waiting = child.is_waited_for.then_some(child.parent);
                tagged.memory_sharers.insert(child.pid, waiting);
                self.threads.insert(child.pid, pid);
                if waiting.is_none() {
                    tagged.add_thread(child.pid)?;
                }
                if tagged.process.threads.is_empty() {
                    return Ok(resume(child.pid, stop_state.signal())?);
                }
                tagged.process.threads.insert(child.pid, stop_state);
                Ok(())
            }
            Some(Tracee::Tagged(_)) if follows && !self.is_leaving => {
                self.tag_child(pid, child.pid, stop_state)
            }
            Some(Tracee::Tagged(tagged)) => {
                // A child that still shares the tracee's memory keeps the tags.
                let untagged =
                    if child.shares_memory { Ok(()) } else { tagged.untag_child(child.pid) };
                ptrace::detach(child.pid, stop_state.signal())?;
                untagged
            }
            _ if self.is_leaving => Ok(ptrace::detach(child.pid, stop_state.signal())?),
            _ => {
                self.add(child.pid, Tracee::Untagged);
                Ok(resume(child.pid, stop_state.signal())?)
            }
        }
    }

    /// Tags a child that has a copy of its parent's memory.
    fn tag_child(&mut self, pid: Pid, child: Pid, stop_state: StopState) -> Result<(), TagError> {
        let Some(Tracee::Tagged(parent)) = self.tracees.get(&pid) else { return Ok(()) };
        let output = self.observer.output(child);
        match output.and_then(|output| parent.child(child, stop_state, output)) {
            Ok(tagged) => self.tagged_now(tagged),
            Err(error) => {
                self.observer.untagged(child, parent.program(), &error);
                self.observer.output_unused(child);
                // An error is ignored: a child that has ended needs no removal.
                let _ = parent.untag_child(child);
                self.untagged(child, stop_state)
            }
        }
    }

    fn tagged_now(&mut self, mut tagged: Tagged) -> Result<(), TagError> {
        if std::mem::take(&mut tagged.tags.is_changed) {
            self.observer.changed(&tagged);
        }
        let pid = tagged.pid();
        self.add(pid, Tracee::Tagged(Box::new(tagged)));
        self.resume(pid)
    }

    /// Lets a process that cannot be tagged continue without tags, unless it has ended.
    fn untagged(&mut self, pid: Pid, stop_state: StopState) -> Result<(), TagError> {
        self.add(pid, Tracee::Untagged);
        resume(pid, stop_state.signal())?;
        if !ptrace::is_waitable(pid) {
            self.end(pid, super::UNKNOWN);
        }
        Ok(())
    }

    /// Tags the program that a process has executed.
    pub(super) fn tag_again(&mut self, pid: Pid) -> Result<(), TagError> {
        self.tag_now(pid, self.start.unwrap_or(Start::Main), StopState::AtInstruction)
    }

    /// Tags the program of a stopped process with one thread.
    fn tag_now(&mut self, pid: Pid, start: Start, stop_state: StopState) -> Result<(), TagError> {
        let link = format!("/proc/{}/exe", ptrace::live_thread(pid));
        let program = std::fs::read_link(link).unwrap_or_else(|_| PathBuf::from("a program"));
        match self.tag_program(pid, start, stop_state) {
            Ok(Some(tagged)) => self.tagged_now(tagged),
            Ok(None) => self.untagged(pid, stop_state),
            Err(error) => {
                self.observer.untagged(pid, &program, &error);
                self.observer.output_unused(pid);
                self.untagged(pid, stop_state)
            }
        }
    }

    /// Tags the program of a stopped process. `None` if none of its functions is chosen.
    fn tag_program(
        &mut self,
        pid: Pid,
        start: Start,
        stop_state: StopState,
    ) -> Result<Option<Tagged>, TagError> {
        let image = program_image(pid, &self.selection)?;
        self.selection.record_matches(&image.functions, None);
        let is_chosen = |function| self.selection.matches(function, None);
        if !self.selection.has_libraries() && !image.functions.iter().any(is_chosen) {
            return Ok(None);
        }
        let mut process = Process::from_traced(pid)?;
        process.risk_policy = self.risk_policy;
        process.threads.insert(pid, stop_state);
        let output = self.observer.output(pid)?;
        let mut tagged = Tagged::new(process, image, self.selection.clone(), output, start)?;
        self.last_hit = Instant::now();
        if let Some(share) = self.share {
            tagged.set_budget(share)?;
        }
        Ok(Some(tagged))
    }

    /// Detaches from children whose parents were killed before the children were reported. The
    /// copied memory of such a child records which tags are to be removed.
    pub(super) fn release_orphans(&mut self) {
        let is_orphan = |child: &Pid| {
            let parent = ptrace::parent(*child);
            !self.is_leaving && parent.is_some_and(|parent| !self.threads.contains_key(&parent))
        };
        let orphans: Vec<Pid> = self.early.keys().copied().filter(is_orphan).collect();
        for child in orphans {
            self.early.remove(&child);
            let restored = Process::from_traced(child).map_err(TagError::from);
            let restored = restored.and_then(AbandonedTags::find).and_then(AbandonedTags::restore);
            if restored.is_err() {
                // An error is ignored: the child is not handled any further.
                let _ = ptrace::detach(child, None);
            }
        }
    }
}
