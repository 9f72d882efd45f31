//! Follows a process and the processes that it starts, and handles what ptrace reports about their
//! threads.
//!
//! A tracee is a process with memory of its own. A child becomes a tracee before its first
//! instruction. A process that shares the tracee's memory (`vfork`, `posix_spawn`) is handled as a
//! thread of that tracee: it is stopped together with the tracee's threads. The parent thread that
//! waits for such a process stays stopped meanwhile, because ptrace cannot stop a thread in that
//! wait. A process that executes another program becomes a new tracee.
//!
//! Data flow: [`super::follow()`] and [`super::follow_tree`] fetch each event with `next_event` and
//! pass it to `handle_event`. Results go to a [`TraceObserver`].

mod children;
mod endings;
mod thread_events;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::Path;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sys::wait::WaitPidFlag;
use nix::unistd::Pid;

use super::ending::Ending;
use super::sampler::Sampler;
use super::{Output, Start, TagError, Tagged, Tags};
use crate::ptrace::{
    PtraceError, RiskPolicy, SignalNumber, Status, StopState, continue_call, resume, thread_group,
    wait,
};
use crate::selection::Selection;

/// Receives the results of processes that are followed.
pub trait TraceObserver {
    /// Is called when functions of a process have been tagged, or tags have been removed. The
    /// threads of the process are stopped.
    fn changed(&mut self, tagged: &Tagged);

    /// Is called when a process has ended, has executed another program, or is to continue without
    /// tags. In the last case the threads of the process are stopped, and the observer restores the
    /// process ([`Tagged::restore`]). A process that executes another program and is followed alone
    /// is stopped too: the observer releases the process.
    fn ended(&mut self, tagged: Tagged, ending: Ending);

    /// Returns where the output of one more process is written.
    ///
    /// # Errors
    /// [`TagError::Output`] if there is no such place; the process is not tagged then.
    fn output(&mut self, pid: Pid) -> Result<Output, TagError>;

    /// Is called when the output that was opened for a process is not needed, because the process
    /// cannot be tagged.
    fn output_unused(&mut self, pid: Pid);

    /// Is called when a process that should have tags continues without them.
    fn untagged(&mut self, pid: Pid, program: &Path, error: &TagError);
}

/// The ending of a process that has ended while the controller made a system call in it. Only
/// SIGKILL can end a process there.
const UNKNOWN: Ending = Ending::Signaled(SignalNumber(libc::SIGKILL));

/// A process with memory of its own.
enum Tracee {
    Tagged(Box<Tagged>),
    /// The process has executed a program and will stop before its first instruction.
    Executing,
    /// The process has no tags. Processes that it starts may have some.
    Untagged,
}

/// A thread that waits at a breakpoint costs the program processor time; a check for such threads
/// costs the controller processor time. Breakpoint hits come in bursts. So the next check is due
/// after 1 / `PATIENCE` of the time since the last hit, but not before [`MIN_INTERVAL`] is over.
const PATIENCE: u32 = 8;
const MIN_INTERVAL: Duration = Duration::from_micros(300);

/// The processes that are followed.
pub(super) struct ProcessTree<'k> {
    observer: &'k mut dyn TraceObserver,
    /// When programs that processes execute are tagged. `None`: only the first process is followed.
    start: Option<Start>,
    selection: Selection,
    share: Option<f64>,
    risk_policy: RiskPolicy,
    tracees: BTreeMap<Pid, Tracee>,
    /// The tracee that each thread belongs to.
    threads: BTreeMap<Pid, Pid>,
    /// Children that have stopped before their parents have reported them as new.
    early: BTreeMap<Pid, StopState>,
    /// Events of threads that were received while other threads were handled.
    pending: VecDeque<Status>,
    first: Pid,
    /// How the first process has ended.
    ended: Option<Ending>,
    is_leaving: bool,
    /// Time at which a thread last waited at a breakpoint, or a program last began.
    last_hit: Instant,
}

impl<'k> ProcessTree<'k> {
    /// Follows a process whose threads are stopped.
    pub fn new(tagged: Tagged, start: Option<Start>, observer: &'k mut dyn TraceObserver) -> Self {
        let first = tagged.process.pid;
        ProcessTree {
            observer,
            start,
            selection: tagged.tags.selection.clone(),
            share: tagged.share(),
            risk_policy: tagged.process.risk_policy,
            tracees: BTreeMap::from([(first, Tracee::Tagged(Box::new(tagged)))]),
            threads: BTreeMap::new(),
            early: BTreeMap::new(),
            pending: VecDeque::new(),
            first,
            ended: None,
            is_leaving: false,
            last_hit: Instant::now(),
        }
    }

    /// Process ID of the process that was tagged first.
    pub fn first(&self) -> Pid {
        self.first
    }

    /// How the first process has ended; `None` while any process is followed.
    pub fn ending(&self) -> Option<Ending> {
        self.tracees.is_empty().then(|| self.ended.unwrap_or(Ending::Detached))
    }

    /// Whether events have been received that are not handled yet.
    pub fn has_pending(&self) -> bool {
        !self.pending.is_empty()
    }

    fn tagged(&mut self, pid: Pid) -> Option<&mut Tagged> {
        match self.tracees.get_mut(&pid) {
            Some(Tracee::Tagged(tagged)) => Some(tagged),
            _ => None,
        }
    }

    /// The next event of any thread.
    pub fn next_event(&mut self) -> Result<Option<Status>, PtraceError> {
        if let Some(status) = self.pending.pop_front() {
            return Ok(Some(status));
        }
        let flags = WaitPidFlag::__WALL | WaitPidFlag::__WNOTHREAD | WaitPidFlag::WNOHANG;
        match wait(None, flags) {
            Ok(Status::StillAlive) => Ok(None),
            Ok(status) => Ok(Some(status)),
            Err(Errno::EINTR) => Ok(None),
            Err(Errno::ECHILD) => Err(PtraceError::Ended(self.first)),
            Err(error) => Err(PtraceError::new(self.first, "wait")(error)),
        }
    }

    /// Handles an event of a thread.
    pub fn handle_event(&mut self, status: Status) -> Result<(), TagError> {
        let Some(thread) = status.thread() else { return Ok(()) };
        continue_call(status)?;
        let Some(pid) = self.tracee_of(thread, status)? else { return Ok(()) };
        let done = self.handle_status(pid, thread, status);
        done.or_else(|error| self.handle_failure(pid, Some(thread), error))
    }

    /// Finds the tracee that a thread belongs to. `None` if the event is already handled.
    fn tracee_of(&mut self, thread: Pid, status: Status) -> Result<Option<Pid>, TagError> {
        if let Some(pid) = self.threads.get(&thread) {
            return Ok(Some(*pid));
        }
        let stop_state = match status {
            Status::Event(_, _, libc::PTRACE_EVENT_EXIT) => {
                self.early.remove(&thread);
                resume(thread, None)?;
                return Ok(None);
            }
            Status::Stopped(_, signal) => StopState::PendingSignal(signal),
            Status::Event(..) => StopState::AtInstruction,
            _ => {
                self.early.remove(&thread);
                return Ok(None);
            }
        };
        let process = thread_group(thread);
        if process == Some(thread) && !self.tracees.contains_key(&thread) {
            self.early.insert(thread, stop_state);
            self.release_orphans();
            return Ok(None);
        }
        let known = |pid: &Pid| self.tracees.contains_key(pid);
        let pid = process
            .and_then(|pid| Some(pid).filter(known).or_else(|| self.threads.get(&pid).copied()));
        match pid {
            Some(pid) => drop(self.threads.insert(thread, pid)),
            None => resume(thread, stop_state.signal())?,
        }
        Ok(pid)
    }

    /// Stops all threads of a process, calls `change`, and resumes them.
    fn while_stopped(
        &mut self,
        pid: Pid,
        beside: Option<Pid>,
        change: impl FnOnce(&mut Tagged) -> Result<(), TagError>,
    ) -> Result<(), TagError> {
        self.stop(pid, beside)?;
        let Some(Tracee::Tagged(tagged)) = self.tracees.get_mut(&pid) else { return Ok(()) };
        let changed = if tagged.has_conflict() { tagged.untag() } else { change(tagged) };
        if std::mem::take(&mut tagged.tags.is_changed) {
            self.observer.changed(tagged);
        }
        // While threads left stubs or finished a call, they may have started other threads.
        let entered = tagged.add_new_threads(&BTreeSet::new());
        self.collect_events(pid)?;
        changed.and(entered)?;
        self.resume(pid)
    }

    /// Resumes the threads of a process. Events of threads that are about to receive a signal are
    /// handled next.
    fn resume(&mut self, pid: Pid) -> Result<(), TagError> {
        let Some(Tracee::Tagged(tagged)) = self.tracees.get_mut(&pid) else { return Ok(()) };
        let gone = tagged.resume();
        self.pending.extend(tagged.process.queued_events.drain(..));
        gone
    }

    /// Stops all threads of a process. Children that began before the stop are then added in the
    /// state that the process had when they began.
    fn stop(&mut self, pid: Pid, beside: Option<Pid>) -> Result<(), TagError> {
        let Some(Tracee::Tagged(tagged)) = self.tracees.get_mut(&pid) else { return Ok(()) };
        let mut stop_states: BTreeMap<Pid, StopState> =
            beside.map(|thread| (thread, StopState::AtInstruction)).into_iter().collect();
        let threads = &self.threads;
        self.pending.retain(|status| match status {
            Status::Stopped(thread, signal) if threads.get(thread) == Some(&pid) => {
                stop_states.insert(*thread, StopState::PendingSignal(*signal));
                false
            }
            _ => true,
        });
        let gone = self.pending.iter().filter_map(|status| status.thread()).collect();
        let stopped = tagged.stop(stop_states, &gone).map(|()| tagged.handle_own_faults());
        self.collect_events(pid)?;
        stopped
    }

    /// Handles the events and the children that appeared while the process was being stopped.
    fn collect_events(&mut self, pid: Pid) -> Result<(), TagError> {
        let Some(Tracee::Tagged(tagged)) = self.tracees.get_mut(&pid) else { return Ok(()) };
        self.pending.extend(tagged.process.queued_events.drain(..));
        self.threads.extend(tagged.process.threads.keys().map(|thread| (*thread, pid)));
        let forked = std::mem::take(&mut tagged.process.forked);
        forked.into_iter().try_for_each(|child| self.add_child(pid, child))
    }

    /// Removes the tags of functions that cost too much, in all processes.
    pub fn enforce_budgets(&mut self) -> Result<(), TagError> {
        let pids: Vec<Pid> = self.tracees.keys().copied().collect();
        for pid in pids {
            let out = self.tagged(pid).map(Tagged::functions_over_budget).unwrap_or_default();
            if !out.is_empty() {
                let done = self.while_stopped(pid, None, |tagged| {
                    tagged.change(|tags, process| tags.remove_functions(process, out))
                });
                done.or_else(|error| self.handle_failure(pid, None, error))?;
            }
        }
        Ok(())
    }

    /// Handles threads that wait at breakpoints. Returns the time until the next check; `None` if
    /// no breakpoint is set.
    pub fn serve_breakpoints(&mut self) -> Result<Option<Duration>, TagError> {
        let mut watches = false;
        let pids: Vec<Pid> = self.tracees.keys().copied().collect();
        for pid in pids {
            let Some(tagged) = self.tagged(pid).filter(|tagged| tagged.watches_breakpoints())
            else {
                continue;
            };
            watches = true;
            if tagged.has_waiting_thread() {
                let passed =
                    self.while_stopped(pid, None, |tagged| tagged.change(Tags::serve_breakpoints));
                passed.or_else(|error| self.handle_failure(pid, None, error))?;
                self.last_hit = Instant::now();
            }
        }
        let since = self.last_hit.elapsed();
        Ok(watches.then(|| (since / PATIENCE).max(MIN_INTERVAL)))
    }

    /// Checks for seccomp filters that were installed after the tags.
    pub fn check_new_filters(&mut self) -> Result<(), TagError> {
        let pids: Vec<Pid> = self.tracees.keys().copied().collect();
        for pid in pids {
            if self.tagged(pid).is_some_and(Tagged::has_new_filters) {
                let judged = self.while_stopped(pid, None, Tagged::apply_new_filters);
                judged.or_else(|error| self.handle_failure(pid, None, error))?;
            }
        }
        Ok(())
    }

    /// Records the functions that the threads of the first process are in, if a sample is due.
    pub fn sample(&mut self, sampler: &mut Sampler) -> Result<(), TagError> {
        if !sampler.is_due() {
            return Ok(());
        }
        let first = self.first;
        let Some(tagged) = self.tagged(first) else { return Ok(()) };
        let sampled = sampler.take(tagged);
        self.collect_events(first)?;
        sampled.or_else(|error| self.handle_failure(first, None, error))
    }
}
