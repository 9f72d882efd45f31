//! What the kernel says of threads to all of it: signals of real time too, which have numbers only.
//!
//! Threads cancel each other by such a signal; no program with threads can be followed without them.

use std::fmt;
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::ptrace::Options;
use nix::sys::signal::Signal;
use nix::sys::wait::WaitPidFlag;
use nix::unistd::Pid;

use super::PtraceError;

/// How often others are let run, and then how long, until a thread has stopped.
const YIELDS: u32 = 64;
const PAUSE: Duration = Duration::from_micros(50);

/// What the kernel tells us of.
pub(super) const OPTIONS: Options = Options::PTRACE_O_TRACECLONE
    .union(Options::PTRACE_O_TRACEFORK)
    .union(Options::PTRACE_O_TRACEVFORK)
    .union(Options::PTRACE_O_TRACEEXEC)
    .union(Options::PTRACE_O_TRACEEXIT)
    .union(Options::PTRACE_O_TRACESYSGOOD);

/// Any signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SignalNumber(pub i32);

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

/// What has happened to a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Status {
    /// It has ended, with this status.
    Exited(Pid, i32),
    /// A signal has ended it.
    Signaled(Pid, SignalNumber),
    /// It is about to get a signal.
    Stopped(Pid, SignalNumber),
    /// It stands at one of ptrace's events, by this signal.
    Event(Pid, SignalNumber, i32),
    /// It was continued.
    Continued,
    /// Nothing.
    StillAlive,
}

impl Status {
    /// The thread.
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

/// Whether something is still to be heard of a process.
pub(crate) fn is_ours(pid: Pid) -> bool {
    let flags = WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG | WaitPidFlag::WNOWAIT;
    nix::sys::wait::waitid(nix::sys::wait::Id::Pid(pid), flags | WaitPidFlag::__WALL)
        != Err(Errno::ECHILD)
}

/// Waits for a thread, or any.
pub(crate) fn wait(thread: Option<Pid>, flags: WaitPidFlag) -> nix::Result<Status> {
    let mut status = 0;
    let thread = thread.map_or(-1, Pid::as_raw);
    // SAFETY: the kernel writes to an integer that outlives the call.
    let pid = Errno::result(unsafe { libc::waitpid(thread, &raw mut status, flags.bits()) })?;
    Ok(meaning(Pid::from_raw(pid), status))
}

/// Waits for a thread that is to stop; `None` if it has ended, and that is not to be heard yet: of the first
/// thread of a process, only when those of all others were.
pub(super) fn wait_unless_dead(thread: Pid) -> nix::Result<Option<Status>> {
    wait_unless_dead_and(thread, || {})
}

/// The same. `meanwhile`: what is done again and again if it takes long.
pub(super) fn wait_unless_dead_and(
    thread: Pid,
    mut meanwhile: impl FnMut(),
) -> nix::Result<Option<Status>> {
    for tries in 0u32.. {
        match wait(Some(thread), WaitPidFlag::__WALL | WaitPidFlag::WNOHANG)? {
            Status::StillAlive if tries < YIELDS => std::thread::yield_now(),
            Status::StillAlive if is_dead(thread) => break,
            Status::StillAlive => {
                meanwhile();
                std::thread::sleep(PAUSE);
            }
            status => return Ok(Some(status)),
        }
    }
    Ok(None)
}

/// Whether a thread stands where it ends, and that was not heard yet.
pub(super) fn is_at_exit(thread: Pid) -> bool {
    // SAFETY: integers and addresses only.
    let mut info: libc::siginfo_t = unsafe { std::mem::zeroed() };
    let flags = libc::WSTOPPED | libc::WNOHANG | libc::WNOWAIT | libc::__WALL;
    // SAFETY: the kernel writes to a place that outlives the call.
    let found =
        unsafe { libc::waitid(libc::P_PID, thread.as_raw() as u32, &raw mut info, flags) } == 0;
    // SAFETY: `waitid` fills these fields, or leaves the zeros.
    let (pid, status) = unsafe { (info.si_pid(), info.si_status()) };
    found && pid != 0 && status >> 8 == libc::PTRACE_EVENT_EXIT
}

/// Whether a thread has ended.
fn is_dead(thread: Pid) -> bool {
    state(thread).is_none_or(|state| b"ZXx".contains(&state))
}

/// Whether a thread works, or would if a processor were free.
pub(super) fn is_running(thread: Pid) -> bool {
    state(thread) == Some(b'R')
}

/// What a thread does, as `/proc` says (proc(5)); `None` if there is none.
pub(super) fn state(thread: Pid) -> Option<u8> {
    let text = super::proc::read(thread, "stat").ok()?;
    // It is behind the name, which may hold anything.
    let behind = text.iter().rposition(|byte| *byte == b')')?;
    text.get(behind + 2).copied()
}

/// Waits until a child of ours ends: its status, or the signal that has ended it; `None` if it is no child
/// of ours.
pub fn wait_for_end(child: Pid) -> Option<Result<i32, SignalNumber>> {
    loop {
        match wait(Some(child), WaitPidFlag::empty()) {
            Ok(Status::Exited(_, status)) => return Some(Ok(status)),
            Ok(Status::Signaled(_, signal)) => return Some(Err(signal)),
            Ok(_) | Err(Errno::EINTR) => {}
            Err(_) => return None,
        }
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

/// Lets a thread that stands still go on, with a signal.
pub(super) fn resume(
    request: libc::c_uint,
    thread: Pid,
    signal: Option<SignalNumber>,
) -> nix::Result<()> {
    let number = signal.map_or(0, |signal| signal.0);
    // SAFETY: these requests take no memory.
    Errno::result(unsafe { libc::ptrace(request, thread.as_raw(), 0, number) }).map(drop)
}

/// Lets a thread go on; one that is no more has gone.
pub(crate) fn go_on(thread: Pid, signal: Option<SignalNumber>) -> Result<(), PtraceError> {
    match resume(libc::PTRACE_CONT, thread, signal) {
        Err(Errno::ESRCH) => Ok(()),
        other => other.map_err(PtraceError::new(thread, "continue")),
    }
}
