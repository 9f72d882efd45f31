//! Follows the first process, and with [`Options::follow`] also its children and the programs that
//! processes execute.
//!
//! The kernel lets the thread that traces a process also trace its children, so one loop handles
//! the events of all processes. It passes each event to the process that the thread belongs to:
//!
//! | process | what happens with its events |
//! |---|---|
//! | followed | its [`Tracer`] handles them |
//! | executes a program | the process is followed as soon as it is stopped before the program's first instruction |
//! | shares the memory of another process (`vfork`, `posix_spawn`) | the process continues natively, until it executes a program |
//!
//! A new process with memory of its own is followed from its first stop on. The kernel may report
//! this stop before or after the event of the parent. The process has a copy of its parent's
//! memory, but not of the code cache. Without [`Options::follow`] the first process is handled in
//! the same way, but its tracer detaches from children.
//!
//! Invariant: while a process that shares the memory of another process waits to be resumed, no
//! thread of the other process is waited for. Such a thread may be blocked until the process that
//! shares the memory executes a program or ends.

mod images;
mod leaving;
mod observer;
mod started;
mod writer;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::{Duration, Instant};

use hmtt_probe::control::{AbandonedTags, Ending};
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

use super::error::ControlError;
use super::tracer::{Options, Tracer, unless_ended};
use super::workers::Workers;
use crate::profile::OpenFiles;
pub use observer::{FirstEnd, Left, Observer, Output};
use writer::Writer;

/// Maximum number of events that are handled before the controller checks for signals to itself.
const EVENTS: usize = 64;
/// Longest wait for a signal before threads are checked for events.
const TICK: Duration = Duration::from_millis(20);

/// A process that is followed, with its helper threads.
struct Followed {
    tracer: Tracer,
    workers: Workers,
    /// Receiver of the result; `None` if following has failed.
    output: Option<Output>,
    /// Whether the end of the process was seen while its threads were being stopped. It is reported
    /// soon.
    is_ending: bool,
}

/// A traced process.
enum Tracee {
    Followed(Box<Followed>),
    /// The process has executed a program, and will stop before the program's first instruction.
    Executing,
    /// The process runs natively, and shares the memory of process `beside`.
    Native {
        beside: Pid,
    },
    /// The process was left, except for these threads, which are blocked. Each of them is detached
    /// at its next event.
    Released(BTreeSet<Pid>),
}

/// State of all traced processes.
struct Processes<'o> {
    options: &'o Options,
    observer: &'o mut dyn Observer,
    tracees: BTreeMap<Pid, Tracee>,
    /// Events that were received while another thread was handled.
    pending: VecDeque<Status>,
    /// New processes and threads whose first stop has not been reported yet.
    expected: BTreeSet<Pid>,
    /// First stops of new threads or processes, each with the process that may have started it.
    /// They are held until it is known whether a thread with deferred signals has started the
    /// stopped one.
    held: Vec<(Pid, Status)>,
    /// Processes and threads that a thread with deferred signals has started. For each: the process
    /// of the starting thread, and the signal mask that the new one gets at its first stop.
    masks: BTreeMap<Pid, (Pid, u64)>,
    risk_policy: RiskPolicy,
    /// Open files that contain code of followed processes.
    files: OpenFiles,
    first: Pid,
    /// Ending of the first process, if it has ended.
    ended: Option<Ending>,
    is_leaving: bool,
    is_time_over: bool,
    left: Option<Left>,
    writer: Writer,
}

/// Follows a process that was just started and has not executed an instruction. Returns when the
/// process has ended, when all processes have ended if children are followed, or when a signal to
/// the controller arrives.
///
/// # Errors
/// [`ControlError`] if the process cannot be followed. It is killed then, because it has not
/// executed an instruction. Later errors are reported to the observer, and the process continues
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

/// Removes what a killed controller has left behind in a process whose threads are stopped.
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

/// Follows a process as [`run`] does. The controller has attached to the process, and the threads
/// of the process are stopped.
///
/// # Errors
/// [`ControlError`] if the process cannot be followed. The process then continues natively.
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

/// Processor time that a process has used; zero if the process is gone.
pub fn processor_time(pid: Pid) -> Duration {
    let time = clock_getcpuclockid(pid).and_then(ClockId::now);
    time.map_or(Duration::ZERO, Duration::from)
}

/// Raises the limit of open files as far as possible, because a followed process takes four files.
/// Programs that this process starts later would inherit the limit, but the first program runs
/// already.
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

    /// Follows processes until all have ended, or a signal asks to detach. Then waits until their
    /// results are written. `start`: lets the first process continue.
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

    /// Handles events until all processes have ended. Returns whether they have; `false` means that
    /// the processes are to be left.
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

    /// Whether everything that was to be recorded of the first process is recorded.
    fn is_recorded(&mut self) -> bool {
        let first = self.followed(self.first);
        first.is_some_and(|followed| followed.tracer.shared.is_to_be_left())
    }

    /// How long to wait for events: at most [`TICK`], and no longer than until the next deferral of
    /// signals ends.
    fn tick(&self) -> Duration {
        let next = self.tracees.values().filter_map(|tracee| match tracee {
            Tracee::Followed(followed) => followed.tracer.next_deferral_end(),
            Tracee::Executing | Tracee::Native { .. } | Tracee::Released(_) => None,
        });
        next.min().map_or(TICK, |next| TICK.min(next.saturating_duration_since(Instant::now())))
    }

    /// Whether some new process or thread has not reported its first stop yet.
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

    /// The traced process that a thread belongs to; `None` if the process is not known yet.
    fn owner(&self, thread: Pid) -> Option<Pid> {
        if self.tracees.contains_key(&thread) {
            return Some(thread);
        }
        let has_thread = |tracee: &Tracee| match tracee {
            Tracee::Followed(followed) => followed.tracer.threads.contains_key(&thread),
            Tracee::Executing | Tracee::Native { .. } => false,
            Tracee::Released(threads) => threads.contains(&thread),
        };
        let holder = self.tracees.iter().find(|(_, tracee)| has_thread(tracee));
        let process = holder
            .map(|(pid, _)| *pid)
            .or_else(|| if self.options.follow { thread_group(thread) } else { Some(self.first) });
        process.filter(|pid| self.tracees.contains_key(pid))
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

    /// After an event that starts a process or thread, expects the new one, unless its first stop
    /// was reported before.
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

    /// Processes the result of handling an event of a followed process.
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

    /// Lets all tracers handle the requests of their translators.
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

    /// Stops following a process that has ended, has executed another program, or was detached.
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

    /// Waits until a process that has executed a program is ready. Its thread is still in `execve`,
    /// which sets the registers when it returns; then the thread stops.
    fn await_program(&mut self, pid: Pid) {
        self.tracees.insert(pid, Tracee::Executing);
        // Both calls fail if the process was killed, which is reported as an event.
        let _ = interrupt(pid);
        let _ = resume(pid, None);
    }
}
