//! Members that end, fail, or are to be left.

use std::collections::BTreeMap;

use nix::errno::Errno;
use nix::sys::wait::WaitPidFlag;
use nix::unistd::Pid;

use super::super::TagError;
use super::super::ending::Ending;
use super::{Family, Member};
use crate::ptrace::{self, Process, PtraceError, Standing, Status, wait};

impl Family<'_> {
    /// A member is none any more.
    pub(super) fn end(&mut self, pid: Pid, ending: Ending) {
        let member = self.members.remove(&pid);
        self.threads.retain(|_, owner| *owner != pid);
        if pid == self.first && (ending != Ending::Replaced || self.start.is_none()) {
            self.ended = Some(ending);
        }
        if let Some(Member::Tagged(mut tagged)) = member {
            tagged.note_taken(ending);
            let lodgers = std::mem::take(&mut tagged.lodgers);
            // They are left with it, or have its memory for themselves, where nobody looks any more.
            for lodger in lodgers.into_keys().filter(|_| ending != Ending::Detached) {
                self.members.insert(lodger, Member::Untagged);
                self.threads.insert(lodger, lodger);
            }
            self.keeper.ended(*tagged, ending);
        }
        self.settle_orphans();
    }

    /// Something could not be done with a member: it has ended, or it goes on without tags. `thread`: one that
    /// stands still.
    pub(super) fn failed(
        &mut self,
        pid: Pid,
        thread: Option<Pid>,
        error: TagError,
    ) -> Result<(), TagError> {
        let is_over = matches!(error, TagError::Ptrace(PtraceError::Ended(_)));
        if (is_over || self.start.is_none())
            && let (Some(thread), Some(tagged)) = (thread, self.tagged(pid))
        {
            tagged.process.threads.entry(thread).or_insert(Standing::Free);
        }
        if is_over {
            let is_heard_of = self.pending.iter().any(|status| status.thread() == Some(pid));
            if is_heard_of || ptrace::is_ours(pid) {
                // Threads that stand still would hide its end.
                return if self.is_leaving { Ok(()) } else { self.resume(pid) };
            }
            if self.start.is_some() {
                self.end(pid, super::UNKNOWN);
                return Ok(());
            }
        }
        if self.start.is_none() {
            return Err(error);
        }
        let Some(tagged) = self.tagged(pid) else { return Ok(()) };
        let program = tagged.program().to_owned();
        let stands = !tagged.process.threads.is_empty();
        self.keeper.untagged(pid, &program, &error);
        // What can be done for it is done: it goes on.
        if stands || self.stop(pid, thread).is_ok() {
            self.end(pid, Ending::Detached);
        }
        Ok(())
    }

    /// Lets all members go on without tags, as far as that can be done.
    pub fn give_up(mut self) {
        for (pid, member) in std::mem::take(&mut self.members) {
            match member {
                Member::Tagged(mut tagged) => {
                    let is_its = |status: &&Status| matches!(status, Status::Stopped(thread, _) if self.threads.get(thread) == Some(&pid));
                    tagged.process.heard.extend(self.pending.iter().filter(is_its));
                    // What stands as another program is not stopped again.
                    let others = self.pending.iter().filter_map(|status| match status {
                        Status::Event(thread, ..) if self.threads.get(thread) == Some(&pid) => {
                            Some((*thread, Standing::InCall))
                        }
                        _ => None,
                    });
                    tagged.process.threads.extend(others);
                    tagged.give_up();
                }
                Member::Becoming | Member::Untagged => self.leave_untagged(pid),
            }
        }
    }

    /// Lets all members go on without tags. How the first process has ended, if it has, comes back.
    pub fn leave(mut self) -> Result<Ending, TagError> {
        self.is_leaving = true;
        while let Some(status) = self.pending.pop_front() {
            self.event(status)?;
        }
        while let Some(pid) = self.members.keys().next().copied() {
            self.leave_member(pid)?;
        }
        self.is_leaving = false;
        self.settle_orphans();
        Ok(self.ended.unwrap_or(Ending::Detached))
    }

    fn leave_member(&mut self, pid: Pid) -> Result<(), TagError> {
        if !matches!(self.members.get(&pid), Some(Member::Tagged(_))) {
            self.leave_untagged(pid);
            return Ok(());
        }
        if let Err(error) = self.stop(pid, None) {
            self.failed(pid, None, error)?;
        }
        while let Some(status) = self.pending.pop_front() {
            self.event(status)?;
        }
        if self.tagged(pid).is_some_and(|tagged| !tagged.process.threads.is_empty()) {
            self.end(pid, Ending::Detached);
        }
        // One that is about to end.
        while self.tagged(pid).is_some() {
            // The end of its other threads must be heard before its own.
            match wait(None, WaitPidFlag::__WALL | WaitPidFlag::__WNOTHREAD) {
                Ok(status) => self.event(status)?,
                Err(Errno::EINTR) => {}
                Err(_) => self.end(pid, super::UNKNOWN),
            }
        }
        Ok(())
    }

    /// Lets a process without tags go, and children of it that begin.
    fn leave_untagged(&mut self, pid: Pid) {
        self.members.remove(&pid);
        let Ok(mut process) = Process::of(pid) else { return };
        process.threads = BTreeMap::new();
        let stopped = process.stop();
        for child in std::mem::take(&mut process.forked) {
            if self.early.remove(&child.pid).is_none() {
                // It stands still, or has ended.
                let _ = wait(Some(child.pid), WaitPidFlag::__WALL);
            }
            let _ = ptrace::detach(child.pid, None);
        }
        if stopped.is_ok() {
            let _ = process.detach();
        }
    }
}
