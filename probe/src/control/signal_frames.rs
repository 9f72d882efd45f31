//! Delivers signals to threads in stubs, so that handlers see the original program.
//!
//! The thread first gets the state it has at the next boundary ([`crate::stubs::boundary`]): a valid place in the
//! stub, with the original registers. The kernel writes the signal frame from that; the thread is stopped before
//! its handler begins. The frame's `rip` is then replaced by the original address, and beside it stays where the
//! thread goes on ([`crate::stubs::restorer`]). Whenever the controller is killed, the frame leads to valid code:
//! before the replacement to the stub, after it through the changed restorer.
//!
//! A frame whose restorer could not be changed keeps the stub's address, unless the address shown is where a
//! region begins, and an instruction has raised the signal: the jump there leads back, and passes the tag again.
//! A signal that ends the process finds the original registers in the thread, for core dumps.
//!
//! A signal costs the program the time of our system calls. Outside of stubs these are one to read the registers and
//! one to go on; memory is read only where a jump of ours is.

use libc::user_regs_struct;
use nix::unistd::Pid;

use super::boundaries::Boundary;
use super::{TagError, Tagged};
use crate::ptrace::{
    Delivery, Disposition, SignalNumber, Status, enter_handler, go_on, replace_fault_address,
};
use crate::stubs::layout::PAGE_BYTES;
use crate::stubs::restorer;

/// From the start of a signal frame to its `ucontext`.
const CONTEXT_AT: usize = 8;
/// From the start of a signal frame to `rip`, and to where the resumption ends.
const RIP_AT: usize = CONTEXT_AT + restorer::RIP as usize;
const RESUMPTION_AT: usize = CONTEXT_AT + restorer::RESUMPTION as usize;
const RESUMPTION_END: usize = RESUMPTION_AT + size_of::<[u64; 3]>();

/// What is left to do when a signal was delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Delivered {
    /// Nothing.
    Whole,
    /// To look at something else that has happened to the thread.
    Heard(Status),
    /// The thread is stopped before its handler, which returns to a restorer that is not known: it is to be shown
    /// the frame when that was looked for.
    Unknown {
        /// Whether an instruction has raised the signal.
        is_fault: bool,
    },
}

impl Tagged {
    /// Lets a thread, which has these registers, have a signal that it is about to get.
    pub(super) fn deliver(
        &mut self,
        thread: Pid,
        signal: SignalNumber,
        registers: user_regs_struct,
    ) -> Result<Delivered, TagError> {
        let Some(registers) = self.in_stub(registers) else {
            go_on(thread, Some(signal))?;
            return Ok(Delivered::Whole);
        };
        let disposition = self.process.disposition(thread, signal);
        if disposition == Disposition::Harmless {
            go_on(thread, Some(signal))?;
            return Ok(Delivered::Whole);
        }
        let finished = self.finish_tag(thread, registers)?.unwrap_or(registers);
        let Some(Boundary { registers: at, original }) = self.boundary(finished) else {
            go_on(thread, Some(signal))?;
            return Ok(Delivered::Whole);
        };
        let is_fault = self.replace_fault_address(thread, signal, &registers, original)?;
        if disposition == Disposition::Fatal || original == at.rip {
            self.process.set_registers(thread, user_regs_struct { rip: original, ..at })?;
            go_on(thread, Some(signal))?;
            return Ok(Delivered::Whole);
        }
        self.process.set_registers(thread, at)?;
        match enter_handler(thread, signal)? {
            Delivery::Entered => self.entered(thread, is_fault),
            Delivery::NotEntered => {
                go_on(thread, None).map(|()| Delivered::Whole).map_err(Into::into)
            }
            Delivery::Heard(status) => Ok(Delivered::Heard(status)),
            Delivery::Ended => Ok(Delivered::Whole),
        }
    }

    /// The registers of a thread if it is in a stub, or at a jump to one while a frame may still say that the jump
    /// is not to be taken: then behind the jump.
    fn in_stub(&self, registers: user_regs_struct) -> Option<user_regs_struct> {
        if self.is_ours(registers.rip) {
            return Some(registers);
        }
        if !self.restorers.has_resumptions || !self.is_jump(registers.rip) {
            return None;
        }
        let mut rip = registers.rip;
        // A short jump leads to another.
        for _ in 0..2 {
            rip = self.jump_target(rip)?;
            if self.is_ours(rip) {
                return Some(user_regs_struct { rip, ..registers });
            }
        }
        None
    }

    fn entered(&mut self, thread: Pid, is_fault: bool) -> Result<Delivered, TagError> {
        if self.show(thread, is_fault)? {
            go_on(thread, None)?;
            return Ok(Delivered::Whole);
        }
        Ok(Delivered::Unknown { is_fault })
    }

    /// Looks for the restorer of a thread that is stopped before its handler; all threads are stopped.
    pub(super) fn show_after_search(
        &mut self,
        thread: Pid,
        is_fault: bool,
    ) -> Result<(), TagError> {
        self.change_restorers()?;
        self.show(thread, is_fault).map(drop)
    }

    /// Puts the original address into the signal frame of a thread that is stopped before its handler. Not if the
    /// restorer is not known, and may be found.
    fn show(&mut self, thread: Pid, is_fault: bool) -> Result<bool, TagError> {
        let at = self.process.registers(thread)?.rsp;
        let mut frame = [0; RESUMPTION_END];
        self.process.read(at, &mut frame)?;
        let word = |at: usize| frame[at..].first_chunk().map(|word| u64::from_le_bytes(*word));
        let (Some(returns_to), Some(rip)) = (word(0), word(RIP_AT)) else { return Ok(true) };
        let Some(original) = self.original(rip).filter(|original| *original != rip) else {
            return Ok(true);
        };
        // Go's runtime preempts goroutines at addresses that it knows: it has them go on there by a return of their own,
        // not by that of the handler. After a fault they do not go on.
        if !is_fault && self.stub_at(rip).is_some_and(|one| one.is_go) {
            return Ok(true);
        }
        if self.restorers.holds(returns_to) {
            let words = [self.restorers.session, original, rip].map(u64::to_le_bytes);
            self.restorers.has_resumptions = true;
            frame[RESUMPTION_AT..].copy_from_slice(words.as_flattened());
            // What lies on two pages may be written in part if we die: the resumption comes first.
            let (from, to) = (at + RIP_AT as u64, at + RESUMPTION_END as u64 - 1);
            if from / PAGE_BYTES != to / PAGE_BYTES {
                let resumption = &frame[RESUMPTION_AT..];
                self.process.write(at + RESUMPTION_AT as u64, resumption)?;
            }
        } else if self.restorers.searched.insert(returns_to) {
            return Ok(false);
        } else if !is_fault || !self.stub_at(rip).is_some_and(|one| one.is_start(original)) {
            return Ok(true);
        }
        frame[RIP_AT..][..size_of::<u64>()].copy_from_slice(&original.to_le_bytes());
        self.process.write(at + RIP_AT as u64, &frame[RIP_AT..])?;
        Ok(true)
    }

    /// Lets the signal that a thread is about to get name original addresses. `original`: that of the thread's
    /// `rip`. Whether an instruction has raised the signal.
    pub(super) fn replace_fault_address(
        &self,
        thread: Pid,
        signal: SignalNumber,
        registers: &user_regs_struct,
        original: u64,
    ) -> Result<bool, TagError> {
        Ok(replace_fault_address(thread, signal, |address| {
            if address == registers.rip { Some(original) } else { self.original(address) }
        })?)
    }
}
