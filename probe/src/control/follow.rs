//! A tagged process that runs to its end: new threads get what tags need, children are let go.
//!
//! Signals pass through. Signals to us come between the events of the process, never lost: they are
//! blocked and waited for together with those of the process.

use std::time::Duration;

use nix::errno::Errno;
use nix::sys::ptrace;
use nix::sys::signal::{SigSet, Signal};
use nix::sys::wait::WaitPidFlag;
use nix::unistd::Pid;

use super::{TagError, Tagged, gate, patch};
use crate::ptrace::{Child, Process, PtraceError, SignalNumber, Standing, Status, go_on, wait};

/// How often threads are looked at when no signal says that something has happened.
const TICK: Duration = Duration::from_millis(20);

/// How it ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// With this status.
    Exited(i32),
    /// By a signal.
    Signaled(SignalNumber),
    /// It has become another program, which is not tagged.
    Replaced,
    /// We were asked to leave it; it goes on without tags.
    Detached,
}

impl From<Ending> for hmtt_format::tag_log::Ending {
    fn from(ending: Ending) -> Self {
        match ending {
            Ending::Exited(status) => Self::Exited(status),
            Ending::Signaled(signal) => Self::Signaled(signal.0),
            Ending::Replaced => Self::Replaced,
            Ending::Detached => Self::Detached,
        }
    }
}

/// Follows a process until it ends or one of the signals `detach`, which are blocked, comes. Its threads
/// stand still when this begins. `changed` is called whenever functions have been tagged.
pub fn follow(
    tagged: &mut Tagged,
    detach: SigSet,
    mut changed: impl FnMut(&Tagged),
) -> Result<Ending, TagError> {
    let mut waited = detach;
    waited.add(Signal::SIGCHLD);
    if std::mem::take(&mut tagged.is_changed) {
        changed(tagged);
    }
    tagged.let_children_go()?;
    tagged.process.go_on()?;
    loop {
        while let Some(status) = next_event(&mut tagged.process)? {
            if let Some(ending) = hear(tagged, status)? {
                return Ok(ending);
            }
            if std::mem::take(&mut tagged.is_changed) {
                changed(tagged);
            }
        }
        tagged.keep_budget().or_else(|error| tagged.unless_ended(error).map(drop))?;
        let at_most = if tagged.process.heard.is_empty() { TICK } else { Duration::ZERO };
        let signal =
            wait_for(&waited, at_most).map_err(PtraceError::new(tagged.process.pid, "wait"))?;
        if signal.is_some_and(|signal| signal != Signal::SIGCHLD) {
            match tagged.stop() {
                Ok(()) => return Ok(Ending::Detached),
                Err(error) => drop(tagged.unless_ended(error)?),
            }
        }
    }
}

/// The signal that comes first; `None` if none comes so long.
fn wait_for(signals: &SigSet, at_most: Duration) -> nix::Result<Option<Signal>> {
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

/// What has happened to any thread.
fn next_event(process: &mut Process) -> Result<Option<Status>, PtraceError> {
    if !process.heard.is_empty() {
        return Ok(Some(process.heard.remove(0)));
    }
    let pid = process.pid;
    match wait(None, WaitPidFlag::__WALL | WaitPidFlag::__WNOTHREAD | WaitPidFlag::WNOHANG) {
        Ok(Status::StillAlive) => Ok(None),
        Ok(status) => Ok(Some(status)),
        Err(Errno::EINTR) => Ok(None),
        Err(Errno::ECHILD) => Err(PtraceError::Ended(pid)),
        Err(error) => Err(PtraceError::new(pid, "wait")(error)),
    }
}

/// Whatever fails, the thread that it was about still stands.
fn hear(tagged: &mut Tagged, status: Status) -> Result<Option<Ending>, TagError> {
    event(tagged, status).or_else(|error| {
        let threads = &mut tagged.process.threads;
        match status {
            Status::Stopped(thread, signal) => {
                threads.entry(thread).or_insert(Standing::Signal(signal));
            }
            Status::Event(thread, ..) => {
                threads.entry(thread).or_insert(Standing::Free);
            }
            _ => {}
        }
        tagged.unless_ended(error)
    })
}

fn event(tagged: &mut Tagged, status: Status) -> Result<Option<Ending>, TagError> {
    let pid = tagged.process.pid;
    match status {
        Status::Exited(thread, code) => {
            tagged.collector.leave(thread);
            return Ok((thread == pid).then_some(Ending::Exited(code)));
        }
        Status::Signaled(thread, signal) => {
            tagged.collector.leave(thread);
            return Ok((thread == pid).then_some(Ending::Signaled(signal)));
        }
        Status::Event(thread, signal, event) => {
            return ptrace_event(tagged, thread, signal, event);
        }
        Status::Stopped(thread, signal) => stopped(tagged, thread, signal)?,
        Status::Continued | Status::StillAlive => {}
    }
    Ok(None)
}

fn stopped(tagged: &mut Tagged, thread: Pid, signal: SignalNumber) -> Result<(), TagError> {
    if signal == gate::SIGNAL
        && let Some(purpose) = tagged.gate_of(thread)?
    {
        return tagged.pass(thread, purpose);
    }
    Ok(go_on(thread, Some(signal))?)
}

fn ptrace_event(
    tagged: &mut Tagged,
    thread: Pid,
    signal: SignalNumber,
    event: i32,
) -> Result<Option<Ending>, TagError> {
    if let Some(child) = Child::of(thread, event)? {
        let_go(tagged, child)?;
    }
    match event {
        libc::PTRACE_EVENT_EXEC => {
            tagged.process.threads.insert(thread, Standing::InCall);
            return Ok(Some(Ending::Replaced));
        }
        // A thread that begins, or the process was stopped as a shell stops its jobs.
        libc::PTRACE_EVENT_STOP if signal == Signal::SIGTRAP => {
            if !tagged.collector.knows(thread) {
                tagged.enter(thread)?;
            }
            go_on(thread, None)?;
        }
        libc::PTRACE_EVENT_STOP => listen(thread)?,
        _ => go_on(thread, None)?,
    }
    Ok(None)
}

/// Leaves a thread stopped, but hears when it goes on.
fn listen(thread: Pid) -> Result<(), PtraceError> {
    // SAFETY: the request takes no memory.
    let result = unsafe { libc::ptrace(libc::PTRACE_LISTEN, thread.as_raw(), 0, 0) };
    match Errno::result(result) {
        Err(Errno::ESRCH) => Ok(()),
        other => other.map(drop).map_err(PtraceError::new(thread, "leave it stopped")),
    }
}

impl Tagged {
    /// Stops all threads; those that began meanwhile get what tags need, and children are let go.
    pub(super) fn stop(&mut self) -> Result<(), TagError> {
        self.process.stop()?;
        self.has_stopped()
    }

    /// Looks after what has begun while the threads were being stopped.
    pub(super) fn has_stopped(&mut self) -> Result<(), TagError> {
        let threads = self.process.threads.keys().copied();
        let new: Vec<Pid> = threads.filter(|thread| !self.collector.knows(*thread)).collect();
        new.into_iter().try_for_each(|thread| self.enter(thread))?;
        self.let_children_go()
    }

    /// A process may end at any moment: what was to be done with it then is void, and its end is heard
    /// next. Threads that still stand would hide it.
    fn unless_ended(&mut self, error: TagError) -> Result<Option<Ending>, TagError> {
        match error {
            TagError::Ptrace(PtraceError::Ended(_)) => {
                self.process.go_on()?;
                Ok(None)
            }
            error => Err(error),
        }
    }

    /// Lets those children go that began while the process was being stopped.
    pub(super) fn let_children_go(&mut self) -> Result<(), TagError> {
        let children = std::mem::take(&mut self.process.forked);
        children.into_iter().try_for_each(|child| let_go(self, child))
    }
}

/// Lets a child go, without tags; one that still has our process's memory keeps them, and counts for
/// the thread that waits for it.
fn let_go(tagged: &Tagged, Child { pid: child, shares_memory }: Child) -> Result<(), TagError> {
    match wait(Some(child), WaitPidFlag::__WALL) {
        Ok(Status::Event(..) | Status::Stopped(..)) => {}
        _ => return Ok(()),
    }
    if !shares_memory {
        let process = Process::of(child)?;
        patch::restore(&process, &tagged.patched)?;
        tagged
            .gates
            .iter()
            .try_for_each(|gate| patch::restore(&process, std::slice::from_ref(&gate.patched)))?;
        tagged.collector.disown(&process)?;
    }
    match ptrace::detach(child, None) {
        Err(Errno::ESRCH) => Ok(()),
        other => Ok(other.map_err(PtraceError::new(child, "let it go"))?),
    }
}
