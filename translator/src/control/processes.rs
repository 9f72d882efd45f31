//! Follows the first process, and with [`Options::follow`] also its children and the programs that
//! processes execute.
//!
//! The kernel lets the thread that traces a process also trace its children, so one loop handles
//! the events of all processes. It passes each event to the process that the thread belongs to:
//!
//! | process | what happens with its events |
//! |---|---|
//! | followed | its [`Tracer`] handles them |
//! | executes a program | once it is stopped before the program's first instruction, it is followed |
//! | shares the memory of another process (`vfork`, `posix_spawn`) | it goes on natively, until it executes a program |
//!
//! A new process with memory of its own is followed from its first stop on, which may be reported
//! before or after its parent's event. It has a copy of its parent's memory without the code cache.
//! A process that is followed alone is handled in the same way, but its tracer lets children go.
//!
//! Invariant: while a process that shares another one's memory waits to be resumed, no thread of
//! the other process is waited for: it may be blocked until that process executes a program or
//! ends.

mod images;
mod leaving;
mod started;
mod writer;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::Path;
use std::time::{Duration, Instant};

use hmtt_probe::control::{AbandonedTags, Ending, TagError};
use hmtt_probe::ptrace::{
    Process, PtraceError, RiskPolicy, START_EVENTS, Status, continue_call, detach, interrupt,
    is_waitable, resume, thread_group, wait, wait_for_signal,
};
use nix::errno::Errno;
use nix::sys::ptrace;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::WaitPidFlag;
use nix::time::{ClockId, clock_getcpuclockid};
use nix::unistd::Pid;

use super::Outcome;
use super::error::ControlError;
use super::tracer::{Options, Tracer, unless_ended};
use super::workers::Workers;
use crate::monitor::accesses::AccessSink;
use crate::profile::OpenFiles;
use writer::Writer;

/// Most events that are handled before signals to the controller are checked.
const EVENTS: usize = 64;
/// How often threads are checked when no signal reports an event.
const TICK: Duration = Duration::from_millis(20);

/// Receives what one program of a process has executed, on another thread than the tracer's. If the
/// program is not followed after all, it is dropped instead.
pub type Output = Box<dyn FnOnce(Outcome) + Send>;

/// Knows where the results of processes are written.
pub trait Observer {
    /// A program of a process is about to be followed.
    ///
    /// # Errors
    /// [`TagError::Output`] if there is no place for its output; it is not followed then.
    fn begin(&mut self, pid: Pid, program: &Path) -> Result<Output, TagError>;

    /// Where records of accesses of a program go whose output has just begun, if they are recorded.
    fn accesses(&mut self, _pid: Pid) -> Option<Box<dyn AccessSink>> {
        None
    }

    /// A process that should be followed goes on natively.
    fn not_followed(&mut self, pid: Pid, program: &Path, error: &ControlError);
}

/// How following the first process has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FirstEnd {
    /// Its ending.
    pub ending: Ending,
    /// Whether it goes on natively although the controller was not asked to detach.
    pub goes_on: bool,
    /// Whether it goes on natively because the time is over for which it was to be followed, or
    /// what was to be recorded has been.
    pub is_time_over: bool,
    /// When it was left, if it was.
    pub left: Option<Left>,
}

/// When a process was left, which runs natively since then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Left {
    /// The time.
    pub at: Instant,
    /// Processor time that the process had used.
    pub used: Duration,
}

/// A process that is followed.
struct Followed {
    tracer: Tracer,
    workers: Workers,
    /// `None` if following has failed.
    output: Option<Output>,
    /// Whether its end was found while its threads were being stopped, and is reported soon.
    is_ending: bool,
}

/// A traced process.
enum Tracee {
    Followed(Box<Followed>),
    /// It will stop before the first instruction of a program that it has executed.
    Executing,
    /// It runs natively, and shares the memory of this process.
    Native {
        beside: Pid,
    },
    /// It was left, but for these threads, which are blocked. Each is let go when it reports
    /// something.
    Released(BTreeSet<Pid>),
}

/// State of following processes.
struct Processes<'o> {
    options: &'o Options,
    observer: &'o mut dyn Observer,
    tracees: BTreeMap<Pid, Tracee>,
    /// Events that were received while other threads were handled.
    pending: VecDeque<Status>,
    /// New processes and threads that have not reported their first stop yet.
    expected: BTreeSet<Pid>,
    /// First stops, of threads or children of a process, that are handled when it is known whether
    /// a thread with deferred signals has started the stopped one.
    held: Vec<(Pid, Status)>,
    /// What threads with deferred signals have started: the process of the thread, and the signal
    /// mask that it gets at its first stop.
    masks: BTreeMap<Pid, (Pid, u64)>,
    risk_policy: RiskPolicy,
    /// Files of the code of followed processes.
    files: OpenFiles,
    first: Pid,
    /// How the first process has ended.
    ended: Option<Ending>,
    is_leaving: bool,
    is_time_over: bool,
    left: Option<Left>,
    writer: Writer,
}

/// Runs a process that was just started and has not executed an instruction, until it ends, or all
/// processes end if they are followed, or a signal to the controller arrives.
///
/// # Errors
/// [`ControlError`] if the process cannot be followed, which is killed then: it has not executed an
/// instruction. After that, errors of following it are reported to the observer, and it goes on
/// natively.
pub fn run(
    mut process: Process,
    options: &Options,
    observer: &mut dyn Observer,
) -> Result<FirstEnd, ControlError> {
    let mut processes = Processes::new(&process, options, observer);
    let prepared = processes.prepare(&mut process).inspect_err(|_| {
        let _ = kill(process.pid, Signal::SIGKILL);
    })?;
    processes.follow(|it| it.start(process, prepared))
}

/// Removes what a killed controller has left in a process whose threads are stopped.
fn without_remains(mut process: Process) -> Result<Process, ControlError> {
    match AbandonedTags::may_be_in(&mut process) {
        Ok(false) => Ok(process),
        Ok(true) => Ok(AbandonedTags::find(process)?.take_over()?),
        Err(error) => {
            process.release();
            Err(error.into())
        }
    }
}

/// Follows a process to which this one has attached, and whose threads are stopped, as [`run`]
/// does.
///
/// # Errors
/// [`ControlError`] if the process cannot be followed. It then runs on natively.
pub fn attach(
    process: Process,
    options: &Options,
    observer: &mut dyn Observer,
) -> Result<FirstEnd, ControlError> {
    let mut process = without_remains(process)?;
    let mut processes = Processes::new(&process, options, observer);
    match processes.prepare(&mut process) {
        Ok(prepared) => processes.follow(|it| it.start(process, prepared)),
        Err(error) => {
            process.detach()?;
            Err(error)
        }
    }
}

/// Processor time that a process has used; none if it is gone.
pub fn processor_time(pid: Pid) -> Duration {
    let time = clock_getcpuclockid(pid).and_then(ClockId::now);
    time.map_or(Duration::ZERO, Duration::from)
}

/// Allows as many open files as possible: a followed process takes four. Programs that this process
/// starts later would inherit that, but the first one runs already.
fn raise_file_limit() {
    if let Ok((_, most)) = getrlimit(Resource::RLIMIT_NOFILE) {
        let _ = setrlimit(Resource::RLIMIT_NOFILE, most, most);
    }
}

impl<'o> Processes<'o> {
    fn new(process: &Process, options: &'o Options, observer: &'o mut dyn Observer) -> Self {
        raise_file_limit();
        Processes {
            options,
            observer,
            tracees: BTreeMap::new(),
            pending: VecDeque::new(),
            expected: BTreeSet::new(),
            held: Vec::new(),
            masks: BTreeMap::new(),
            risk_policy: process.risk_policy,
            files: OpenFiles::default(),
            first: process.pid,
            ended: None,
            is_leaving: false,
            is_time_over: false,
            left: None,
            writer: Writer::start(),
        }
    }

    /// Follows processes until all have ended, or a signal asks to detach, and waits until their
    /// results are written. `start`: lets the first one continue.
    fn follow(
        mut self,
        start: impl FnOnce(&mut Self) -> Result<(), ControlError>,
    ) -> Result<FirstEnd, ControlError> {
        let followed = start(&mut self).and_then(|()| self.handle_events());
        let followed = followed.and_then(|is_over| if is_over { Ok(()) } else { self.leave_all() });
        let used = || processor_time(self.first);
        self.left = self.is_leaving.then(|| Left { at: Instant::now(), used: used() });
        self.writer.finish();
        followed?;
        let ending = self.ended.unwrap_or(Ending::Detached);
        let has_ended = matches!(ending, Ending::Exited(_) | Ending::Signaled(_));
        let is_time_over = self.is_time_over && ending == Ending::Detached;
        let (goes_on, left) = (!has_ended && !self.is_leaving, self.left);
        Ok(FirstEnd { ending, goes_on, is_time_over, left })
    }

    /// Handles events until all processes have ended. Returns whether they have; otherwise the
    /// controller was asked to detach.
    fn handle_events(&mut self) -> Result<bool, ControlError> {
        let mut waited = self.options.signals;
        waited.add(Signal::SIGCHLD);
        let begin = Instant::now();
        loop {
            let left = self.options.at_most.map(|most| most.saturating_sub(begin.elapsed()));
            if left == Some(Duration::ZERO) || self.is_recorded() {
                self.is_time_over = true;
                return Ok(false);
            }
            let mut is_all = false;
            for _ in 0..EVENTS {
                let Some(status) = self.next_event()? else {
                    is_all = true;
                    break;
                };
                self.handle(status)?;
            }
            self.masks.retain(|new, _| is_waitable(*new));
            let is_expecting = self.is_expecting() || !self.masks.is_empty();
            if self.tracees.is_empty() && is_all && !is_expecting {
                return Ok(true);
            }
            self.serve_requests()?;
            let at_most = if is_all { self.tick() } else { Duration::ZERO };
            let at_most = at_most.min(left.unwrap_or(TICK));
            let signal =
                wait_for_signal(&waited, at_most).map_err(PtraceError::new(self.first, "wait"))?;
            if signal.is_some_and(|signal| signal != Signal::SIGCHLD) {
                return Ok(false);
            }
        }
    }

    /// Whether nothing more is to be recorded of the first process.
    fn is_recorded(&mut self) -> bool {
        let first = self.followed(self.first);
        first.is_some_and(|followed| followed.tracer.shared.is_to_be_left())
    }

    /// How long to wait for events: until a deferral is over, at most.
    fn tick(&self) -> Duration {
        let next = self.tracees.values().filter_map(|tracee| match tracee {
            Tracee::Followed(followed) => followed.tracer.next_deferral_end(),
            Tracee::Executing | Tracee::Native { .. } | Tracee::Released(_) => None,
        });
        next.min().map_or(TICK, |next| TICK.min(next.saturating_duration_since(Instant::now())))
    }

    /// Whether a new process has not reported its first stop yet.
    fn is_expecting(&mut self) -> bool {
        self.expected.retain(|new| is_waitable(*new));
        !self.expected.is_empty()
    }

    fn next_event(&mut self) -> Result<Option<Status>, PtraceError> {
        if let Some(status) = self.pending.pop_front() {
            return Ok(Some(status));
        }
        let flags = WaitPidFlag::__WALL | WaitPidFlag::__WNOTHREAD | WaitPidFlag::WNOHANG;
        match wait(None, flags) {
            Ok(Status::StillAlive) | Err(Errno::EINTR) => Ok(None),
            Err(Errno::ECHILD) => {
                let pids: Vec<Pid> = self.tracees.keys().copied().collect();
                pids.into_iter().for_each(|pid| self.end(pid, Ending::Detached));
                Ok(None)
            }
            status => status.map(Some).map_err(PtraceError::new(self.first, "wait")),
        }
    }

    fn followed(&mut self, pid: Pid) -> Option<&mut Followed> {
        match self.tracees.get_mut(&pid) {
            Some(Tracee::Followed(followed)) => Some(followed),
            _ => None,
        }
    }

    /// The traced process that a thread belongs to; `None` if there is none yet.
    fn owner(&self, thread: Pid) -> Option<Pid> {
        if self.tracees.contains_key(&thread) {
            return Some(thread);
        }
        let has_thread = |tracee: &Tracee| match tracee {
            Tracee::Followed(followed) => followed.tracer.threads.contains_key(&thread),
            Tracee::Executing | Tracee::Native { .. } => false,
            Tracee::Released(threads) => threads.contains(&thread),
        };
        let found = self.tracees.iter().find(|(_, tracee)| has_thread(tracee));
        let found = found.map(|(pid, _)| *pid).or_else(|| match self.options.follow {
            true => thread_group(thread),
            false => Some(self.first),
        });
        found.filter(|pid| self.tracees.contains_key(pid))
    }

    /// Handles an event of a thread.
    fn handle(&mut self, status: Status) -> Result<(), ControlError> {
        let Some(thread) = status.thread() else { return Ok(()) };
        continue_call(status)?;
        self.expected.remove(&thread);
        if self.is_held(thread, status)? {
            return Ok(());
        }
        let Some(pid) = self.owner(thread) else { return self.handle_unknown(thread, status) };
        self.expect_new(thread, status);
        match self.tracees.get_mut(&pid) {
            Some(Tracee::Followed(followed)) => {
                let handled = followed.tracer.handle(status);
                self.handled(pid, handled)
            }
            Some(Tracee::Executing) => self.handle_executing(pid, thread, status),
            Some(Tracee::Native { .. }) => self.handle_native(pid, thread, status),
            Some(Tracee::Released(_)) => self.handle_released(pid, thread, status),
            None => Ok(()),
        }
    }

    /// Records the process or thread that a thread has started, unless its first stop was reported
    /// before.
    pub fn expect_new(&mut self, thread: Pid, status: Status) {
        let is_start =
            matches!(status, Status::Event(_, _, event) if START_EVENTS.contains(&event));
        if !is_start {
            return;
        }
        let Ok(new) = ptrace::getevent(thread) else { return };
        let new = Pid::from_raw(new as i32);
        if self.owner(new).is_none_or(|owner| owner != new && self.is_thread_new(owner, new)) {
            self.expected.insert(new);
        }
    }

    /// Whether the tracer of a process does not know a thread yet.
    fn is_thread_new(&mut self, pid: Pid, thread: Pid) -> bool {
        self.followed(pid).is_none_or(|Followed { tracer, .. }| {
            !tracer.threads.contains_key(&thread) && !tracer.is_waiting(thread)
        })
    }

    /// An event of a followed process was handled, with this result.
    fn handled(&mut self, pid: Pid, result: Result<(), ControlError>) -> Result<(), ControlError> {
        let Some(followed) = self.followed(pid) else { return Ok(()) };
        let Followed { tracer, is_ending, .. } = followed;
        let (ending, leaves) = (tracer.ending, tracer.left.is_some() && !*is_ending);
        let received = std::mem::take(&mut tracer.pending);
        let started = std::mem::take(&mut tracer.started);
        self.masks.extend(started.into_iter().map(|(new, mask)| (new, (pid, mask))));
        received.into_iter().rev().for_each(|status| self.pending.push_front(status));
        self.release_held();
        match (unless_ended(result), ending) {
            (_, Some(ending)) => {
                self.end(pid, ending);
                Ok(())
            }
            (Err(error), None) => self.fail(pid, error),
            (Ok(()), None) if leaves => self.leave(pid),
            (Ok(()), None) => Ok(()),
        }
    }

    /// Stops the threads that translators have handed over.
    fn serve_requests(&mut self) -> Result<(), ControlError> {
        let pids: Vec<Pid> = self.tracees.keys().copied().collect();
        for pid in pids {
            if let Some(followed) = self.followed(pid) {
                let served = followed.tracer.serve_requests();
                self.handled(pid, served)?;
            }
        }
        Ok(())
    }

    /// A followed process has ended, has executed another program, or was detached.
    fn end(&mut self, pid: Pid, ending: Ending) {
        let tracee = self.tracees.remove(&pid);
        self.release_held();
        let is_next = ending == Ending::Replaced && self.options.follow && !self.is_leaving;
        if is_next {
            self.await_program(pid);
        } else if ending == Ending::Replaced {
            let _ = detach(pid, None);
        }
        if pid == self.first && !is_next {
            self.ended = Some(ending);
        }
        if let Some(Tracee::Followed(followed)) = tracee {
            self.writer.write(*followed, ending);
        }
    }

    /// A process has executed a program. Its thread is still in `execve`, which sets its registers
    /// when it returns, and then stops.
    fn await_program(&mut self, pid: Pid) {
        self.tracees.insert(pid, Tracee::Executing);
        // Both fail if it was killed, which is reported.
        let _ = interrupt(pid);
        let _ = resume(pid, None);
    }
}
