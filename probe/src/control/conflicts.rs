//! Detects changes of a tagged process that its tags cannot work with: seccomp filters that forbid the system calls of
//! a log's tags, and `gs` set by the program.
//!
//! Neither can be detected immediately without stopping the process at each of its system calls. Filters are checked
//! every [`INTERVAL`]; `gs` is checked whenever a thread stops, and where it ends. A tag that runs between the change
//! and the check makes the forbidden call, or writes to where the program's `gs` points.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use nix::unistd::Pid;

use super::removal::RemainingMemory;
use super::{Ending, Notice, TagError, Tagged};
use crate::address::RunAddr;
use crate::ptrace::seccomp::{self, Mode};
use crate::stubs::Sink;

/// How often filters are checked, and of how many threads beside the first one each time: a check of one thread costs
/// about ten microseconds.
const INTERVAL: Duration = Duration::from_millis(20);
const THREADS: usize = 4;

/// State of these checks.
#[derive(Debug, Default)]
pub(super) struct ConflictWatch {
    last_check: Option<Instant>,
    /// Index behind the last thread whose filters were checked.
    next: usize,
    /// Filter modes that were checked already.
    checked: BTreeSet<Mode>,
    /// Whether a thread has set `gs`.
    is_taken: bool,
    /// Whether all tags were removed from the process.
    is_untagged: bool,
}

impl Tagged {
    /// Whether a thread has filters that were not checked yet. Tags make no system calls until they are.
    pub(super) fn has_new_filters(&mut self) -> bool {
        let Sink::Log(_) = self.tags.code.sink else { return false };
        if self.is_untagged() || self.watch.last_check.is_some_and(|last| last.elapsed() < INTERVAL)
        {
            return false;
        }
        self.watch.last_check = Some(Instant::now());
        let threads = self.tags.collector.threads();
        let next = self.watch.next % threads.len().max(1);
        self.watch.next = next + THREADS;
        let some = threads.iter().cycle().skip(next).take(THREADS.min(threads.len()));
        let is_new = |thread: &Pid| {
            let mode = seccomp::mode(*thread).unwrap_or(Mode::Off);
            mode != Mode::Off && !self.watch.checked.contains(&mode)
        };
        let has_new = std::iter::once(&self.process.pid).chain(some).any(is_new);
        if has_new {
            self.tags.collector.allow_calls(false);
        }
        has_new
    }

    /// Lets tags make system calls again if all filters allow them; all threads are stopped.
    pub(super) fn apply_new_filters(&mut self) -> Result<(), TagError> {
        for thread in self.process.threads.keys() {
            self.watch.checked.insert(seccomp::mode(*thread)?);
        }
        let checked = self.process.may_call(&seccomp::log_calls())?;
        self.tags.collector.allow_calls(checked.is_ok());
        if let Err(why) = checked {
            self.tags.notices.push(Notice::CallsForbidden(self.process.pid, why));
        }
        Ok(())
    }

    /// Refuses a log of a process that must not make the system calls of tags; all threads are stopped.
    pub(super) fn check_log(&mut self) -> Result<(), TagError> {
        let Sink::Log(_) = self.tags.code.sink else { return Ok(()) };
        for thread in self.process.threads.keys() {
            self.watch.checked.insert(seccomp::mode(*thread)?);
        }
        let checked = self.process.may_call(&seccomp::log_calls())?;
        checked.map_err(|why| TagError::NoLog(self.process.pid, why))
    }

    /// Whether a stopped thread has set `gs`.
    pub(super) fn is_gs_taken_by(&self, thread: Pid) -> bool {
        // A thread that has ended writes nothing.
        let registers = self.process.thread_at_event(thread).registers();
        registers.is_ok_and(|registers| self.is_gs_taken(thread, &registers))
    }

    /// Whether a thread with these registers has set `gs`.
    pub(super) fn is_gs_taken(&self, thread: Pid, registers: &libc::user_regs_struct) -> bool {
        !self.is_untagged()
            && self.tags.collector.has_thread(thread)
            && !self.tags.collector.owns(RunAddr(registers.gs_base))
    }

    /// Whether any thread has set `gs`, including threads that have ended; all others are stopped.
    pub(super) fn any_gs_taken(&self) -> bool {
        !self.is_untagged()
            && (self.watch.is_taken
                || self.process.threads.keys().any(|thread| self.is_gs_taken_by(*thread)))
    }

    /// Checks `gs` of a thread that is stopped where it ends.
    pub(super) fn check_gs_at_exit(&mut self, thread: Pid) {
        self.watch.is_taken |= self.is_gs_taken_by(thread);
    }

    /// Checks `gs` of threads that ended while all threads were being stopped.
    pub(super) fn check_gs_of_ended(&mut self) {
        for (thread, gs) in std::mem::take(&mut self.process.last_gs) {
            let gs_taken = self.tags.collector.has_thread(thread) && !self.tags.collector.owns(gs);
            self.watch.is_taken |= gs_taken && !self.is_untagged();
        }
    }

    /// Records whether a process that is no longer followed has set `gs`.
    pub(super) fn record_gs_taken(&mut self, ending: Ending) {
        self.check_gs_of_ended();
        // After `execve` the registers belong to the new program.
        let gs_taken = match ending {
            Ending::Detached => self.any_gs_taken(),
            _ => self.watch.is_taken && !self.is_untagged(),
        };
        if !gs_taken {
            return;
        }
        self.watch.is_taken = true;
        self.tags.notices.push(Notice::GsTakenAtEnd(self.process.pid));
    }

    /// Whether a thread has set `gs`: what its tags wrote after that is unreliable.
    pub fn has_taken_gs(&self) -> bool {
        self.watch.is_taken
    }

    /// Whether all tags were removed although the process is still followed.
    pub(super) fn is_untagged(&self) -> bool {
        self.watch.is_untagged
    }

    /// Removes the tags from a process that has set `gs`; all threads are stopped. Collected data stays.
    pub(super) fn untag(&mut self) -> Result<(), TagError> {
        let Tagged { process, tags, watch, .. } = self;
        let mut process = process.stopped()?;
        tags.finish_tags(&process);
        let others = tags.restore_code(&mut process)?;
        (watch.is_taken, watch.is_untagged) = (true, true);
        tags.notices.push(Notice::GsTaken(process.pid));
        if !others.is_empty() {
            // The program may have copied a jump to somewhere else: stubs stay.
            tags.record_overwritten(others);
        } else if let RemainingMemory::Nothing = tags.unmap_memory(&mut process)? {
            tags.code.areas.clear();
        }
        Ok(())
    }
}
