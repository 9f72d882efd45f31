//! Recognises signals that the code of tags raises. Without tags the program would not get them.
//!
//! | signal | raised by | what is done |
//! |---|---|---|
//! | `SIGTRAP` | a step through a tag or a jump to one, in a thread that has set its trap flag | the thread continues |
//! | `SIGSEGV` | `rdtsc` of a log's tag, where the program may not read the time stamp counter | the record is completed, then all tags are removed |
//! | `SIGSYS` | a system call of a log's tag that the program dispatches to itself, or its filter traps | the tag continues without the call, and tags make no more calls |
//!
//! A thread with the trap flag gets a `SIGTRAP` after each instruction. The signal is passed on
//! only if the next instruction belongs to the program, in place or moved. Each instruction of the
//! program is the next instruction exactly once, so the handler runs as often as without tags. Such
//! a thread does not block signals while it looks for a free buffer, because a step whose signal is
//! blocked would end the program.
//!
//! The kernel resets the handler of a fault to the default if the thread has blocked or ignored the
//! signal (Linux, `force_sig_info_to_task`), before ptrace reports the signal. That cannot be
//! undone.

use libc::user_regs_struct;
use nix::sys::signal::Signal;
use nix::unistd::Pid;

use super::boundaries::{NO_CALL, jump_target};
use super::{PatchedCode, TagError, Tagged};
use crate::address::RunAddr;
use crate::ptrace::seccomp::Forbidden;
use crate::ptrace::seccomp::filter::Action;
use crate::ptrace::{SignalNumber, StopState, StoppedThread, signal_code};
use crate::stubs::Sink;
use crate::stubs::chunk_switch::{self, SystemCalls, TURNS};
use crate::stubs::unfinished_tag::ThreadMemory;

/// `si_code` of a fault whose cause is not known (Linux, `uapi/asm-generic/siginfo.h`). A fault of
/// `rdtsc` has this code.
const KERNEL: i32 = 0x80;
/// `si_code` of a system call that a filter traps, and of a system call that is dispatched to the
/// program.
const FILTERED: i32 = 1;
const DISPATCHED: i32 = 2;
/// Bytes of the instruction `rdtsc`.
const READ_TIME: [u8; 2] = [0x0f, 0x31];
/// Length of the instruction `syscall`, in bytes.
const CALL_BYTES: u64 = 2;
/// Value of `r14d` in a thread that makes no system calls.
const SILENT: u64 = u32::MAX as u64;
/// Result of a futex wait whose word does not have the expected value.
const CHANGED: u64 = -(libc::EAGAIN as i64) as u64;

/// Reason why the code of a tag has raised a signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cause {
    /// The thread executes single steps.
    Step,
    /// The thread may not read the time stamp counter.
    TimeForbidden,
    /// The thread may not make a system call.
    CallForbidden(Forbidden),
}

impl Tagged {
    /// Handles a signal that is about to be delivered to a stopped thread with these registers, if
    /// a tag has raised the signal. Returns whether this is so; the signal must not be delivered
    /// then.
    pub(super) fn handle_own_signal(
        &mut self,
        thread: Pid,
        signal: SignalNumber,
        registers: user_regs_struct,
    ) -> Result<bool, TagError> {
        let at_event = self.process.thread_at_event(thread);
        match self.tags.code.cause(at_event, signal, &registers)? {
            None => return Ok(false),
            Some(Cause::Step) => {
                if let Some(silent) = self.tags.code.without_blocking(&registers) {
                    at_event.set_registers(silent)?;
                }
            }
            Some(Cause::TimeForbidden) => {
                self.tags.finish_tag(at_event, registers)?;
                self.forbid_time();
            }
            Some(Cause::CallForbidden(why)) => {
                let after = self.tags.code.without_call(at_event, &registers);
                at_event.set_registers(after.unwrap_or(registers))?;
                self.forbid_calls(why);
            }
        }
        Ok(true)
    }

    /// Handles the faults that tags have raised in threads; all threads are stopped.
    pub(super) fn handle_own_faults(&mut self) {
        let pending = |(thread, state): (&Pid, &StopState)| Some((*thread, state.signal()?));
        let pending: Vec<_> = self.process.threads.iter().filter_map(pending).collect();
        // The signal of a step stays pending: if the tags are removed now, the thread is at an
        // instruction of the program afterwards.
        for (thread, signal) in pending.into_iter().filter(|(_, signal)| *signal != Signal::SIGTRAP)
        {
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
    /// Why a tag has raised the signal with which a thread is stopped; `None` if the program would
    /// get the signal without tags too.
    fn cause(
        &self,
        thread: StoppedThread<'_>,
        signal: SignalNumber,
        registers: &user_regs_struct,
    ) -> Result<Option<Cause>, TagError> {
        let rip = RunAddr(registers.rip);
        if signal == Signal::SIGTRAP && self.is_own_instruction(thread, rip) {
            return Ok((signal_code(thread.id())? == libc::TRAP_TRACE).then_some(Cause::Step));
        }
        if signal == Signal::SIGSEGV && self.is_time_read(thread, rip) {
            return Ok((signal_code(thread.id())? == KERNEL).then_some(Cause::TimeForbidden));
        }
        if signal == Signal::SIGSYS && self.call_before(rip).is_some() {
            let why = match signal_code(thread.id())? {
                FILTERED => Forbidden::Filter(Action::Trap),
                DISPATCHED => Forbidden::UserDispatch,
                _ => return Ok(None),
            };
            return Ok(Some(Cause::CallForbidden(why)));
        }
        Ok(None)
    }

    /// Whether the instruction at an address belongs to a tag, or is a jump to a stub or back from
    /// a stub.
    fn is_own_instruction(&self, thread: StoppedThread<'_>, rip: RunAddr) -> bool {
        if !self.is_tag_memory(rip) {
            return self.stub_behind_jump(thread, rip).is_some();
        }
        // Code that belongs to no function is shared by tags, or by returns from handlers.
        let Some(stub) = self.stub_at(rip) else { return true };
        // The tag of an exit is followed by an added jump to the function that is entered next.
        stub.original(rip).is_none_or(|original| {
            stub.has_tag_at(rip) || jump_target(thread, rip) == Some(original)
        })
    }

    /// Whether an address holds the instruction of a tag that reads the time stamp counter.
    fn is_time_read(&self, thread: StoppedThread<'_>, rip: RunAddr) -> bool {
        let mut there = [0; READ_TIME.len()];
        self.is_tag_memory(rip)
            && self.stub_at(rip).is_some_and(|stub| stub.has_tag_at(rip))
            && thread.read(rip, &mut there).is_ok()
            && there == READ_TIME
    }

    /// Address in a stub that the jump at an address leads to; `None` if tags have added no jump
    /// there.
    pub(super) fn stub_behind_jump(
        &self,
        thread: StoppedThread<'_>,
        mut rip: RunAddr,
    ) -> Option<RunAddr> {
        if !self.is_jump(rip) {
            return None;
        }
        // A short jump leads to a second jump.
        for _ in 0..2 {
            rip = jump_target(thread, rip)?;
            if self.is_tag_memory(rip) {
                return Some(rip);
            }
        }
        None
    }

    /// Finds the code that the tags of a log share around an address. Returns its system calls and
    /// its start.
    fn calls_around(&self, rip: RunAddr) -> Option<(SystemCalls, RunAddr)> {
        let Sink::Log(shape) = self.sink else { return None };
        let start = self.areas.iter().find(|area| area.contains(&rip))?.start;
        let code = chunk_switch::code(&shape, start.0).ok()?;
        Some((SystemCalls::find(&code)?, start))
    }

    /// Finds the system call that ends at an address. Returns all calls of that code, and the index
    /// of this call.
    fn call_before(&self, rip: RunAddr) -> Option<(SystemCalls, usize)> {
        let (calls, start) = self.calls_around(rip)?;
        let at = rip.offset_from(start)?.checked_sub(CALL_BYTES)?;
        let number = calls.offsets.iter().position(|offset| *offset as u64 == at)?;
        Some((calls, number))
    }

    /// Returns registers for a thread that is about to block all signals: with them it continues
    /// without blocking signals. `None` if the thread is elsewhere.
    fn without_blocking(&self, registers: &user_regs_struct) -> Option<user_regs_struct> {
        let rip = RunAddr(registers.rip);
        let (calls, start) = self.calls_around(rip)?;
        let is_there = rip == start + *calls.offsets.first()? as u64;
        is_there.then(|| user_regs_struct {
            rip: (start + calls.silent as u64).0,
            r14: SILENT,
            ..*registers
        })
    }

    /// Returns registers for a thread that continues behind a system call that was not made. If the
    /// thread has blocked signals before, its signal mask is restored here, and it stops waiting.
    fn without_call(
        &self,
        thread: StoppedThread<'_>,
        registers: &user_regs_struct,
    ) -> Option<user_regs_struct> {
        let rip = RunAddr(registers.rip);
        let (calls, number) = self.call_before(rip)?;
        let now = user_regs_struct { orig_rax: NO_CALL, ..*registers };
        if number == 0 {
            let before = user_regs_struct { rip: registers.rip - CALL_BYTES, ..now };
            return self.without_blocking(&before);
        }
        if number + 1 < calls.offsets.len() {
            return Some(user_regs_struct { rax: CHANGED, r14: TURNS.into(), ..now });
        }
        let mask = ThreadMemory::read(&thread, RunAddr(registers.rsi))?;
        thread.set_signal_mask(mask).ok()?;
        Some(user_regs_struct { rax: 0, ..now })
    }
}
