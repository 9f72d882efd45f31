//! Watches a tagged process for what it may do later that tags cannot live with: seccomp filters that forbid what a log's
//! tags call, and `gs` taken for something else.
//!
//! Neither can be noticed the moment it happens without stopping the process at each of its system calls. Filters are
//! looked for every [`EVERY`], `gs` whenever a thread stops, and where it ends. What a tag does between is what the program
//! made of it.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use nix::unistd::Pid;

use super::leave::Left;
use super::{Ending, TagError, Tagged};
use crate::ptrace::seccomp::{self, Mode};
use crate::stubs::Sink;

/// How often filters are looked for, and of how many threads beside the first each time: a look at one costs some
/// ten microseconds.
const EVERY: Duration = Duration::from_millis(20);
const THREADS: usize = 4;

/// What is known of filters.
#[derive(Debug, Default)]
pub(super) struct Watch {
    looked: Option<Instant>,
    /// Behind the last thread that was looked at.
    next: usize,
    /// What was judged already.
    judged: BTreeSet<Mode>,
    /// Whether a thread has taken `gs`.
    is_taken: bool,
    /// Whether the process has no tags any more.
    is_plain: bool,
}

impl Tagged {
    /// Whether a thread has filters that were not judged yet. Tags make no calls until they are.
    pub(super) fn has_new_filters(&mut self) -> bool {
        let Sink::Log(_) = self.sink else { return false };
        if self.is_plain() || self.watch.looked.is_some_and(|last| last.elapsed() < EVERY) {
            return false;
        }
        self.watch.looked = Some(Instant::now());
        let threads = self.collector.threads();
        let next = self.watch.next % threads.len().max(1);
        self.watch.next = next + THREADS;
        let some = threads.iter().cycle().skip(next).take(THREADS.min(threads.len()));
        let is_new = |thread: &Pid| {
            let mode = seccomp::mode(*thread).unwrap_or(Mode::Off);
            mode != Mode::Off && !self.watch.judged.contains(&mode)
        };
        let has_new = std::iter::once(&self.process.pid).chain(some).any(is_new);
        if has_new {
            self.collector.allow_calls(false);
        }
        has_new
    }

    /// Lets tags make calls again if all filters allow them; all threads stand still.
    pub(super) fn judge_filters(&mut self) -> Result<(), TagError> {
        for thread in self.process.threads.keys() {
            self.watch.judged.insert(seccomp::mode(*thread)?);
        }
        let judged = self.process.may_call(&seccomp::log_calls())?;
        self.collector.allow_calls(judged.is_ok());
        if let Err(why) = judged {
            let text =
                "its tags make no system calls any more, and drop what does not fit into buffers";
            self.notices.push(format!("process {}: {text}: {why}", self.process.pid));
        }
        Ok(())
    }

    /// Refuses a log of a process that must not make what its tags call; all threads stand still.
    pub(super) fn check_log(&mut self) -> Result<(), TagError> {
        let Sink::Log(_) = self.sink else { return Ok(()) };
        for thread in self.process.threads.keys() {
            self.watch.judged.insert(seccomp::mode(*thread)?);
        }
        let judged = self.process.may_call(&seccomp::log_calls())?;
        judged.map_err(|why| TagError::NoLog(self.process.pid, why))
    }

    /// Whether a thread, which stands still, has taken `gs` for itself.
    pub(super) fn has_lost(&self, thread: Pid) -> bool {
        // One that has ended writes nothing any more.
        self.process.registers(thread).is_ok_and(|registers| self.is_lost(thread, &registers))
    }

    /// The same, by the registers of the thread.
    pub(super) fn is_lost(&self, thread: Pid, registers: &libc::user_regs_struct) -> bool {
        !self.is_plain() && self.collector.knows(thread) && !self.collector.owns(registers.gs_base)
    }

    /// The same of any thread, also of one that has ended; all stand still.
    pub(super) fn has_lost_any(&self) -> bool {
        !self.is_plain()
            && (self.watch.is_taken
                || self.process.threads.keys().any(|thread| self.has_lost(*thread)))
    }

    /// Looks at `gs` of a thread that is stopped where it ends.
    pub(super) fn look_at_end(&mut self, thread: Pid) {
        self.watch.is_taken |= self.has_lost(thread);
    }

    /// Looks at what `gs` held in threads that have ended while all were being stopped.
    pub(super) fn look_at_ended(&mut self) {
        for (thread, gs) in std::mem::take(&mut self.process.last_gs) {
            let is_lost = self.collector.knows(thread) && !self.collector.owns(gs);
            self.watch.is_taken |= is_lost && !self.is_plain();
        }
    }

    /// Takes note of a process that has taken `gs` and is none of ours any more.
    pub(super) fn note_taken(&mut self, ending: Ending) {
        self.look_at_ended();
        // The registers of another program say nothing of this one.
        let is_lost = match ending {
            Ending::Detached => self.has_lost_any(),
            _ => self.watch.is_taken && !self.is_plain(),
        };
        if !is_lost {
            return;
        }
        self.watch.is_taken = true;
        self.notices.push(format!(
            "process {} has taken the register gs for itself: what its tags wrote since then they wrote to memory of \
             the program",
            self.process.pid
        ));
    }

    /// Whether a thread has taken `gs` for itself: what came then is not known.
    pub fn has_taken_gs(&self) -> bool {
        self.watch.is_taken
    }

    /// Whether the tags were taken out for good while it is followed.
    pub(super) fn is_plain(&self) -> bool {
        self.watch.is_plain
    }

    /// Takes the tags out of a process that has taken `gs`; all threads stand still. What was collected stays.
    pub(super) fn make_plain(&mut self) -> Result<(), TagError> {
        let pid = self.process.pid;
        self.finish_tags();
        let others = self.leave_original()?;
        let why = format!(
            "process {pid} has taken the register gs for itself: its tags were taken out; what they wrote since then \
             they wrote to memory of the program"
        );
        (self.watch.is_taken, self.watch.is_plain) = (true, true);
        self.notices.push(why);
        if !others.is_empty() {
            // The program may have copied a jump of ours to somewhere else: stubs stay.
            self.note_overwritten(others);
        } else if let Left::Nothing = self.leave_memory()? {
            self.areas.clear();
        }
        Ok(())
    }
}
