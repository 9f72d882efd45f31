//! Detects changes of a tagged process that its tags cannot work with: seccomp filters that forbid
//! the system calls of a log's tags, `gs` set by the program, and a time stamp counter that it may
//! no longer read.
//!
//! None of these changes can be detected immediately without stopping the process at each of its
//! system calls. Filters are checked every [`INTERVAL`]; `gs` is checked whenever a thread stops or
//! ends. A tag that runs between the change and the check makes the forbidden call, or writes to
//! the address that the program has set `gs` to. Before the process is tagged, its threads are
//! asked whether they may read the counter; later the fault of a tag shows that a thread may not
//! ([`super::own_signals`]).

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use nix::unistd::Pid;

use super::removal::RemainingMemory;
use super::{Ending, Notice, TagError, Tagged};
use crate::address::RunAddr;
use crate::ptrace::seccomp::{self, Forbidden, Mode};
use crate::stubs::Sink;
use crate::stubs::layout::header;

/// Interval at which filters are checked, and number of threads besides the first that are checked
/// each time: a check of one thread costs about ten microseconds.
const INTERVAL: Duration = Duration::from_millis(20);
const THREADS: usize = 4;
/// State of these checks.
#[derive(Debug, Default)]
pub(super) struct ConflictWatch {
    last_check: Option<Instant>,
    /// Index of the first thread whose filters are checked next.
    next: usize,
    /// Filter modes that were checked already.
    checked: BTreeSet<Mode>,
    /// Whether tags must make no system calls.
    are_calls_forbidden: bool,
    /// Whether a thread has set `gs`.
    is_taken: bool,
    /// Whether a thread may not read the time stamp counter.
    is_time_forbidden: bool,
    /// Whether all tags were removed from the process.
    is_untagged: bool,
}

impl Tagged {
    /// Whether a thread has filters that were not checked yet. Until they are checked, tags make no
    /// system calls.
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
        match checked {
            Ok(()) => {
                self.tags.collector.allow_calls(true);
                self.watch.are_calls_forbidden = false;
            }
            Err(why) => self.forbid_calls(why),
        }
        Ok(())
    }

    /// Forbids system calls in tags, and records the reason.
    pub(super) fn forbid_calls(&mut self, why: Forbidden) {
        self.tags.collector.allow_calls(false);
        if !std::mem::replace(&mut self.watch.are_calls_forbidden, true) {
            self.tags.notices.push(Notice::CallsForbidden(self.process.pid, why));
        }
    }

    /// Returns an error if the process must not make the system calls that the tags of a log need;
    /// all threads are stopped.
    pub(super) fn check_log(&mut self) -> Result<(), TagError> {
        let Sink::Log(_) = self.tags.code.sink else { return Ok(()) };
        for thread in self.process.threads.keys() {
            self.watch.checked.insert(seccomp::mode(*thread)?);
        }
        let checked = self.process.may_call(&seccomp::log_calls())?;
        checked.map_err(|why| TagError::NoLog(self.process.pid, why))?;
        self.check_time()
    }

    /// Returns an error if a log needs times and a thread may not read the time stamp counter. A
    /// thread whose setting cannot be read is assumed to be allowed.
    fn check_time(&mut self) -> Result<(), TagError> {
        if !matches!(self.tags.code.sink, Sink::Log(shape) if shape.is_timed) {
            return Ok(());
        }
        let answer = self.tags.collector.shared().start + header::ANSWER;
        let pid = self.process.pid;
        match self.process.stopped()?.thread_without_clock(answer)? {
            Some(thread) => Err(TagError::NoTime { pid, thread }),
            None => Ok(()),
        }
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

    /// Whether any thread has set `gs`, including threads that have ended; all remaining threads
    /// are stopped.
    pub(super) fn any_gs_taken(&self) -> bool {
        !self.is_untagged()
            && (self.watch.is_taken
                || self.process.threads.keys().any(|thread| self.is_gs_taken_by(*thread)))
    }

    /// Whether the tags must be removed because a thread has set `gs` or may not read the time
    /// stamp counter.
    pub(super) fn has_conflict(&self) -> bool {
        self.any_gs_taken() || self.watch.is_time_forbidden && !self.is_untagged()
    }

    /// Records that a thread may not read the time stamp counter.
    pub(super) fn forbid_time(&mut self) {
        if !std::mem::replace(&mut self.watch.is_time_forbidden, true) {
            self.tags.notices.push(Notice::TimeForbidden(self.process.pid));
        }
    }

    /// The reason why a child cannot be tagged after the tags of this process were removed.
    pub(super) fn untagged_because(&self, child: Pid) -> TagError {
        if self.watch.is_taken {
            TagError::GsInUse(child)
        } else {
            TagError::NoTime { pid: child, thread: child }
        }
    }

    /// Checks `gs` of a thread that is stopped at its end.
    pub(super) fn check_gs_at_exit(&mut self, thread: Pid) {
        self.watch.is_taken |= self.is_gs_taken_by(thread);
    }

    /// Checks `gs` of threads that ended while all threads were being stopped.
    pub(super) fn check_gs_of_ended(&mut self) {
        for (thread, registers) in std::mem::take(&mut self.process.last_registers) {
            let gs = RunAddr(registers.gs_base);
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

    /// Whether the output of the tags is unreliable or ends early, because the program has set `gs`
    /// or may no longer read the time stamp counter.
    pub fn had_conflict(&self) -> bool {
        self.watch.is_taken || self.watch.is_time_forbidden
    }

    /// Whether all tags were removed although the process is still followed.
    pub(super) fn is_untagged(&self) -> bool {
        self.watch.is_untagged
    }

    /// Removes the tags because the process conflicts with them; all threads are stopped. Collected
    /// data stays.
    pub(super) fn untag(&mut self) -> Result<(), TagError> {
        let gs_taken = self.any_gs_taken();
        let Tagged { process, tags, watch, .. } = self;
        let mut process = process.stopped()?;
        tags.finish_tags(&process);
        let others = tags.restore_code(&mut process)?;
        watch.is_taken |= gs_taken;
        watch.is_untagged = true;
        if gs_taken {
            tags.notices.push(Notice::GsTaken(process.pid));
        }
        if !others.is_empty() {
            // The program may have copied a jump to somewhere else: stubs stay.
            tags.record_overwritten(others);
        } else if let RemainingMemory::Nothing = tags.unmap_memory(&mut process)? {
            tags.code.areas.clear();
        }
        Ok(())
    }
}
