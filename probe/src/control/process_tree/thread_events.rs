//! Handles what a thread of a tracee reports: signals, stops, its end, and programs that it
//! executes.

use std::collections::BTreeMap;

use nix::sys::signal::Signal;
use nix::unistd::Pid;

use super::super::ending::Ending;
use super::super::signal_frames::Delivered;
use super::super::{TagError, Tagged};
use super::{ProcessTree, Tracee};
use crate::ptrace::{Child, SignalNumber, Status, StopState, listen, resume, thread_group};

impl ProcessTree<'_> {
    pub(super) fn handle_status(
        &mut self,
        pid: Pid,
        thread: Pid,
        status: Status,
    ) -> Result<(), TagError> {
        match status {
            Status::Exited(_, code) => self.handle_end(pid, thread, Ending::Exited(code)),
            Status::Signaled(_, signal) => self.handle_end(pid, thread, Ending::Signaled(signal)),
            Status::Stopped(_, signal) => self.handle_signal(pid, thread, signal),
            Status::Event(_, _, libc::PTRACE_EVENT_EXEC) => self.handle_exec(pid, thread),
            Status::Event(_, _, libc::PTRACE_EVENT_EXIT) => self.handle_exit_stop(pid, thread),
            // The thread is new, or a job-control signal has stopped the process.
            Status::Event(_, signal, libc::PTRACE_EVENT_STOP) if signal == Signal::SIGTRAP => {
                self.handle_stop(pid, thread)
            }
            Status::Event(_, _, libc::PTRACE_EVENT_STOP) => Ok(listen(thread)?),
            Status::Event(_, _, event) => {
                if let Some(child) = Child::from_event(thread, event)? {
                    self.add_child(pid, child)?;
                }
                let waits = |tagged: &mut Tagged| {
                    tagged.memory_sharers.values().any(|sharer| *sharer == Some(thread))
                };
                if self.tagged(pid).is_some_and(waits) {
                    Ok(())
                } else if self.tagged(pid).is_some_and(|tagged| tagged.is_gs_taken_by(thread)) {
                    self.while_stopped(pid, Some(thread), |_| Ok(()))
                } else {
                    Ok(resume(thread, None)?)
                }
            }
            Status::Continued | Status::StillAlive => Ok(()),
        }
    }

    fn handle_signal(
        &mut self,
        pid: Pid,
        thread: Pid,
        signal: SignalNumber,
    ) -> Result<(), TagError> {
        let Some(tagged) = self.tagged(pid) else { return Ok(resume(thread, Some(signal))?) };
        let at_event = tagged.process.thread_at_event(thread);
        let registers = at_event.registers()?;
        tagged.process.avoid_restart_syscall(thread, signal, &registers)?;
        if tagged.handle_own_signal(thread, signal, registers)? {
            return if tagged.has_conflict() {
                self.while_stopped(pid, Some(thread), |_| Ok(()))
            } else {
                Ok(resume(thread, None)?)
            };
        }
        if tagged.is_gs_taken(thread, &registers) {
            tagged.tags.finish_tag(tagged.process.thread_at_event(thread), registers)?;
            // The signal is handled again after the tags were removed from the process.
            self.pending.push_front(Status::Stopped(thread, signal));
            return self.while_stopped(pid, None, |_| Ok(()));
        }
        match tagged.deliver(thread, signal, registers)? {
            Delivered::Complete => Ok(()),
            Delivered::OtherEvent(Status::Event(_, _, libc::PTRACE_EVENT_EXIT)) => {
                self.handle_exit_stop(pid, thread)
            }
            Delivered::OtherEvent(status) => {
                self.pending.push_back(status);
                Ok(())
            }
            Delivered::UnknownRestorer { is_fault } => {
                self.while_stopped(pid, Some(thread), |tagged| {
                    tagged.change(|tags, process| tags.find_restorer(process, thread, is_fault))
                })
            }
        }
    }

    /// Handles a stop of a thread that is new, or whose stop was requested.
    fn handle_stop(&mut self, pid: Pid, thread: Pid) -> Result<(), TagError> {
        match self.tracees.get_mut(&pid) {
            Some(Tracee::Executing) => return self.tag_again(pid),
            Some(Tracee::Tagged(tagged))
                if !tagged.tags.collector.has_thread(thread)
                    && !tagged.memory_sharers.contains_key(&thread) =>
            {
                tagged.add_thread(thread)?;
                if thread_group(thread) != Some(pid) {
                    tagged.memory_sharers.insert(thread, None);
                }
            }
            _ => {}
        }
        Ok(resume(thread, None)?)
    }

    /// Handles a thread that is stopped at its end. It is resumed before other threads are stopped,
    /// because they may wait for its end.
    fn handle_exit_stop(&mut self, pid: Pid, thread: Pid) -> Result<(), TagError> {
        let Some(tagged) = self.tagged(pid) else { return Ok(resume(thread, None)?) };
        tagged.check_gs_at_exit(thread);
        let gs_taken = tagged.any_gs_taken();
        resume(thread, None)?;
        if gs_taken {
            return self.while_stopped(pid, None, |_| Ok(()));
        }
        Ok(())
    }

    /// Handles the end of a thread.
    fn handle_end(&mut self, pid: Pid, thread: Pid, ending: Ending) -> Result<(), TagError> {
        self.threads.remove(&thread);
        if thread == pid {
            self.end(pid, ending);
            return Ok(());
        }
        self.release(pid, thread)
    }

    /// Removes a thread from its tracee. If a parent thread waits for this, it continues.
    fn release(&mut self, pid: Pid, thread: Pid) -> Result<(), TagError> {
        let Some(tagged) = self.tagged(pid) else { return Ok(()) };
        match tagged.memory_sharer_left(thread) {
            // A stopped tracee resumes the parent thread together with its other threads.
            Some(waiting) if tagged.process.threads.is_empty() => Ok(resume(waiting, None)?),
            _ => Ok(()),
        }
    }

    /// Handles a process that has executed another program.
    fn handle_exec(&mut self, pid: Pid, thread: Pid) -> Result<(), TagError> {
        if thread != pid {
            self.release(pid, thread)?;
            if self.start.is_none() {
                self.threads.remove(&thread);
                return Ok(crate::ptrace::detach(thread, None)?);
            }
        } else {
            if let Some(tagged) = self.tagged(pid) {
                tagged.process.threads = BTreeMap::from([(pid, StopState::InSyscall)]);
            }
            self.end(pid, Ending::Replaced);
            if self.start.is_none() {
                return Ok(());
            }
        }
        self.tracees.insert(thread, Tracee::Executing);
        self.threads.insert(thread, thread);
        // The thread is still in `execve`, which sets its registers when it returns.
        crate::ptrace::interrupt(thread)?;
        Ok(resume(thread, None)?)
    }
}
