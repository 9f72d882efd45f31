//! Threads that run to threads that stand still.
//!
//! Any stop will do, as the kernel names them (ptrace(2)): a thread that was about to get a signal gets
//! it when it goes on.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::ptrace::{self, Options};
use nix::sys::wait::WaitPidFlag;
use nix::unistd::Pid;

use super::wait::resume;
use super::{Child, Process, PtraceError, SignalNumber, Standing, Status, is_zombie, wait};

/// What the kernel tells us of.
pub(super) const OPTIONS: Options = Options::PTRACE_O_TRACECLONE
    .union(Options::PTRACE_O_TRACEFORK)
    .union(Options::PTRACE_O_TRACEVFORK)
    .union(Options::PTRACE_O_TRACEEXEC);

/// How often, and how long, a process that waits for its child is waited for: a second in all.
const TRIES: usize = 200;
const PAUSE: Duration = Duration::from_millis(5);
/// How often a thread is looked at that is about to stand still, and how long it is then left before each look.
const SPINS: usize = 20;
const MOMENT: Duration = Duration::from_micros(50);

/// Waits until a child has become its program.
pub(super) fn wait_for_exec(child: Pid) -> Result<(), PtraceError> {
    loop {
        match wait(Some(child), WaitPidFlag::__WALL).map_err(PtraceError::new(child, "wait"))? {
            // Still within the call, which sets registers when it returns.
            Status::Event(_, _, libc::PTRACE_EVENT_EXEC) => {
                ptrace::interrupt(child).map_err(PtraceError::new(child, "stop it"))?;
                go_on(child, None)?;
            }
            Status::Event(_, _, libc::PTRACE_EVENT_STOP) => return Ok(()),
            Status::Exited(..) | Status::Signaled(..) => {
                return Err(PtraceError::Ended(child));
            }
            Status::Stopped(_, signal) => go_on(child, Some(signal))?,
            _ => go_on(child, None)?,
        }
    }
}

/// The threads of a process, as far as they have not ended.
fn threads(pid: Pid) -> Result<BTreeSet<Pid>, PtraceError> {
    let entries = std::fs::read_dir(format!("/proc/{pid}/task"));
    let entries = entries.map_err(|_| PtraceError::Ended(pid))?;
    let number = |entry: std::fs::DirEntry| entry.file_name().to_str()?.parse().ok();
    Ok(entries.flatten().filter_map(number).map(Pid::from_raw).collect())
}

/// Lets a thread go on; one that is no more has gone.
pub(crate) fn go_on(thread: Pid, signal: Option<SignalNumber>) -> Result<(), PtraceError> {
    match resume(libc::PTRACE_CONT, thread, signal) {
        Err(Errno::ESRCH) => Ok(()),
        other => other.map_err(PtraceError::new(thread, "continue")),
    }
}

/// Asks a thread to stand still.
pub(crate) fn interrupt(thread: Pid) -> Result<(), PtraceError> {
    ptrace::interrupt(thread).map_err(PtraceError::new(thread, "stop it"))
}

/// Leaves a thread stopped, but hears when it goes on.
pub(crate) fn listen(thread: Pid) -> Result<(), PtraceError> {
    match resume(libc::PTRACE_LISTEN, thread, None) {
        Err(Errno::ESRCH) => Ok(()),
        other => other.map_err(PtraceError::new(thread, "leave it stopped")),
    }
}

/// Lets a thread that stands still go on, traced no more; one that is no more has gone.
pub(crate) fn detach(thread: Pid, signal: Option<SignalNumber>) -> Result<(), PtraceError> {
    match resume(libc::PTRACE_DETACH, thread, signal) {
        Err(Errno::ESRCH) => Ok(()),
        other => other.map_err(PtraceError::new(thread, "let it go")),
    }
}

impl Process {
    /// Traces a running process; all its threads stand still, one of them where it can make a system call
    /// for us: those that wait for a child that has their memory cannot.
    ///
    /// # Errors
    /// [`PtraceError`]
    pub fn attach(pid: Pid) -> Result<Process, PtraceError> {
        let mut tries = 0;
        loop {
            let mut process = Process::of(pid)?;
            process.threads.clear();
            ptrace::seize(pid, OPTIONS).map_err(PtraceError::new(pid, "trace it"))?;
            process.stop()?;
            tries += 1;
            if process.can_call() || tries == TRIES {
                return Ok(process);
            }
            for child in std::mem::take(&mut process.forked) {
                // It stands still as soon as it begins, or has ended.
                let _ = wait(Some(child.pid), WaitPidFlag::__WALL);
                let _ = ptrace::detach(child.pid, None);
            }
            process.detach()?;
            std::thread::sleep(PAUSE);
        }
    }

    /// Stops all threads. Each may start others until it stands still itself, so they are looked for
    /// until there are no new ones.
    pub fn stop(&mut self) -> Result<(), PtraceError> {
        self.stop_beside(BTreeMap::new(), &BTreeSet::new())
    }

    /// Stops all threads beside those that stand still already, and `others`, which are threads of other
    /// processes with the same memory.
    pub(crate) fn stop_beside(
        &mut self,
        standing: BTreeMap<Pid, Standing>,
        others: &BTreeSet<Pid>,
    ) -> Result<(), PtraceError> {
        let mut seen: BTreeSet<Pid> = standing.keys().copied().collect();
        self.threads = standing;
        loop {
            let all = &threads(self.pid)? | others;
            let new: Vec<Pid> = all.difference(&seen).copied().collect();
            if new.is_empty() {
                break;
            }
            for thread in new {
                seen.insert(thread);
                match stand_still(thread, &mut self.forked)? {
                    Stopped::Stands(standing) => drop(self.threads.insert(thread, standing)),
                    Stopped::Heard(status) => self.heard.push(status),
                    Stopped::Ended => {}
                }
            }
        }
        if self.threads.is_empty() { Err(PtraceError::Ended(self.pid)) } else { Ok(()) }
    }

    /// Lets all threads go on, traced. Those that are about to get a signal stand until whoever follows the
    /// process has heard of it.
    pub fn go_on(&mut self) -> Result<(), PtraceError> {
        for (thread, standing) in std::mem::take(&mut self.threads) {
            match standing {
                Standing::Signal(signal) => self.heard.push(Status::Stopped(thread, signal)),
                _ => go_on(thread, None)?,
            }
        }
        Ok(())
    }

    /// Lets all threads go on, traced no more.
    pub fn detach(self) -> Result<(), PtraceError> {
        let mut threads = self.threads.into_iter();
        threads.try_for_each(|(thread, standing)| detach(thread, standing.signal()))
    }
}

/// Waits for a thread. The end of a process's first thread is told when the others are gone, which may wait
/// for us: it is not waited for.
fn wait_unless_zombie(thread: Pid) -> nix::Result<Status> {
    let mut tries = 0;
    loop {
        match wait(Some(thread), WaitPidFlag::__WALL | WaitPidFlag::WNOHANG) {
            Ok(Status::StillAlive) if tries < SPINS => std::thread::yield_now(),
            Ok(Status::StillAlive) if is_zombie(thread) => return Err(Errno::ECHILD),
            Ok(Status::StillAlive) => std::thread::sleep(MOMENT),
            other => return other,
        }
        tries += 1;
    }
}

/// What became of a thread that was to stand still.
enum Stopped {
    Stands(Standing),
    /// It has ended, or stands still as another program.
    Heard(Status),
    /// There is none, and nobody tells what became of it.
    Ended,
}

/// Stops a thread, which is traced from here on if it was not. Children that it forks meanwhile are added to
/// `forked`.
fn stand_still(thread: Pid, forked: &mut Vec<Child>) -> Result<Stopped, PtraceError> {
    match ptrace::seize(thread, OPTIONS) {
        // Traced already, by us: nobody else can have been before us at the whole process.
        Ok(()) | Err(Errno::EPERM) => {}
        Err(Errno::ESRCH) => return Ok(Stopped::Ended),
        Err(error) => return Err(PtraceError::new(thread, "trace it")(error)),
    }
    match ptrace::interrupt(thread) {
        Err(Errno::ESRCH) => return Ok(Stopped::Ended),
        other => other.map_err(PtraceError::new(thread, "stop it"))?,
    }
    loop {
        match wait_unless_zombie(thread) {
            Ok(status @ Status::Event(_, _, libc::PTRACE_EVENT_EXEC)) => {
                return Ok(Stopped::Heard(status));
            }
            Ok(Status::Event(_, _, event)) => {
                forked.extend(Child::of(thread, event)?);
                match event {
                    libc::PTRACE_EVENT_STOP => return Ok(Stopped::Stands(Standing::Free)),
                    // It waits for its child, which waits for us.
                    libc::PTRACE_EVENT_VFORK => return Ok(Stopped::Stands(Standing::InCall)),
                    // It has not heard yet that it is to stop: any event makes it forget.
                    _ => {
                        interrupt(thread)?;
                        go_on(thread, None)?;
                    }
                }
            }
            Ok(Status::Stopped(_, signal)) => {
                return Ok(Stopped::Stands(Standing::Signal(signal)));
            }
            Ok(status @ (Status::Exited(..) | Status::Signaled(..))) => {
                return Ok(Stopped::Heard(status));
            }
            Err(Errno::ECHILD | Errno::ESRCH) => return Ok(Stopped::Ended),
            Err(Errno::EINTR) => {}
            Err(error) => return Err(PtraceError::new(thread, "wait")(error)),
            Ok(_) => go_on(thread, None)?,
        }
    }
}
