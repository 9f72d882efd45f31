//! A thread that stands still to one that stands a few instructions further.
//!
//! A step ends in a signal. Should we die before it does, the program dies of it: so this is for what cannot be
//! done by letting the thread run.

use nix::sys::ptrace;
use nix::sys::signal::Signal;
use nix::unistd::Pid;

use super::wait::wait_unless_dead;
use super::{Process, PtraceError, Standing, Status};

/// `syscall`.
const SYSTEM_CALL: [u8; 2] = [0x0f, 0x05];

impl Process {
    /// Takes a thread on until it stands outside, at most so many instructions, and not into a system call.
    /// Whether it does.
    pub fn step_out(
        &mut self,
        thread: Pid,
        at_most: usize,
        inside: impl Fn(u64) -> bool,
    ) -> Result<bool, PtraceError> {
        for _ in 0..at_most {
            let registers = self.registers(thread)?;
            if !inside(registers.rip) {
                return Ok(true);
            }
            let mut next = [0; 2];
            self.read(registers.rip, &mut next)?;
            let is_free = self.threads.get(&thread) == Some(&Standing::Free);
            let is_in_call = registers.orig_rax.cast_signed() >= 0;
            if !is_free || is_in_call || next == SYSTEM_CALL || !self.step(thread)? {
                return Ok(false);
            }
        }
        Ok(false)
    }

    /// Whether it has made one.
    fn step(&mut self, thread: Pid) -> Result<bool, PtraceError> {
        ptrace::step(thread, None).map_err(PtraceError::new(thread, "take it a step further"))?;
        let status = wait_unless_dead(thread).map_err(PtraceError::new(thread, "wait"))?;
        match status.ok_or(PtraceError::Ended(self.pid))? {
            Status::Stopped(_, signal) if signal == Signal::SIGTRAP => Ok(true),
            Status::Stopped(_, signal) => {
                self.threads.insert(thread, Standing::Signal(signal));
                Ok(false)
            }
            status @ (Status::Exited(..) | Status::Signaled(..)) => {
                self.threads.remove(&thread);
                self.heard.push(status);
                Err(PtraceError::Ended(self.pid))
            }
            // Something else has stopped it before.
            _ => Ok(false),
        }
    }
}
