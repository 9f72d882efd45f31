//! Handles the events that a thread of the process reports: system calls, stops, new threads and
//! children, the end of the thread.

use std::sync::atomic::Ordering;

use hmtt_probe::control::{Ending, clock};
use hmtt_probe::ptrace::{
    SignalNumber, Status, StopState, continue_to_stop, detach, interrupt, is_interrupted, listen,
    resume,
};
use nix::sys::signal::Signal;
use nix::unistd::Pid;

use super::super::Request;
use super::super::calls::{Need, need};
use super::super::error::ControlError;
use super::super::original::is_restarted;
use super::Tracer;

/// Whether a thread belongs to a process.
fn belongs_to(thread: Pid, pid: Pid) -> bool {
    std::path::Path::new(&format!("/proc/{pid}/task/{thread}")).exists()
}

impl Tracer {
    /// Handles an event of a thread. If children are not followed, also handles their first stop.
    pub fn handle(&mut self, status: Status) -> Result<(), ControlError> {
        let Some(thread) = status.thread() else { return Ok(()) };
        if !self.threads.contains_key(&thread) && !self.is_adopted(thread, status)? {
            return Ok(());
        }
        if let (Status::Event(_, _, libc::PTRACE_EVENT_STOP), Some(state)) =
            (status, self.threads.get_mut(&thread))
        {
            state.has_left_group_stop = false;
        }
        if self.handle_deferral(thread, status)? {
            return Ok(());
        }
        match status {
            Status::Exited(_, code) => self.handle_end(thread, Ending::Exited(code)),
            Status::Signaled(_, signal) => self.handle_end(thread, Ending::Signaled(signal)),
            Status::Stopped(_, SignalNumber::SYSTEM_CALL) => self.handle_call(thread),
            Status::Stopped(_, signal) => self.handle_signal(thread, signal),
            Status::Event(_, _, libc::PTRACE_EVENT_EXEC) => self.handle_exec(thread),
            Status::Event(_, _, libc::PTRACE_EVENT_EXIT) => self.handle_exit_stop(thread),
            Status::Event(_, signal, libc::PTRACE_EVENT_STOP) if signal == Signal::SIGTRAP => {
                self.handle_stop(thread)
            }
            Status::Event(_, _, libc::PTRACE_EVENT_STOP) => Ok(listen(thread)?),
            // A thread or a process was started; it reports its first stop itself.
            _ => self.continue_thread(thread, None),
        }
    }

    /// Adds a new thread of the process at its first stop. A new process comes here only if
    /// children are not followed; it is detached, so that it runs natively. Returns whether the
    /// event must still be handled.
    fn is_adopted(&mut self, thread: Pid, status: Status) -> Result<bool, ControlError> {
        let signal = match status {
            Status::Exited(..) | Status::Signaled(..) => {
                self.forget_waiting(thread);
                return Ok(false);
            }
            Status::Stopped(_, signal) => Some(signal),
            _ => None,
        };
        if belongs_to(thread, self.process.pid) {
            if self.is_to_wait(status) {
                return Ok(false);
            }
            self.add_thread(thread, signal.is_none());
            if signal.is_none() {
                self.enter(thread)?;
            }
            if StopState::reported(status) == StopState::GroupStop {
                // Since that stop the thread may have made system calls, and its process may have
                // been continued. The thread reports again how it is stopped.
                continue_to_stop(thread)?;
                return Ok(false);
            }
            return Ok(true);
        }
        self.seen.children += 1;
        let at_event = self.process.thread_at_event(thread);
        if let Ok(mut registers) = at_event.registers() {
            registers.gs_base = 0;
            let _ = at_event.set_registers(registers);
        }
        detach(thread, signal)?;
        Ok(false)
    }

    /// Handles the start or the end of a system call of a native thread.
    fn handle_call(&mut self, thread: Pid) -> Result<(), ControlError> {
        let mut registers = self.process.thread_at_event(thread).registers()?;
        let Some(state) = self.threads.get_mut(&thread) else { return Ok(()) };
        let Some(ended) = state.call.take() else {
            let entry = &registers;
            let arguments = [entry.rdi, entry.rsi, entry.rdx, entry.r10, entry.r8, entry.r9];
            let need = need(entry.orig_rax, arguments);
            if let Need::Leave(why) = need {
                self.seen.calls.add(thread.as_raw(), entry.orig_rax as u32);
                self.left = Some(why);
                self.process.threads.insert(thread, StopState::InSyscall);
                return Ok(());
            }
            if let Need::Sequences(signature) = need {
                self.shared.translation().add_signature(signature);
            }
            self.shared.translation().change(&need);
            let need = self.begin_lock(thread, need, entry)?;
            let Some(state) = self.threads.get_mut(&thread) else { return Ok(()) };
            state.call = Some(need);
            state.is_returning = entry.orig_rax.cast_signed() == libc::SYS_rt_sigreturn;
            self.seen.calls.add(thread.as_raw(), entry.orig_rax as u32);
            state.called_at = clock::tsc();
            return self.continue_thread(thread, None);
        };
        if is_interrupted(&registers) {
            // The requested stop makes the kernel restart the call, which then is reported as a new
            // call.
            self.shared.translation().changed(&ended);
            interrupt(thread)?;
            return self.continue_thread(thread, None);
        }
        let ticks = clock::tsc().saturating_sub(state.called_at);
        let is_returning = std::mem::take(&mut state.is_returning);
        self.shared.translation().changed(&ended);
        if let Need::LockAll(flags) = ended {
            registers = self.lock_all(thread, flags, registers)?;
        }
        if registers.orig_rax.cast_signed() >= 0 {
            self.seen.calls.add_time(thread.as_raw(), registers.orig_rax as u32, ticks);
        }
        if !is_restarted(&registers) {
            self.enter(thread)?;
        }
        if is_returning {
            self.defer_signals(thread)?;
        }
        self.continue_thread(thread, None)
    }

    /// Handles a stop of a thread that is new, that was requested to stop, or that leaves a
    /// job-control stop.
    fn handle_stop(&mut self, thread: Pid) -> Result<(), ControlError> {
        if let Some((number, is_call)) = self.take_request(thread)
            && self.shared.rings.areas.area(number).is_asking()
            && let Some((now, original)) = self.original_registers(thread)?
        {
            if is_call {
                self.become_native_for_call(thread, &now, original, original.rip)?;
            } else {
                self.become_native(thread, &now, original)?;
                self.enter(thread)?;
            }
        }
        self.continue_thread(thread, None)
    }

    /// Interrupts the threads that the translator has handed over, and threads whose deferral of
    /// signals is over. Adds waiting threads if there is an area for them now.
    pub fn serve_requests(&mut self) -> Result<(), ControlError> {
        self.admit_waiting()?;
        self.interrupt_deferrals();
        while let Some(Request { area, is_call }) = self.shared.next_request() {
            let mut threads = self.threads.iter_mut();
            let Some((thread, state)) = threads.find(|(_, one)| one.area == Some(area)) else {
                continue;
            };
            if !state.is_native && self.shared.handed_over[area].load(Ordering::SeqCst) {
                state.request = Some(is_call);
                let _ = interrupt(*thread);
            }
        }
        Ok(())
    }

    /// Handles a thread that is stopped because it is about to end.
    fn handle_exit_stop(&mut self, thread: Pid) -> Result<(), ControlError> {
        if let Ok(registers) = self.process.thread_at_event(thread).registers() {
            self.finish_last(thread, &registers);
        }
        Ok(resume(thread, None)?)
    }

    /// Tells the monitor to read the ring of a thread that ends with these registers.
    pub(super) fn finish_last(&mut self, thread: Pid, registers: &libc::user_regs_struct) {
        self.add_processor_time(thread);
        let Some(state) = self.threads.get(&thread) else { return };
        let (mut pointer, mut registers) = (state.pointer, *registers);
        if !state.is_native {
            self.record_interruption(thread, &mut registers);
            if self.has_rings {
                pointer = registers.r15;
            }
        }
        self.finish_ring(thread, Some(pointer));
    }

    /// Handles the end of a thread.
    fn handle_end(&mut self, thread: Pid, ending: Ending) -> Result<(), ControlError> {
        // If a thread is killed while it is stopped, it may end without another stop.
        let native = self.threads.get(&thread).filter(|one| one.is_native);
        let pointer = native.map(|one| one.pointer);
        self.finish_ring(thread, pointer);
        self.threads.remove(&thread);
        if thread == self.process.pid {
            self.ending = Some(ending);
        }
        Ok(())
    }

    /// Handles that the process has executed another program, natively. Only its first thread is
    /// left, and it stays stopped.
    fn handle_exec(&mut self, thread: Pid) -> Result<(), ControlError> {
        let caller = self.threads.iter().find(|(_, one)| one.call.is_some() && one.area.is_some());
        let caller = caller.map_or(thread, |(caller, _)| *caller);
        self.add_processor_time(thread);
        let pointer = self.threads.get(&caller).map(|one| one.pointer);
        self.finish_ring(caller, pointer);
        let others: Vec<Pid> = self.threads.keys().copied().collect();
        others.into_iter().for_each(|other| self.finish_ring(other, None));
        self.ending = Some(Ending::Replaced);
        Ok(())
    }
}
