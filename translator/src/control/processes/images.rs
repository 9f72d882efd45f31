//! Begins to follow programs: the program of the first process, the programs of new processes, and
//! the programs that processes execute.

use std::sync::Arc;
use std::sync::mpsc::Sender;

use hmtt_probe::control::Ending;
use hmtt_probe::ptrace::{
    Process, PtraceError, Status, StopState, detach, interrupt, listen, resume, share_memory,
    thread_group,
};
use nix::unistd::Pid;

use super::super::Shared;
use super::super::error::ControlError;
use super::super::growth::MappedMemory;
use super::super::tracer::{self, Tracer, program};
use super::super::workers::Workers;
use super::{Followed, Output, Processes, Tracee};
use crate::monitor::Finished;

/// Everything that is needed to follow a stopped process.
pub struct Prepared {
    shared: Arc<Shared>,
    mapped: MappedMemory,
    output: Output,
    workers: Workers,
    /// Channel to the monitor.
    finished: Sender<Finished>,
}

/// The ending of a process, if this event reports it.
fn ending(status: Status) -> Option<Ending> {
    match status {
        Status::Exited(_, code) => Some(Ending::Exited(code)),
        Status::Signaled(_, signal) => Some(Ending::Signaled(signal)),
        _ => None,
    }
}

impl Processes<'_> {
    /// Prepares to follow a process whose threads are stopped.
    pub fn prepare(&mut self, process: &mut Process) -> Result<Prepared, ControlError> {
        process.check_filters()?;
        let near = tracer::check(process)?;
        let output = self.observer.begin(process.pid, &program(process.pid))?;
        let (shared, mapped) = tracer::prepare(process, near, self.options, &self.files)?;
        let sink = self.observer.accesses(process.pid);
        let started = Workers::start(process.pid, &shared, self.options, sink);
        let failed = |source| ControlError::System { operation: "start a thread", source };
        let (workers, finished) = started.map_err(failed)?;
        Ok(Prepared { shared, mapped, output, workers, finished })
    }

    /// Follows a process whose threads are stopped.
    pub fn start(&mut self, mut process: Process, prepared: Prepared) -> Result<(), ControlError> {
        let pid = process.pid;
        let Prepared { shared, mapped, output, workers, finished } = prepared;
        let stopped = std::mem::take(&mut process.threads);
        let tracer = Tracer::new(process, shared, mapped, self.options, finished);
        let output = Some(output);
        let followed = Followed { tracer, workers, output, is_ending: false };
        self.tracees.insert(pid, Tracee::Followed(Box::new(followed)));
        let Some(followed) = self.followed(pid) else { return Ok(()) };
        let outcome = followed.tracer.take_over(stopped);
        // From here on the threads are known with which children may share memory.
        self.release_forked(pid)?;
        self.handled(pid, outcome)
    }

    /// Handles an event of a thread that belongs to no traced process: of a new process, or of a
    /// process that was left before.
    pub fn handle_unknown(&mut self, thread: Pid, status: Status) -> Result<(), ControlError> {
        if let Some(ending) = ending(status) {
            if thread == self.first {
                self.ended = Some(ending);
            }
            return Ok(());
        }
        let is_exit = matches!(status, Status::Event(_, _, libc::PTRACE_EVENT_EXIT));
        let stop_state = StopState::reported(status);
        if is_exit || thread_group(thread) != Some(thread) {
            return Ok(resume(thread, stop_state.signal())?);
        }
        self.add_process(thread, stop_state)
    }

    /// Adds a new process that has not executed an instruction yet.
    fn add_process(&mut self, pid: Pid, state: StopState) -> Result<(), ControlError> {
        match self.sharer(pid) {
            _ if self.is_leaving || !self.options.follow => Ok(detach(pid, state.signal())?),
            Some(beside) => {
                self.tracees.insert(pid, Tracee::Native { beside });
                Ok(resume(pid, state.signal())?)
            }
            None => self.follow_program(pid, state),
        }
    }

    /// The process whose memory a process shares, if there is one. If the kernel does not report
    /// which processes share memory, the first process is assumed.
    fn sharer(&self, pid: Pid) -> Option<Pid> {
        if share_memory(pid, pid).is_none() {
            return Some(self.first);
        }
        let shares = |thread: &Pid| *thread != pid && share_memory(*thread, pid) == Some(true);
        self.tracees.iter().find_map(|(process, tracee)| match tracee {
            // The first thread may have ended before the other threads.
            Tracee::Followed(followed) => {
                followed.tracer.threads.keys().any(shares).then_some(*process)
            }
            Tracee::Native { beside } => shares(process).then_some(*beside),
            Tracee::Executing | Tracee::Released(_) => None,
        })
    }

    /// Follows the program of a process with one thread, which is stopped before an instruction. If
    /// that is not possible, the process continues natively.
    fn follow_program(&mut self, pid: Pid, state: StopState) -> Result<(), ControlError> {
        let path = program(pid);
        let process = Process::from_traced(pid).map_err(ControlError::from);
        let prepared = process.and_then(|mut process| {
            process.risk_policy = self.risk_policy;
            process.threads.insert(pid, state);
            let prepared = self.prepare(&mut process)?;
            Ok((process, prepared))
        });
        let error = match prepared {
            Ok((process, prepared)) => return self.start(process, prepared),
            Err(error) => error,
        };
        let is_over = matches!(error, ControlError::Ptrace(PtraceError::Ended(_)));
        if !is_over {
            self.observer.not_followed(pid, &path, &error);
            if pid == self.first {
                self.ended = Some(Ending::Detached);
            }
        }
        Ok(detach(pid, state.signal())?)
    }

    /// Handles an event of a process that has executed a program.
    pub fn handle_executing(
        &mut self,
        pid: Pid,
        thread: Pid,
        status: Status,
    ) -> Result<(), ControlError> {
        match (status, StopState::reported(status)) {
            (Status::Exited(..) | Status::Signaled(..), _) => self.forget(pid, thread, status),
            (Status::Event(_, _, libc::PTRACE_EVENT_STOP), StopState::GroupStop) => listen(thread)?,
            (Status::Event(_, _, libc::PTRACE_EVENT_STOP), state) => {
                self.tracees.remove(&pid);
                self.follow_program(pid, state)?;
            }
            (_, state) => {
                // Another stop has cancelled the requested stop.
                let _ = interrupt(thread);
                resume(thread, state.signal())?;
            }
        }
        Ok(())
    }

    /// Handles an event of a process that runs natively and shares the memory of another process.
    pub fn handle_native(
        &mut self,
        pid: Pid,
        thread: Pid,
        status: Status,
    ) -> Result<(), ControlError> {
        match (status, StopState::reported(status)) {
            (Status::Exited(..) | Status::Signaled(..), _) => self.forget(pid, thread, status),
            (Status::Event(_, _, libc::PTRACE_EVENT_EXEC), _) if self.is_leaving => {
                self.remove_native(pid);
                detach(pid, None)?;
            }
            (Status::Event(_, _, libc::PTRACE_EVENT_EXEC), _) => self.await_program(pid),
            (Status::Event(_, _, libc::PTRACE_EVENT_STOP), StopState::GroupStop) => listen(thread)?,
            (_, state) => resume(thread, state.signal())?,
        }
        Ok(())
    }

    /// Removes a process that runs natively from the traced processes. It counts as a child of the
    /// process whose memory it shares.
    pub fn remove_native(&mut self, pid: Pid) {
        if let Some(Tracee::Native { beside }) = self.tracees.remove(&pid)
            && let Some(followed) = self.followed(beside)
        {
            followed.tracer.seen.children += 1;
        }
    }

    /// Handles the end of a thread of a process that is not followed. The process ends with its
    /// first thread.
    fn forget(&mut self, pid: Pid, thread: Pid, status: Status) {
        if thread == pid {
            self.remove_native(pid);
        }
        if thread == self.first {
            self.ended = ending(status);
        }
    }
}
