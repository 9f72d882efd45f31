//! Delivers signals to threads in stubs, so that signal handlers see the original program.
//!
//! The thread first gets the state that it has at the next boundary ([`crate::stubs::boundary`]):
//! its address is a valid one in the stub, and its registers are the original ones. The kernel
//! writes the signal frame from this state, and the thread is stopped before its handler begins.
//! Then `rip` in the frame is replaced by the original address, and the address in the stub is
//! stored beside it ([`crate::stubs::restorer`]).
//!
//! Invariant: whenever the controller is killed, the frame leads to valid code. Before the
//! replacement the frame leads to the stub; after it, the frame leads through the changed restorer.
//!
//! A frame whose restorer could not be changed keeps the address in the stub. There is one
//! exception: a signal that an instruction at the start of a region has raised. This frame gets the
//! original address; the jump there leads back to the stub, and the tag runs again. Before a signal
//! that ends the process, the thread gets the original registers, for core dumps.
//!
//! A signal costs the program the time of the controller's system calls. Outside of stubs there are
//! two such calls: one reads the registers, one continues the thread. Memory is read only at jumps.

use libc::user_regs_struct;
use nix::unistd::Pid;

use super::boundaries::Boundary;
use super::{PatchedCode, TagError, Tagged, Tags};
use crate::address::RunAddr;
use crate::ptrace::{
    Delivery, Disposition, SignalNumber, Status, Stopped, StoppedThread, enter_handler,
    replace_fault_address, resume,
};
use crate::stubs::layout::PAGE_BYTES;
use crate::stubs::restorer;

/// Offset of the `ucontext` in a signal frame, in bytes.
const CONTEXT_AT: usize = 8;
/// Offsets of `rip` in a signal frame, and of the start and end of the resumption.
const RIP_AT: usize = CONTEXT_AT + restorer::RIP as usize;
const RESUMPTION_AT: usize = CONTEXT_AT + restorer::RESUMPTION as usize;
const RESUMPTION_END: usize = RESUMPTION_AT + size_of::<[u64; 3]>();

/// Task of the caller after a signal was delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Delivered {
    /// Nothing more is to be done.
    Complete,
    /// Another event of the thread is to be handled.
    OtherEvent(Status),
    /// The thread is stopped before its handler, which returns to an unknown restorer. The caller
    /// must search for the restorer; then the original address is written to the frame.
    UnknownRestorer {
        /// Whether an instruction has raised the signal.
        is_fault: bool,
    },
}

impl Tagged {
    /// Delivers a signal to a thread with these registers.
    pub(super) fn deliver(
        &mut self,
        thread: Pid,
        signal: SignalNumber,
        registers: user_regs_struct,
    ) -> Result<Delivered, TagError> {
        let Tagged { process, tags, .. } = self;
        let at_event = process.thread_at_event(thread);
        let Some(registers) = tags.code.registers_in_stub(at_event, registers) else {
            resume(thread, Some(signal))?;
            return Ok(Delivered::Complete);
        };
        let disposition = process.disposition(thread, signal);
        let at_event = process.thread_at_event(thread);
        if disposition == Disposition::Harmless {
            resume(thread, Some(signal))?;
            return Ok(Delivered::Complete);
        }
        let finished = tags.finish_tag(at_event, registers)?.unwrap_or(registers);
        let Some(Boundary { registers: at, original }) = tags.code.boundary(at_event, finished)
        else {
            resume(thread, Some(signal))?;
            return Ok(Delivered::Complete);
        };
        let is_fault = tags.code.replace_fault_address(at_event, signal, &registers, original)?;
        if disposition == Disposition::Fatal || original == RunAddr(at.rip) {
            at_event.set_registers(user_regs_struct { rip: original.0, ..at })?;
            resume(thread, Some(signal))?;
            return Ok(Delivered::Complete);
        }
        at_event.set_registers(at)?;
        match enter_handler(thread, signal)? {
            Delivery::Entered => tags.code.handle_entry(at_event, is_fault),
            Delivery::NotEntered => {
                resume(thread, None).map(|()| Delivered::Complete).map_err(Into::into)
            }
            Delivery::OtherEvent(status) => Ok(Delivered::OtherEvent(status)),
            Delivery::Ended => Ok(Delivered::Complete),
        }
    }
}

impl Tags {
    /// Searches for the restorer of a thread that is stopped before its handler.
    pub(super) fn find_restorer(
        &mut self,
        process: &mut Stopped<'_>,
        thread: Pid,
        is_fault: bool,
    ) -> Result<(), TagError> {
        self.code.change_restorers(process, self.collector.shared())?;
        self.code.show_original(process.thread(thread), is_fault).map(drop)
    }
}

impl PatchedCode {
    /// Registers of a thread that is in a stub, or at a jump to a stub. For a thread at a jump,
    /// `rip` is the target of the jump; this case counts only if signal frames were changed,
    /// because a frame may say that the jump is not to be taken again. `None` for all other
    /// threads.
    fn registers_in_stub(
        &self,
        thread: StoppedThread<'_>,
        registers: user_regs_struct,
    ) -> Option<user_regs_struct> {
        if self.is_tag_memory(RunAddr(registers.rip)) {
            return Some(registers);
        }
        if !self.restorers.has_resumptions {
            return None;
        }
        let stub = self.stub_behind_jump(thread, RunAddr(registers.rip))?;
        Some(user_regs_struct { rip: stub.0, ..registers })
    }

    fn handle_entry(
        &mut self,
        thread: StoppedThread<'_>,
        is_fault: bool,
    ) -> Result<Delivered, TagError> {
        if self.show_original(thread, is_fault)? {
            resume(thread.id(), None)?;
            return Ok(Delivered::Complete);
        }
        Ok(Delivered::UnknownRestorer { is_fault })
    }

    /// Writes the original address to the signal frame of a thread that is stopped before its
    /// handler. Returns `false` if the restorer is unknown and must be searched for first.
    fn show_original(
        &mut self,
        thread: StoppedThread<'_>,
        is_fault: bool,
    ) -> Result<bool, TagError> {
        let at = RunAddr(thread.registers()?.rsp);
        let mut frame = [0; RESUMPTION_END];
        thread.read(at, &mut frame)?;
        let word =
            |at: usize| frame[at..].first_chunk().map(|word| RunAddr(u64::from_le_bytes(*word)));
        let (Some(returns_to), Some(rip)) = (word(0), word(RIP_AT)) else { return Ok(true) };
        let Some(original) = self.original(rip).filter(|original| *original != rip) else {
            return Ok(true);
        };
        // Go's runtime preempts goroutines at addresses that it knows. It continues a goroutine by
        // a return of its own, not by the handler's return. After a fault a goroutine does not
        // continue.
        if !is_fault && self.stub_at(rip).is_some_and(|stub| stub.is_go) {
            return Ok(true);
        }
        if self.restorers.contains(returns_to) {
            let words = [self.restorers.session, original.0, rip.0].map(u64::to_le_bytes);
            self.restorers.has_resumptions = true;
            frame[RESUMPTION_AT..].copy_from_slice(words.as_flattened());
            // The controller may be killed in the middle of a write to two pages, so the resumption
            // is written first.
            let (from, to) = (at + RIP_AT as u64, at + RESUMPTION_END as u64 - 1);
            if from.0 / PAGE_BYTES != to.0 / PAGE_BYTES {
                let resumption = &frame[RESUMPTION_AT..];
                thread.write(at + RESUMPTION_AT as u64, resumption)?;
            }
        } else if self.restorers.searched.insert(returns_to) {
            return Ok(false);
        } else if !is_fault || !self.stub_at(rip).is_some_and(|stub| stub.is_start(original)) {
            return Ok(true);
        }
        frame[RIP_AT..][..size_of::<u64>()].copy_from_slice(&original.0.to_le_bytes());
        thread.write(at + RIP_AT as u64, &frame[RIP_AT..])?;
        Ok(true)
    }

    /// Replaces addresses in stubs that a pending signal reports by the original addresses.
    /// `original`: the original address of the thread's `rip`. Returns whether an instruction has
    /// raised the signal.
    pub(super) fn replace_fault_address(
        &self,
        thread: StoppedThread<'_>,
        signal: SignalNumber,
        registers: &user_regs_struct,
        original: RunAddr,
    ) -> Result<bool, TagError> {
        Ok(replace_fault_address(thread.id(), signal, |address| {
            if address.0 == registers.rip { Some(original) } else { self.original(address) }
        })?)
    }
}
