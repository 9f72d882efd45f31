//! Threads that run to threads that stand still.
//!
//! Any stop will do, as the kernel names them (ptrace(2)): a thread that was about to get a signal gets
//! it when it goes on.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::ptrace;
use nix::sys::wait::WaitPidFlag;
use nix::unistd::Pid;

use super::proc::threads;
use super::stand_still::Stopped;
use super::wait::{OPTIONS, go_on, is_running, resume};
use super::{Process, PtraceError, SignalNumber, Standing, Status, obstacle, seccomp, wait};

/// How often, and how long, a process that waits for its child is waited for: a second in all.
const TRIES: usize = 200;
const PAUSE: Duration = Duration::from_millis(5);

/// How often, and for how long, threads are let run: 330 ms in all, longer than any of our code waits.
const PAUSES: u32 = 72;
const LEAST_PAUSE: Duration = Duration::from_micros(80);

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

/// Asks a thread to stand still.
pub(crate) fn interrupt(thread: Pid) -> Result<(), PtraceError> {
    ptrace::interrupt(thread).map_err(PtraceError::new(thread, "stop it"))
}

/// Leaves a thread stopped, but hears when it goes on. One that was killed meanwhile stands where it ends (`EIO`), which
/// is heard next.
pub(crate) fn listen(thread: Pid) -> Result<(), PtraceError> {
    match resume(libc::PTRACE_LISTEN, thread, None) {
        Err(Errno::ESRCH | Errno::EIO) => Ok(()),
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
    /// The same, unless seccomp restrains its system calls: then it is not even stopped. `force`: that is accepted of
    /// filters, which are read whoever they are of: as many as our own process has may still be others.
    ///
    /// # Errors
    /// [`PtraceError`]
    pub fn attach_checked(pid: Pid, force: bool) -> Result<Process, PtraceError> {
        // What cannot be traced at all is said by the attempt.
        if let Ok(Some((thread, mode))) = seccomp::restrained(pid)
            && (!force || mode == seccomp::Mode::Strict)
        {
            return Err(PtraceError::Restrained { pid, thread, mode });
        }
        let mut process = Process::attach(pid)?;
        process.treatment.force = force;
        process.check_filters().map(|()| process)
    }

    /// Traces a running process; all its threads stand still, one of them where it can make a system call
    /// for us: those that wait for a child that has their memory cannot.
    ///
    /// # Errors
    /// [`PtraceError`]
    pub fn attach(pid: Pid) -> Result<Process, PtraceError> {
        if let Some(obstacle) = obstacle(pid) {
            return Err(PtraceError::Refused { pid, obstacle });
        }
        let mut tries = 0;
        loop {
            // Traced first: from then on the number is this process's until it is waited for.
            ptrace::seize(pid, OPTIONS).map_err(|error| PtraceError::refused(pid, error))?;
            let mut process = Process::of(pid)?;
            process.threads.clear();
            let stopped = process.stop();
            tries += 1;
            match process.has_become_another() {
                Some(thread) if tries < TRIES => {
                    process.threads.insert(thread, Standing::InCall);
                }
                _ => stopped?,
            }
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
    ///
    /// # Errors
    /// [`PtraceError::Ended`] if it has ended, or become another program, which whoever follows it hears.
    pub fn stop(&mut self) -> Result<(), PtraceError> {
        self.stop_beside(BTreeMap::new(), &BTreeSet::new())
    }

    /// Stops all threads beside those that stand still already, and `others`, which are threads of other
    /// processes with the same memory.
    ///
    /// # Errors
    /// As [`Process::stop`].
    pub(crate) fn stop_beside(
        &mut self,
        standing: BTreeMap<Pid, Standing>,
        others: &BTreeSet<Pid>,
    ) -> Result<(), PtraceError> {
        self.threads = standing;
        self.stop_rest(others)
    }

    /// Stops all threads that do not stand still already.
    ///
    /// # Errors
    /// As [`Process::stop`].
    pub fn stop_others(&mut self) -> Result<(), PtraceError> {
        self.stop_rest(&BTreeSet::new())
    }

    fn stop_rest(&mut self, others: &BTreeSet<Pid>) -> Result<(), PtraceError> {
        for status in self.heard.extract_if(.., |status| matches!(status, Status::Stopped(..))) {
            if let Status::Stopped(thread, signal) = status {
                self.threads.insert(thread, Standing::Signal(signal));
            }
        }
        let mut seen: BTreeSet<Pid> = self.threads.keys().copied().collect();
        loop {
            let all = &threads(self.pid)? | others;
            let new: Vec<Pid> = all.difference(&seen).copied().collect();
            if new.is_empty() {
                break;
            }
            for thread in new {
                seen.insert(thread);
                match self.stand_still(thread, others)? {
                    Stopped::Stands(standing) => {
                        self.threads.insert(thread, standing);
                        if standing.signal().is_none() {
                            seccomp::spare_restart(thread, self.treatment.known_filters)?;
                        }
                    }
                    Stopped::Heard(status) => self.heard.push(status),
                    Stopped::Ended => {}
                }
            }
        }
        if self.threads.is_empty() || self.has_become_another().is_some() {
            return Err(PtraceError::Ended(self.pid));
        }
        Ok(())
    }

    /// The thread that stands where it has become another program.
    fn has_become_another(&self) -> Option<Pid> {
        self.heard.iter().find_map(|status| match status {
            Status::Event(thread, _, libc::PTRACE_EVENT_EXEC) if *thread == self.pid => {
                Some(*thread)
            }
            _ => None,
        })
    }

    /// Lets all threads go on, traced. Those that are about to get a signal stand until whoever follows the
    /// process has heard of it.
    pub fn go_on(&mut self) -> Result<(), PtraceError> {
        for (thread, standing) in std::mem::take(&mut self.threads) {
            match standing {
                Standing::Signal(signal) => self.heard.push(Status::Stopped(thread, signal)),
                // It stays so until it is continued as its process is.
                Standing::Halted if listen(thread).is_ok() => {}
                _ => go_on(thread, None)?,
            }
        }
        Ok(())
    }

    /// Registers of those threads that work, each stopped for a moment; those that are about to get a signal then
    /// stand until whoever follows the process has heard of it.
    ///
    /// # Errors
    /// [`PtraceError`]
    pub(crate) fn glance(&mut self) -> Result<Vec<libc::user_regs_struct>, PtraceError> {
        let mut seen = Vec::new();
        for thread in threads(self.pid)?.into_iter().filter(|thread| is_running(*thread)) {
            match self.stand_still(thread, &BTreeSet::new())? {
                Stopped::Stands(standing) => {
                    self.threads.insert(thread, standing);
                    seen.push(self.registers(thread)?);
                    self.go_on()?;
                }
                Stopped::Heard(status) => self.heard.push(status),
                Stopped::Ended => {}
            }
        }
        Ok(seen)
    }

    /// Lets threads run that stand inside until they stand outside; whether they do. They are let go and
    /// stopped again: a step, instruction by instruction, ends in a signal that ends the program if we die then.
    ///
    /// # Errors
    /// As [`Process::stop`].
    pub fn run_out(&mut self, inside: impl Fn(u64) -> bool) -> Result<bool, PtraceError> {
        for pause in 0..PAUSES {
            let mut within = Vec::new();
            for (thread, standing) in &self.threads {
                if inside(self.registers(*thread)?.rip) {
                    within.push((*thread, *standing));
                }
            }
            if within.is_empty() {
                return Ok(true);
            }
            // A handler would come back to where the thread is.
            if within.iter().any(|(_, standing)| *standing != Standing::Free) {
                return Ok(false);
            }
            for (thread, _) in &within {
                self.threads.remove(thread);
                go_on(*thread, None)?;
            }
            std::thread::sleep(LEAST_PAUSE * (1 << (pause / 8)));
            self.stop_rest(&within.into_iter().map(|(thread, _)| thread).collect())?;
        }
        Ok(false)
    }

    /// Lets all threads go on, traced no more.
    pub fn detach(self) -> Result<(), PtraceError> {
        let mut threads = self.threads.into_iter();
        threads.try_for_each(|(thread, standing)| detach(thread, standing.signal()))
    }
}
