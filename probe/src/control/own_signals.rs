//! Recognises signals that the code of tags raises, which the program would not get without tags.
//!
//! | signal | raised by | what is done |
//! |---|---|---|
//! | `SIGSEGV` | `rdtsc` of a log's tag, where the program may not read the time stamp counter | the record is completed, then all tags are removed |
//!
//! The kernel resets the handler of a fault to the default if the thread has blocked or ignored the signal (Linux,
//! `force_sig_info_to_task`), before this process hears of it. That cannot be undone.

use libc::user_regs_struct;
use nix::sys::signal::Signal;
use nix::unistd::Pid;

use super::{PatchedCode, TagError, Tagged};
use crate::address::RunAddr;
use crate::ptrace::{SignalNumber, StopState, StoppedThread, signal_code};

/// `si_code` of a fault whose cause is not known (Linux, `uapi/asm-generic/siginfo.h`): what `rdtsc` raises.
const KERNEL: i32 = 0x80;
/// `rdtsc`.
const READ_TIME: [u8; 2] = [0x0f, 0x31];

/// Why the code of a tag has raised a signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cause {
    /// The thread may not read the time stamp counter.
    TimeForbidden,
}

impl Tagged {
    /// Handles a signal that is about to be delivered to a stopped thread with these registers, if a tag has raised it.
    /// Returns whether that is so: the signal must not be delivered then.
    pub(super) fn handle_own_signal(
        &mut self,
        thread: Pid,
        signal: SignalNumber,
        registers: user_regs_struct,
    ) -> Result<bool, TagError> {
        let at_event = self.process.thread_at_event(thread);
        match self.tags.code.cause(at_event, signal, &registers)? {
            None => return Ok(false),
            Some(Cause::TimeForbidden) => {
                self.tags.finish_tag(at_event, registers)?;
                self.forbid_time();
            }
        }
        Ok(true)
    }

    /// Handles the signals that tags have raised in threads that are all stopped now.
    pub(super) fn handle_own_signals(&mut self) {
        let pending = |(thread, state): (&Pid, &StopState)| Some((*thread, state.signal()?));
        let pending: Vec<_> = self.process.threads.iter().filter_map(pending).collect();
        for (thread, signal) in pending {
            let registers = self.process.thread_at_event(thread).registers();
            let registers = registers.map_err(TagError::from);
            let is_own = registers.and_then(|now| self.handle_own_signal(thread, signal, now));
            // A thread that was killed meanwhile gets no signal.
            if is_own.unwrap_or(false) {
                self.process.threads.insert(thread, StopState::AtInstruction);
            }
        }
    }
}

impl PatchedCode {
    /// Why a tag has raised a signal in a thread that is stopped with it; `None` if the program would get it too.
    fn cause(
        &self,
        thread: StoppedThread<'_>,
        signal: SignalNumber,
        registers: &user_regs_struct,
    ) -> Result<Option<Cause>, TagError> {
        let rip = RunAddr(registers.rip);
        if signal == Signal::SIGSEGV && self.is_time_read(thread, rip) {
            return Ok((signal_code(thread.id())? == KERNEL).then_some(Cause::TimeForbidden));
        }
        Ok(None)
    }

    /// Whether the instruction at an address is one of a tag that reads the time stamp counter.
    fn is_time_read(&self, thread: StoppedThread<'_>, rip: RunAddr) -> bool {
        let mut there = [0; READ_TIME.len()];
        self.is_tag_memory(rip)
            && self.stub_at(rip).is_some_and(|stub| stub.has_tag_at(rip))
            && thread.read(rip, &mut there).is_ok()
            && there == READ_TIME
    }
}
