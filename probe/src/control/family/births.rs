//! Processes that begin, or become other programs, to members.

use std::path::PathBuf;
use std::time::Instant;

use nix::sys::wait::WaitPidFlag;
use nix::unistd::Pid;

use super::super::{Abandoned, Start, TagError, Tagged, program_image};
use super::{Family, Member};
use crate::ptrace::{self, Child, Process, Standing, Status, go_on, wait};

impl Family<'_> {
    /// Lets the first process go on.
    pub fn begin(&mut self) -> Result<(), TagError> {
        let first = self.first;
        let Some(Member::Tagged(tagged)) = self.members.get_mut(&first) else { return Ok(()) };
        self.threads.extend(tagged.process.threads.keys().map(|thread| (*thread, first)));
        if std::mem::take(&mut tagged.is_changed) {
            self.keeper.changed(tagged);
        }
        for child in std::mem::take(&mut tagged.process.forked) {
            // Those with a copy of the memory have none of the tags.
            match self.start.filter(|_| !child.shares_memory) {
                None => self.born(first, child)?,
                Some(_) => {
                    if let Some(standing) = self.first_stop(child.pid) {
                        self.add(child.pid, Member::Untagged);
                        self.tag_now(child.pid, Start::Now, standing)?;
                    }
                }
            }
        }
        self.resume(first)
    }

    fn add(&mut self, pid: Pid, member: Member) {
        self.members.insert(pid, member);
        self.threads.insert(pid, pid);
    }

    /// How a child stands still before its first instruction; `None` if it has ended.
    fn first_stop(&mut self, child: Pid) -> Option<Standing> {
        self.early.remove(&child).or_else(|| match wait(Some(child), WaitPidFlag::__WALL) {
            Ok(Status::Event(_, _, libc::PTRACE_EVENT_EXIT)) => {
                // What comes of it is heard when it has ended.
                let _ = go_on(child, None);
                None
            }
            Ok(Status::Event(..)) => Some(Standing::Free),
            Ok(Status::Stopped(_, signal)) => Some(Standing::Signal(signal)),
            _ => None,
        })
    }

    /// Takes a child in, or lets it go.
    pub(super) fn born(&mut self, pid: Pid, child: Child) -> Result<(), TagError> {
        let Some(standing) = self.first_stop(child.pid) else { return Ok(()) };
        let follows = self.start.is_some();
        match self.members.get_mut(&pid) {
            // Without following it too, until it becomes a program: it counts for the thread that waits for it.
            Some(Member::Tagged(tagged))
                if child.shares_memory && (follows || child.is_waited_for) =>
            {
                let waiting = child.is_waited_for.then_some(child.parent);
                tagged.lodgers.insert(child.pid, waiting);
                self.threads.insert(child.pid, pid);
                if waiting.is_none() {
                    tagged.enter(child.pid)?;
                }
                if tagged.process.threads.is_empty() {
                    return Ok(go_on(child.pid, standing.signal())?);
                }
                tagged.process.threads.insert(child.pid, standing);
                Ok(())
            }
            Some(Member::Tagged(_)) if follows && !self.is_leaving => {
                self.tag_child(pid, child.pid, standing)
            }
            Some(Member::Tagged(tagged)) => {
                // One that still has our process's memory keeps the tags.
                let disowned = if child.shares_memory { Ok(()) } else { tagged.disown(child.pid) };
                ptrace::detach(child.pid, standing.signal())?;
                disowned
            }
            _ if self.is_leaving => Ok(ptrace::detach(child.pid, standing.signal())?),
            _ => {
                self.add(child.pid, Member::Untagged);
                Ok(go_on(child.pid, standing.signal())?)
            }
        }
    }

    /// Gives a child that has a copy of a member's memory tags of its own.
    fn tag_child(&mut self, pid: Pid, child: Pid, standing: Standing) -> Result<(), TagError> {
        let Some(Member::Tagged(parent)) = self.members.get(&pid) else { return Ok(()) };
        let output = self.keeper.output(child);
        match output.and_then(|output| parent.child(child, standing, output)) {
            Ok(tagged) => self.tagged_now(tagged),
            Err(error) => {
                self.keeper.untagged(child, parent.program(), &error);
                self.keeper.unused(child);
                // One that has ended has nothing to be taken out.
                let _ = parent.disown(child);
                self.untagged(child, standing)
            }
        }
    }

    fn tagged_now(&mut self, mut tagged: Tagged) -> Result<(), TagError> {
        if std::mem::take(&mut tagged.is_changed) {
            self.keeper.changed(&tagged);
        }
        let pid = tagged.pid();
        self.add(pid, Member::Tagged(Box::new(tagged)));
        self.resume(pid)
    }

    /// A process that cannot be tagged goes on without, unless it has ended.
    fn untagged(&mut self, pid: Pid, standing: Standing) -> Result<(), TagError> {
        self.add(pid, Member::Untagged);
        go_on(pid, standing.signal())?;
        if !ptrace::is_ours(pid) {
            self.end(pid, super::UNKNOWN);
        }
        Ok(())
    }

    /// Tags a program that a process has become.
    pub(super) fn tag_again(&mut self, pid: Pid) -> Result<(), TagError> {
        self.tag_now(pid, self.start.unwrap_or(Start::Main), Standing::Free)
    }

    /// Tags the program of a process of one thread, which stands still.
    fn tag_now(&mut self, pid: Pid, start: Start, standing: Standing) -> Result<(), TagError> {
        let link = format!("/proc/{pid}/exe");
        let program = std::fs::read_link(link).unwrap_or_else(|_| PathBuf::from("a program"));
        match self.tag_program(pid, start, standing) {
            Ok(Some(tagged)) => self.tagged_now(tagged),
            Ok(None) => self.untagged(pid, standing),
            Err(error) => {
                self.keeper.untagged(pid, &program, &error);
                self.keeper.unused(pid);
                self.untagged(pid, standing)
            }
        }
    }

    /// `None` if nothing of it is chosen.
    fn tag_program(
        &mut self,
        pid: Pid,
        start: Start,
        standing: Standing,
    ) -> Result<Option<Tagged>, TagError> {
        let image = program_image(pid, &self.selection)?;
        self.selection.note(&image.functions, None);
        let is_chosen = |function| self.selection.matches(function, None);
        if !self.selection.has_libraries() && !image.functions.iter().any(is_chosen) {
            return Ok(None);
        }
        let mut process = Process::of(pid)?;
        process.treatment = self.treatment;
        process.threads.insert(pid, standing);
        let output = self.keeper.output(pid)?;
        let mut tagged = Tagged::new(process, image, self.selection.clone(), output, start)?;
        self.asked = Instant::now();
        if let Some(share) = self.share {
            tagged.set_budget(share)?;
        }
        Ok(Some(tagged))
    }

    /// Lets children go whose parents were killed before they could say that they begin: what they were of is
    /// written in the memory they have a copy of.
    pub(super) fn settle_orphans(&mut self) {
        let is_orphan = |child: &Pid| {
            let parent = ptrace::parent(*child);
            !self.is_leaving && parent.is_some_and(|parent| !self.threads.contains_key(&parent))
        };
        let orphans: Vec<Pid> = self.early.keys().copied().filter(is_orphan).collect();
        for child in orphans {
            self.early.remove(&child);
            let restored = Process::of(child).map_err(TagError::from);
            let restored = restored.and_then(Abandoned::find).and_then(Abandoned::restore);
            if restored.is_err() {
                // Nothing is left to be done for it.
                let _ = ptrace::detach(child, None);
            }
        }
    }
}
