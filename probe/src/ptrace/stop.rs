//! Stops, resumes and detaches all threads of a process.
//!
//! A thread may be stopped in any of the ways of ptrace(2). A pending signal is delivered when the
//! thread is resumed.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::ptrace;
use nix::sys::wait::WaitPidFlag;
use nix::unistd::Pid;

use super::interrupted_call::is_to_stop_again;
use super::proc::threads;
use super::stop_thread::{MayStay, StopOutcome, continue_to_stop};
use super::wait::{OPTIONS, is_running, restart_thread, resume, wait_for_stop};
use super::{
    Process, PtraceError, RiskPolicy, SignalNumber, Status, StopState, Stopped, live_thread,
    obstacle, seccomp, wait,
};
use crate::address::RunAddr;

/// Number and length of the waits of an attachment for a process that is blocked by a child: one
/// second in all.
const TRIES: usize = 200;
const PAUSE: Duration = Duration::from_millis(5);

/// Number of times that threads are resumed to leave code, and the shortest time for which they
/// run. All times together are 330 ms, longer than any wait in the stubs.
const PAUSES: u32 = 72;
const LEAST_PAUSE: Duration = Duration::from_micros(80);

/// Result of an attachment.
#[derive(Debug)]
pub enum Attached {
    /// The process is stopped.
    Stopped(Box<Process>),
    /// The process has ended meanwhile, with this status or by this signal.
    Ended(Result<i32, SignalNumber>),
}

impl Attached {
    /// The process, or an error if it has ended. `pid`: number of the process.
    fn stopped_process(self, pid: Pid) -> Result<Process, PtraceError> {
        match self {
            Attached::Stopped(process) => Ok(*process),
            Attached::Ended(_) => Err(PtraceError::Ended(pid)),
        }
    }
}

/// Waits until a child has executed its program.
///
/// # Errors
/// [`PtraceError::Ended`] if the child ends before.
pub(super) fn wait_for_exec(child: Pid) -> Result<(), PtraceError> {
    loop {
        match wait(Some(child), WaitPidFlag::__WALL).map_err(PtraceError::new(child, "wait"))? {
            // The thread is still within the call. The call sets the registers when it returns.
            Status::Event(_, _, libc::PTRACE_EVENT_EXEC) => {
                ptrace::interrupt(child).map_err(PtraceError::new(child, "stop it"))?;
                resume(child, None)?;
            }
            Status::Event(_, _, libc::PTRACE_EVENT_STOP) => return Ok(()),
            Status::Exited(..) | Status::Signaled(..) => {
                return Err(PtraceError::Ended(child));
            }
            Status::Stopped(_, signal) => resume(child, Some(signal))?,
            _ => resume(child, None)?,
        }
    }
}

/// Requests that a thread stops.
///
/// # Errors
/// [`PtraceError`] if the kernel refuses, or if the thread or process has ended.
pub fn interrupt(thread: Pid) -> Result<(), PtraceError> {
    ptrace::interrupt(thread).map_err(PtraceError::new(thread, "stop it"))
}

/// Leaves a thread in its group-stop, but keeps waiting for its events. A thread that was killed
/// meanwhile is at its exit event (`EIO`), which is reported next.
///
/// # Errors
/// [`PtraceError::System`] if the kernel refuses.
pub fn listen(thread: Pid) -> Result<(), PtraceError> {
    match restart_thread(libc::PTRACE_LISTEN, thread, None) {
        Err(Errno::ESRCH | Errno::EIO) => Ok(()),
        other => other.map_err(PtraceError::new(thread, "leave it stopped")),
    }
}

/// Detaches and resumes a stopped thread; ignored if the thread has ended.
///
/// # Errors
/// [`PtraceError::System`] if the kernel refuses.
pub fn detach(thread: Pid, signal: Option<SignalNumber>) -> Result<(), PtraceError> {
    match restart_thread(libc::PTRACE_DETACH, thread, signal) {
        Err(Errno::ESRCH) => Ok(()),
        other => other.map_err(PtraceError::new(thread, "let it go")),
    }
}

impl Process {
    /// Like [`Process::attach`], but a process whose system calls seccomp restricts is not even
    /// stopped. `force`: filters are accepted. They are read in any case: even if their number
    /// equals the number of this program's filters, they may be different ones.
    ///
    /// # Errors
    /// [`PtraceError`] if the process cannot be traced or stopped.
    pub fn attach_checked(pid: Pid, force: bool) -> Result<Process, PtraceError> {
        let risk_policy = RiskPolicy { force, ..RiskPolicy::default() };
        Process::attach_again(pid, risk_policy)?.stopped_process(pid)
    }

    /// Like [`Process::attach_checked`], for a process that was traced before, with the risks that
    /// were accepted then. Seccomp filters that the process has inherited from this program are
    /// accepted.
    ///
    /// # Errors
    /// [`PtraceError`] if the process cannot be traced or stopped.
    pub fn attach_again(pid: Pid, risk_policy: RiskPolicy) -> Result<Attached, PtraceError> {
        // If the process cannot be traced at all, the attachment below reports the reason.
        risk_policy.check_filters(pid).or_else(|error| match error {
            PtraceError::Ended(_) => Ok(()),
            error => Err(error),
        })?;
        let mut attached = Process::attach_or_end(pid)?;
        if let Attached::Stopped(process) = &mut attached {
            process.risk_policy = risk_policy;
            process.check_filters()?;
        }
        Ok(attached)
    }

    /// Attaches to a running process and stops all its threads. At least one thread must stop where
    /// it can make a system call; threads that are blocked by a child that shares their memory
    /// cannot.
    ///
    /// # Errors
    /// [`PtraceError`] if the process cannot be traced or stopped.
    pub fn attach(pid: Pid) -> Result<Process, PtraceError> {
        Process::attach_or_end(pid)?.stopped_process(pid)
    }

    /// Like [`Process::attach`]. If the process ends meanwhile, the result has its status, because
    /// a tracer that is the process's parent cannot wait for it again.
    fn attach_or_end(pid: Pid) -> Result<Attached, PtraceError> {
        if let Some(obstacle) = obstacle(pid) {
            return Err(PtraceError::Refused { pid, obstacle });
        }
        let mut tries = 0;
        loop {
            // Attaching comes first: from then on the number belongs to this process until it is
            // waited for.
            let seized = ptrace::seize(live_thread(pid), OPTIONS);
            seized.map_err(|error| PtraceError::refused(pid, error))?;
            let mut process = Process::from_traced(pid)?;
            process.threads.clear();
            let stopped = process.stop();
            let stopped = stopped.and_then(|mut stopped| stopped.enter_handlers(|_| false));
            tries += 1;
            match process.executed_thread() {
                Some(thread) if tries < TRIES => {
                    process.threads.insert(thread, StopState::InSyscall);
                }
                _ => match (stopped, process.end_status()) {
                    (Err(PtraceError::Ended(_)), Some(status)) => {
                        return Ok(Attached::Ended(status));
                    }
                    (Err(error), _) => {
                        process.release();
                        return Err(error);
                    }
                    (Ok(()), _) => {}
                },
            }
            if process.can_call() || tries == TRIES {
                return Ok(Attached::Stopped(Box::new(process)));
            }
            for child in std::mem::take(&mut process.forked) {
                // The child soon is at its first stop, or it has ended.
                let _ = wait_for_stop(child.pid);
                let _ = detach(child.pid, None);
            }
            process.detach()?;
            std::thread::sleep(PAUSE);
        }
    }

    /// Stops all threads. A thread may start others until it is stopped itself, so the search is
    /// repeated until no new threads are found.
    ///
    /// # Errors
    /// [`PtraceError::Ended`] if the process has ended, or has executed another program; the event
    /// is in `queued_events`.
    pub fn stop(&mut self) -> Result<Stopped<'_>, PtraceError> {
        self.stop_all_but(BTreeMap::new(), &BTreeSet::new())
    }

    /// Stops all threads. `state`: threads that are already stopped.
    ///
    /// # Errors
    /// As [`Process::stop`].
    pub fn stop_beside(
        &mut self,
        state: BTreeMap<Pid, StopState>,
    ) -> Result<Stopped<'_>, PtraceError> {
        self.stop_all_but(state, &BTreeSet::new())
    }

    /// Stops all threads. `state`: threads that are already stopped. `others`: threads of other
    /// processes that share the memory; they are not stopped.
    ///
    /// # Errors
    /// As [`Process::stop`].
    pub(crate) fn stop_all_but(
        &mut self,
        state: BTreeMap<Pid, StopState>,
        others: &BTreeSet<Pid>,
    ) -> Result<Stopped<'_>, PtraceError> {
        self.threads = state;
        self.stop_rest(others)?;
        self.stopped()
    }

    /// Stops all threads that are not stopped already.
    ///
    /// # Errors
    /// As [`Process::stop`].
    pub fn stop_others(&mut self) -> Result<Stopped<'_>, PtraceError> {
        self.stop_rest(&BTreeSet::new())?;
        self.stopped()
    }

    fn stop_rest(&mut self, others: &BTreeSet<Pid>) -> Result<(), PtraceError> {
        // Threads may have run since, so signal frames are searched for again.
        self.signal_frames.get_mut().forget_frames();
        for status in
            self.queued_events.extract_if(.., |status| matches!(status, Status::Stopped(..)))
        {
            if let Status::Stopped(thread, signal) = status {
                // The thread is stopped again below.
                if is_to_stop_again(status) {
                    continue_to_stop(thread)?;
                    continue;
                }
                self.threads.insert(thread, StopState::PendingSignal(signal));
            }
        }
        let mut seen: BTreeSet<Pid> = self.threads.keys().chain(&self.unstopped).copied().collect();
        loop {
            let thread_set = &threads(self.pid)? | others;
            let new: Vec<Pid> = thread_set.difference(&seen).copied().collect();
            if new.is_empty() {
                break;
            }
            for thread in new {
                seen.insert(thread);
                match self.stop_thread(thread, others)? {
                    StopOutcome::Stopped(state) => {
                        self.threads.insert(thread, state);
                        if state.signal().is_none() {
                            seccomp::avoid_restart_syscall(thread, self.risk_policy.known_filters)?;
                        }
                    }
                    StopOutcome::Event(status) => self.queued_events.push(status),
                    StopOutcome::Unstopped if self.may_stay == MayStay::None => {
                        return Err(PtraceError::Unstopped(thread));
                    }
                    StopOutcome::Unstopped => drop(self.unstopped.insert(thread)),
                    StopOutcome::Ended => {}
                }
            }
        }
        if let (true, Some(thread)) = (self.threads.is_empty(), self.unstopped.first()) {
            return Err(PtraceError::Unstopped(*thread));
        }
        if self.threads.is_empty() || self.executed_thread().is_some() {
            return Err(PtraceError::Ended(self.pid));
        }
        self.abort_sequences()
    }

    /// Moves all stopped threads out of restartable sequences.
    fn abort_sequences(&self) -> Result<(), PtraceError> {
        self.threads.keys().try_for_each(|thread| match self.abort_sequence(*thread) {
            // A thread that was killed while it was stopped need not be moved.
            Err(PtraceError::Ended(_)) => Ok(()),
            other => other,
        })
    }

    /// The exit status of the process, or the signal that has ended it. `None` unless the end was
    /// reported while threads were being stopped.
    fn end_status(&self) -> Option<Result<i32, SignalNumber>> {
        self.queued_events.iter().find_map(|status| match *status {
            Status::Exited(thread, code) if thread == self.pid => Some(Ok(code)),
            Status::Signaled(thread, signal) if thread == self.pid => Some(Err(signal)),
            _ => None,
        })
    }

    /// The thread that is stopped because it has executed another program; `None` if there is none.
    fn executed_thread(&self) -> Option<Pid> {
        self.queued_events.iter().find_map(|status| match status {
            Status::Event(thread, _, libc::PTRACE_EVENT_EXEC) if *thread == self.pid => {
                Some(*thread)
            }
            _ => None,
        })
    }

    /// Resumes all threads and keeps tracing them. A thread with a pending signal stays stopped,
    /// and the signal is queued as an event.
    ///
    /// # Errors
    /// [`PtraceError::System`] if the kernel refuses.
    pub fn resume(&mut self) -> Result<(), PtraceError> {
        self.signal_frames.take();
        for (thread, state) in std::mem::take(&mut self.threads) {
            match state {
                StopState::PendingSignal(signal) => {
                    self.queued_events.push(Status::Stopped(thread, signal))
                }
                // The thread stays stopped until its process gets `SIGCONT`.
                StopState::GroupStop if listen(thread).is_ok() => {}
                _ => resume(thread, None)?,
            }
        }
        Ok(())
    }

    /// Reads the registers of all running threads. Each thread is stopped for a moment. A thread
    /// with a pending signal stays stopped, and the signal is queued as an event.
    ///
    /// # Errors
    /// [`PtraceError`] if a thread cannot be stopped or read.
    pub(crate) fn sample_registers(&mut self) -> Result<Vec<libc::user_regs_struct>, PtraceError> {
        let mut seen = Vec::new();
        for thread in threads(self.pid)?.into_iter().filter(|thread| is_running(*thread)) {
            match self.stop_thread(thread, &BTreeSet::new())? {
                StopOutcome::Stopped(state) => {
                    self.threads.insert(thread, state);
                    seen.push(self.thread_at_event(thread).registers()?);
                    self.resume()?;
                }
                StopOutcome::Event(status) => self.queued_events.push(status),
                StopOutcome::Unstopped => return Err(PtraceError::Unstopped(thread)),
                StopOutcome::Ended => {}
            }
        }
        Ok(seen)
    }

    /// Resumes all threads and stops tracing them.
    ///
    /// # Errors
    /// [`PtraceError::System`] if the kernel refuses.
    pub fn detach(mut self) -> Result<(), PtraceError> {
        self.detach_threads()
    }

    /// Like [`detach`](Self::detach), but keeps the information about the process.
    ///
    /// # Errors
    /// As [`detach`](Self::detach).
    pub fn detach_threads(&mut self) -> Result<(), PtraceError> {
        let mut threads = std::mem::take(&mut self.threads).into_iter();
        threads.try_for_each(|(thread, state)| detach(thread, state.signal()))
    }

    /// Resumes all stopped threads after an error, and children that they have started, and stops
    /// tracing them.
    pub fn release(&mut self) {
        for child in std::mem::take(&mut self.forked) {
            // The child soon is at its first stop, or it has ended.
            let _ = wait_for_stop(child.pid);
            let _ = detach(child.pid, None);
        }
        for (thread, state) in std::mem::take(&mut self.threads) {
            let _ = detach(thread, state.signal());
        }
    }
}

impl Stopped<'_> {
    /// Resumes threads whose instruction pointer is `inside`, and stops them again, until all are
    /// outside. Returns whether all are outside. Single steps are not used, because their signal
    /// ends the program if the tracer dies.
    ///
    /// # Errors
    /// As [`Process::stop`].
    pub fn run_until_outside(
        &mut self,
        inside: impl Fn(RunAddr) -> bool,
    ) -> Result<bool, PtraceError> {
        for pause in 0..PAUSES {
            let mut within = Vec::new();
            for (thread, state) in &self.threads {
                if inside(RunAddr(self.registers(*thread)?.rip)) {
                    within.push((*thread, *state));
                }
            }
            if within.is_empty() {
                return Ok(true);
            }
            // A signal handler would return to the thread's current address.
            if within.iter().any(|(_, state)| *state != StopState::AtInstruction) {
                return Ok(false);
            }
            for (thread, _) in &within {
                self.process.threads.remove(thread);
                resume(*thread, None)?;
            }
            std::thread::sleep(LEAST_PAUSE * (1 << (pause / 8)));
            self.process.stop_rest(&within.into_iter().map(|(thread, _)| thread).collect())?;
        }
        Ok(false)
    }
}
