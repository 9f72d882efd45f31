//! Waits for events of traced threads. All signal numbers are supported, even those of real-time
//! signals, which have no names.
//!
//! C libraries use a real-time signal to cancel threads, so no program with threads could be traced
//! without them.
//!
//! A stop before the delivery of a signal is left in the kernel (`WNOWAIT`): if it were taken and
//! the tracer died before it resumed the thread, the thread would not get the signal (Linux,
//! `wait_task_stopped`). All other stops are taken, even those with SIGTRAP, which the tracer
//! itself may have caused.

use std::cell::RefCell;
use std::collections::HashSet;
use std::fmt;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sys::ptrace::Options;
use nix::sys::signal::{SigSet, Signal};
use nix::sys::wait::WaitPidFlag;
use nix::unistd::Pid;

use super::{PtraceError, escape};

/// While a thread is waited for, the processor is first yielded `YIELDS` times; then each check is
/// followed by a pause.
const YIELDS: u32 = 64;
const PAUSE: Duration = Duration::from_micros(50);
/// Interval between checks whether a child has ended, when no signal reports this.
const END_TICK: Duration = Duration::from_millis(20);

/// Ptrace events that the kernel is to report.
pub(super) const OPTIONS: Options = Options::PTRACE_O_TRACECLONE
    .union(Options::PTRACE_O_TRACEFORK)
    .union(Options::PTRACE_O_TRACEVFORK)
    .union(Options::PTRACE_O_TRACEEXEC)
    .union(Options::PTRACE_O_TRACEEXIT)
    .union(Options::PTRACE_O_TRACESYSGOOD);

/// Number of a signal, including real-time signals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SignalNumber(pub i32);

impl SignalNumber {
    /// Number that a thread reports when it stops at the start or end of a system call (ptrace(2),
    /// `PTRACE_O_TRACESYSGOOD`). It is no signal, so the thread gets no signal if the tracer dies.
    pub const SYSTEM_CALL: SignalNumber = SignalNumber(Signal::SIGTRAP as i32 | 0x80);
}

impl PartialEq<Signal> for SignalNumber {
    fn eq(&self, other: &Signal) -> bool {
        self.0 == *other as i32
    }
}

impl fmt::Display for SignalNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match Signal::try_from(self.0) {
            Ok(signal) => signal.fmt(f),
            Err(_) => write!(f, "signal {}", self.0),
        }
    }
}

/// An event of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// The thread has ended, with this exit status.
    Exited(Pid, i32),
    /// A signal has ended the thread.
    Signaled(Pid, SignalNumber),
    /// The thread is stopped before the delivery of a signal.
    Stopped(Pid, SignalNumber),
    /// The thread is stopped at a ptrace event, reported with this signal.
    Event(Pid, SignalNumber, i32),
    /// A thread was continued.
    Continued,
    /// No event has occurred.
    StillAlive,
}

impl Status {
    /// The thread that the event belongs to.
    pub fn thread(self) -> Option<Pid> {
        match self {
            Status::Exited(thread, _)
            | Status::Signaled(thread, _)
            | Status::Stopped(thread, _)
            | Status::Event(thread, ..) => Some(thread),
            Status::Continued | Status::StillAlive => None,
        }
    }
}

thread_local! {
    /// Threads for which [`wait`] has returned a stop before the delivery of a signal, and that
    /// were not resumed since. The set belongs to one thread of this program, which traces all
    /// processes.
    static AT_SIGNAL: RefCell<HashSet<Pid>> = RefCell::default();
}

/// Removes a thread from the set of threads that are stopped before the delivery of a signal.
/// Returns whether it was in the set.
fn forget_signal_stop(thread: Pid) -> bool {
    AT_SIGNAL.with_borrow_mut(|threads| threads.remove(&thread))
}

/// Whether a process can still report an event to this program.
pub fn is_waitable(pid: Pid) -> bool {
    let flags = WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG | WaitPidFlag::WNOWAIT;
    nix::sys::wait::waitid(nix::sys::wait::Id::Pid(pid), flags | WaitPidFlag::__WALL)
        != Err(Errno::ECHILD)
}

/// Waits for an event of a thread, or of any thread if `thread` is `None`.
///
/// # Errors
/// The error of waitpid(2): `ECHILD` if there is nothing to wait for.
pub fn wait(thread: Option<Pid>, flags: WaitPidFlag) -> nix::Result<Status> {
    loop {
        let Some((reporter, stop)) = next_event(thread, flags)? else {
            return Ok(Status::StillAlive);
        };
        if let Some(signal) = stop
            && AT_SIGNAL.with_borrow_mut(|threads| threads.insert(reporter))
        {
            return Ok(Status::Stopped(reporter, signal));
        }
        // This stop was returned before. It hides the events of other threads, so it is taken from
        // the kernel.
        let status = taken(reporter, flags | WaitPidFlag::WNOHANG)?;
        let is_known = stop.is_some_and(|signal| status == Status::Stopped(reporter, signal));
        if !is_known && status != Status::StillAlive {
            forget_signal_stop(reporter);
            return Ok(status);
        }
    }
}

/// The next event of a thread, or of any thread; the event stays in the kernel. Returns the thread,
/// and the signal if the thread is stopped before its delivery. `None` if there is no event yet.
fn next_event(
    thread: Option<Pid>,
    flags: WaitPidFlag,
) -> nix::Result<Option<(Pid, Option<SignalNumber>)>> {
    // SAFETY: the structure consists of integers and addresses only.
    let mut info: libc::siginfo_t = unsafe { std::mem::zeroed() };
    let (kind, id) = thread.map_or((libc::P_ALL, 0), |thread| (libc::P_PID, thread.as_raw()));
    let flags = flags.bits() | libc::WEXITED | libc::WNOWAIT;
    // SAFETY: the kernel writes to a structure that outlives the call.
    Errno::result(unsafe { libc::waitid(kind, id as u32, &raw mut info, flags) })?;
    // SAFETY: `waitid` fills in these fields, or leaves them zero.
    let (pid, status) = unsafe { (info.si_pid(), info.si_status()) };
    let is_signal = info.si_code == libc::CLD_TRAPPED
        && (1..=libc::SIGRTMAX()).contains(&status)
        && status != libc::SIGTRAP;
    let signal = is_signal.then_some(SignalNumber(status));
    Ok((pid != 0).then_some((Pid::from_raw(pid), signal)))
}

/// Takes an event of a thread from the kernel.
fn taken(thread: Pid, flags: WaitPidFlag) -> nix::Result<Status> {
    let mut status = 0;
    // SAFETY: the kernel writes to an integer that outlives the call.
    let pid =
        Errno::result(unsafe { libc::waitpid(thread.as_raw(), &raw mut status, flags.bits()) })?;
    Ok(meaning(Pid::from_raw(pid), status))
}

/// Result of waiting for a thread that is to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waited {
    /// The thread has reported an event.
    Status(Status),
    /// The thread has ended, and its status is not available yet. The status of a process's first
    /// thread is available only after the statuses of all other threads.
    Dead,
    /// The thread does not stop, and is not waited for any longer.
    Unstopped,
}

/// Waits for a thread that is to stop, until signals end the wait (`escape.rs`).
///
/// # Errors
/// As [`wait`].
pub fn wait_for_stop(thread: Pid) -> nix::Result<Waited> {
    wait_for_stop_and(thread, |_| false)
}

/// Like [`wait_for_stop`]. During a long wait, `meanwhile` is called repeatedly with the time
/// waited so far; it returns whether the wait is to end.
///
/// # Errors
/// As [`wait`].
pub(super) fn wait_for_stop_and(
    thread: Pid,
    mut meanwhile: impl FnMut(Duration) -> bool,
) -> nix::Result<Waited> {
    let begin = Instant::now();
    let wait_now = || wait(Some(thread), WaitPidFlag::__WALL | WaitPidFlag::WNOHANG);
    for tries in 0u32.. {
        match wait_now()? {
            Status::StillAlive if tries < YIELDS => std::thread::yield_now(),
            Status::StillAlive if is_dead(thread) => {
                // The status may have become available since. It must be taken: the kernel reports
                // the end of the process only after that.
                return Ok(match wait_now()? {
                    Status::StillAlive => Waited::Dead,
                    status => Waited::Status(status),
                });
            }
            Status::StillAlive => {
                let waited = begin.elapsed();
                if meanwhile(waited) || escape::is_given_up(waited) {
                    return Ok(Waited::Unstopped);
                }
                std::thread::sleep(PAUSE);
            }
            status => return Ok(Waited::Status(status)),
        }
    }
    Ok(Waited::Dead)
}

/// Whether a thread is stopped at its exit event, and the event has not been taken yet.
pub(super) fn is_at_exit(thread: Pid) -> bool {
    // SAFETY: the structure consists of integers and addresses only.
    let mut info: libc::siginfo_t = unsafe { std::mem::zeroed() };
    let flags = libc::WSTOPPED | libc::WNOHANG | libc::WNOWAIT | libc::__WALL;
    // SAFETY: the kernel writes to a structure that outlives the call.
    let is_reported =
        unsafe { libc::waitid(libc::P_PID, thread.as_raw() as u32, &raw mut info, flags) } == 0;
    // SAFETY: `waitid` fills in these fields, or leaves them zero.
    let (pid, status) = unsafe { (info.si_pid(), info.si_status()) };
    is_reported && pid != 0 && status >> 8 == libc::PTRACE_EVENT_EXIT
}

/// Whether a thread has ended.
pub(super) fn is_dead(thread: Pid) -> bool {
    state(thread).is_none_or(|state| b"ZXx".contains(&state))
}

/// Whether a thread is running, or waits for a processor.
pub(super) fn is_running(thread: Pid) -> bool {
    state(thread) == Some(b'R')
}

/// State of a thread, as a letter (proc(5)); `None` if there is no such thread.
pub(super) fn state(thread: Pid) -> Option<u8> {
    let text = super::proc::read(thread, "stat").ok()?;
    // The state follows the name, which may contain any character, such as `)`.
    let after = text.iter().rposition(|byte| *byte == b')')?;
    text.get(after + 2).copied()
}

/// Waits until a child of this program ends, or until two signals ask this program to end, the
/// second at least two seconds after the first. Returns the child's exit status, or the signal that
/// ended it; `None` if the process is not a child of this program, or has not ended.
pub fn wait_for_end(child: Pid) -> Option<Result<i32, SignalNumber>> {
    let mut first: Option<Instant> = None;
    wait_for_end_unless(child, |_| {
        first.get_or_insert_with(Instant::now).elapsed() >= escape::LEAST
    })
}

/// Like [`wait_for_end`], but the first signal ends the wait.
pub fn wait_for_end_or_signal(child: Pid) -> Option<Result<i32, SignalNumber>> {
    wait_for_end_unless(child, |_| true)
}

/// Like [`wait_for_end`], but each signal that asks this program to end calls `suffices`, which
/// returns whether the wait ends.
pub fn wait_for_end_unless(
    child: Pid,
    mut suffices: impl FnMut(Signal) -> bool,
) -> Option<Result<i32, SignalNumber>> {
    let mut waited = SigSet::empty();
    let signals = [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP, Signal::SIGCHLD];
    signals.into_iter().for_each(|signal| waited.add(signal));
    loop {
        match wait(Some(child), WaitPidFlag::WNOHANG) {
            Ok(Status::Exited(_, status)) => return Some(Ok(status)),
            Ok(Status::Signaled(_, signal)) => return Some(Err(signal)),
            Ok(_) | Err(Errno::EINTR) if is_dead(child) => take_ends_of_threads(child),
            Ok(_) | Err(Errno::EINTR) => {}
            Err(_) => return None,
        }
        if let Ok(Some(signal)) = wait_for_blocked(&waited, END_TICK)
            && signal != Signal::SIGCHLD
            && suffices(signal)
        {
            return None;
        }
    }
}

/// Takes the ends of the other threads of a process that this program still traces. The kernel
/// reports the end of the first thread only after that.
fn take_ends_of_threads(pid: Pid) {
    let threads = super::proc::threads(pid).unwrap_or_default();
    for thread in threads.into_iter().filter(|thread| *thread != pid) {
        let status = wait(Some(thread), WaitPidFlag::__WALL | WaitPidFlag::WNOHANG);
        if let Ok(Status::Stopped(..) | Status::Event(..)) = status {
            // A killed thread stops once more, at its exit event.
            let _ = restart_thread(libc::PTRACE_DETACH, thread, None);
        }
    }
}

/// Resumes a stopped thread until it starts or ends a system call. It then stops with
/// [`SignalNumber::SYSTEM_CALL`]. A thread that has ended is ignored.
///
/// # Errors
/// [`PtraceError::System`] if the kernel refuses.
pub fn resume_to_call(thread: Pid, signal: Option<SignalNumber>) -> Result<(), PtraceError> {
    match restart_thread(libc::PTRACE_SYSCALL, thread, signal) {
        Err(Errno::ESRCH) => Ok(()),
        other => other.map_err(PtraceError::new(thread, "continue to a system call")),
    }
}

/// Lets a stopped thread execute one instruction. It then stops with `SIGTRAP`. If the tracer dies
/// in between, this signal may end the program. A thread that has ended is ignored.
///
/// # Errors
/// [`PtraceError::System`] if the kernel refuses.
pub fn step(thread: Pid, signal: Option<SignalNumber>) -> Result<(), PtraceError> {
    match restart_thread(libc::PTRACE_SINGLESTEP, thread, signal) {
        Err(Errno::ESRCH) => Ok(()),
        other => other.map_err(PtraceError::new(thread, "execute one instruction")),
    }
}

/// Waits for the first of some signals; `None` if none arrives within `at_most`.
///
/// # Errors
/// The error of sigtimedwait(2).
pub fn wait_for_signal(signals: &SigSet, at_most: Duration) -> nix::Result<Option<Signal>> {
    let signal = wait_for_blocked(signals, at_most)?;
    if signal.is_some_and(|signal| signal != Signal::SIGCHLD) {
        escape::begin();
    }
    Ok(signal)
}

/// Waits for the first of some signals, without taking it as a request to end this program.
fn wait_for_blocked(signals: &SigSet, at_most: Duration) -> nix::Result<Option<Signal>> {
    let timeout = libc::timespec {
        tv_sec: at_most.as_secs() as i64,
        tv_nsec: i64::from(at_most.subsec_nanos()),
    };
    // SAFETY: the kernel reads a set and a time that outlive the call, and writes nothing.
    let signal =
        unsafe { libc::sigtimedwait(signals.as_ref(), std::ptr::null_mut(), &raw const timeout) };
    match Errno::result(signal) {
        Ok(number) => Signal::try_from(number).map(Some),
        Err(Errno::EAGAIN | Errno::EINTR) => Ok(None),
        Err(error) => Err(error),
    }
}

fn meaning(pid: Pid, status: i32) -> Status {
    if pid.as_raw() == 0 {
        Status::StillAlive
    } else if libc::WIFEXITED(status) {
        Status::Exited(pid, libc::WEXITSTATUS(status))
    } else if libc::WIFSIGNALED(status) {
        Status::Signaled(pid, SignalNumber(libc::WTERMSIG(status)))
    } else if libc::WIFSTOPPED(status) {
        // ptrace(2): status >> 8 is the signal, with the event above it.
        let signal = SignalNumber(libc::WSTOPSIG(status));
        match status >> 16 {
            0 => Status::Stopped(pid, signal),
            event => Status::Event(pid, signal, event),
        }
    } else {
        Status::Continued
    }
}

/// Makes a ptrace request that resumes a stopped thread, with a signal.
///
/// # Errors
/// The error of ptrace(2): `ESRCH` if the thread has ended or is not stopped.
pub(super) fn restart_thread(
    request: libc::c_uint,
    thread: Pid,
    signal: Option<SignalNumber>,
) -> nix::Result<()> {
    let number = signal.map_or(0, |signal| signal.0);
    // The thread may stop for another signal before this function continues.
    let was_at_signal = forget_signal_stop(thread);
    // SAFETY: these requests access no memory of this process.
    let result = Errno::result(unsafe { libc::ptrace(request, thread.as_raw(), 0, number) });
    if was_at_signal && !matches!(result, Ok(_) | Err(Errno::ESRCH)) {
        AT_SIGNAL.with_borrow_mut(|threads| threads.insert(thread));
    }
    result.map(drop)
}

/// Resumes a stopped thread. A thread that has ended is ignored.
///
/// # Errors
/// [`PtraceError::System`] if the kernel refuses.
pub fn resume(thread: Pid, signal: Option<SignalNumber>) -> Result<(), PtraceError> {
    match restart_thread(libc::PTRACE_CONT, thread, signal) {
        Err(Errno::ESRCH) => Ok(()),
        other => other.map_err(PtraceError::new(thread, "continue")),
    }
}
