//! Checks which instructions of Go functions may be changed; [`super::go`] gives the reasons.

use iced_x86::{FlowControl, Instruction, InstructionInfoFactory, Mnemonic, OpAccess, Register};

use super::body::Body;
use super::code_index::CodeIndex;
use super::go::GoConstraints;
use super::{Refusal, branch_target, is_call};

impl GoConstraints {
    /// Checks whether the function's entry may be tagged. `exits`: whether tags write below the
    /// stack pointer.
    ///
    /// # Errors
    /// [`Refusal`]: the reason why the entry may not be tagged.
    pub fn allow(&self, code_index: &CodeIndex, body: &Body, exits: bool) -> Result<(), Refusal> {
        if let Some(refusal) = self.refusal {
            return Err(refusal);
        }
        let is_tight = self.is_runtime || code_index.is_called_unchecked(body.range.start);
        let may_be_low = self.is_go && self.check == 0 && is_tight;
        if exits && may_be_low { Err(Refusal::GoStack) } else { Ok(()) }
    }

    /// Checks whether an instruction may be moved.
    ///
    /// # Errors
    /// [`Refusal`]: the reason why the instruction may not be moved.
    pub fn check(&self, body: &Body, index: usize) -> Result<(), Refusal> {
        if let Some(refusal) = self.refusal {
            return Err(refusal);
        }
        let instruction = &body.instructions[index];
        let is_check = body.range.start == body.function.start && index < self.check;
        if !self.is_go || is_check {
            return Ok(());
        }
        let is_restart = |target: &u64| self.check != 0 && *target == body.function.start;
        let backward = branch_target(instruction).filter(|target| *target <= instruction.ip());
        let is_backward = backward.is_some_and(|target| !is_restart(&target));
        if is_backward || may_be_observed(instruction) {
            return Err(Refusal::Unmovable(instruction.ip()));
        }
        Ok(())
    }
}

/// Whether the runtime may observe the address of an instruction: the instruction calls or may
/// fault.
fn may_be_observed(instruction: &Instruction) -> bool {
    let calls = matches!(
        instruction.flow_control(),
        FlowControl::Call | FlowControl::IndirectCall | FlowControl::Exception
    );
    if calls || is_call(instruction) {
        return true;
    }
    if matches!(instruction.mnemonic(), Mnemonic::Div | Mnemonic::Idiv) {
        return true;
    }
    let mut factory = InstructionInfoFactory::new();
    let info = factory.info(instruction);
    info.used_memory().iter().any(|memory| {
        let base = memory.base();
        let is_stack = base == Register::RSP && memory.index() == Register::None;
        let is_global = matches!(base, Register::RIP | Register::EIP)
            || base == Register::None
                && memory.index() == Register::None
                && instruction.is_ip_rel_memory_operand();
        memory.access() != OpAccess::NoMemAccess && !is_stack && !is_global
    })
}
