//! Takes over a process whose threads are stopped: a running process, a new child, or a program
//! that was just started.
//!
//! Each thread enters the cache, or stays native until its next system call if it is within one. A
//! process is refused, before anything is changed, if its threads use something that generated code
//! needs.

use std::collections::BTreeMap;

use hmtt_probe::address::RunAddr;
use hmtt_probe::ptrace::{Process, Status, StopState, listen, sequence_area};
use nix::unistd::Pid;

use super::super::error::ControlError;
use super::super::original;
use super::Tracer;

/// `cs` of 64-bit code.
const CS: u64 = 0x33;
/// `PTRACE_GET_SYSCALL_USER_DISPATCH_CONFIG` (ptrace(2)), and its structure's mode "off".
const GET_USER_DISPATCH: libc::c_uint = 0x4210;
const DISPATCH_OFF: u64 = 0;

/// Configuration by which the kernel dispatches system calls to the program (Linux,
/// `include/uapi/linux/ptrace.h`).
#[repr(C)]
#[derive(Default)]
struct UserDispatch {
    mode: u64,
    selector: u64,
    offset: u64,
    len: u64,
}

/// Checks that a stopped process can be followed. Returns an address near its code.
///
/// # Errors
/// [`ControlError`] with the reason why it cannot be followed.
pub fn check(process: &mut Process) -> Result<RunAddr, ControlError> {
    let pid = process.pid;
    let stopped = process.stopped()?;
    let mut near = RunAddr(0);
    for thread in stopped.threads.keys().copied() {
        let registers = stopped.registers(thread)?;
        if registers.cs != CS {
            return Err(ControlError::Bits32);
        }
        let uses_gs = registers.gs_base != 0 || registers.gs != 0;
        let obstacle = match () {
            () if uses_gs => Some("uses gs"),
            () if dispatches(thread) => Some("dispatches its system calls"),
            () if has_shadow_stack(pid, thread) => Some("uses a shadow stack"),
            () => None,
        };
        if let Some(what) = obstacle {
            return Err(ControlError::Obstacle { thread, what });
        }
        near = RunAddr(registers.rip);
    }
    Ok(near)
}

/// Whether system calls of a stopped thread are dispatched to the program itself (prctl(2),
/// `PR_SET_SYSCALL_USER_DISPATCH`). Kernels before 6.4 do not report that; the result is then
/// `false`.
fn dispatches(thread: Pid) -> bool {
    let mut dispatch = UserDispatch::default();
    let size = size_of::<UserDispatch>();
    // SAFETY: the kernel writes a structure of the given size.
    let result =
        unsafe { libc::ptrace(GET_USER_DISPATCH, thread.as_raw(), size, &raw mut dispatch) };
    result == 0 && dispatch.mode != DISPATCH_OFF
}

/// Whether a thread has a shadow stack, according to the kernel's list of its features (Linux,
/// `Documentation/arch/x86/shstk.rst`).
fn has_shadow_stack(pid: Pid, thread: Pid) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/task/{thread}/status"));
    status.is_ok_and(|text| {
        let mut lines = text.lines().filter_map(|line| line.strip_prefix("x86_Thread_features:"));
        lines.any(|features| features.split_whitespace().any(|one| one == "shstk"))
    })
}

impl Tracer {
    /// Takes over the stopped threads of a process.
    pub fn take_over(&mut self, stopped: BTreeMap<Pid, StopState>) -> Result<(), ControlError> {
        self.pending.extend(std::mem::take(&mut self.process.queued_events));
        stopped.keys().for_each(|thread| self.add_thread(*thread, false));
        for area in stopped.keys().filter_map(|thread| sequence_area(*thread)) {
            self.shared.translation().add_signature(area.signature);
        }
        for (thread, state) in stopped {
            super::unless_ended(self.take_over_thread(thread, state))?;
        }
        Ok(())
    }

    fn take_over_thread(&mut self, thread: Pid, state: StopState) -> Result<(), ControlError> {
        match state {
            StopState::AtInstruction => {
                let registers = self.process.thread_at_event(thread).registers()?;
                if !original::is_restarted(&registers) {
                    self.enter(thread)?;
                }
                self.continue_thread(thread, None)
            }
            StopState::PendingSignal(signal) => {
                self.pending.push_back(Status::Stopped(thread, signal));
                Ok(())
            }
            StopState::GroupStop => Ok(listen(thread)?),
            StopState::InSyscall => self.continue_thread(thread, None),
        }
    }
}
