//! What may be changed in functions of Go: see [`super::go`].

use iced_x86::{FlowControl, Instruction, InstructionInfoFactory, Mnemonic, OpAccess, Register};

use super::body::Body;
use super::flow::Flow;
use super::go::Runtime;
use super::{Refusal, branch_target, is_call};

impl Runtime {
    /// Whether the function's entry may be tagged. `exits`: whether tags may write below the stack pointer.
    pub fn allow(&self, flow: &Flow, body: &Body, exits: bool) -> Result<(), Refusal> {
        if let Some(refusal) = self.refusal {
            return Err(refusal);
        }
        let is_tight = self.is_runtime || flow.is_called_unchecked(body.range.start);
        let may_be_low = self.is_go && self.check == 0 && is_tight;
        if exits && may_be_low { Err(Refusal::GoStack) } else { Ok(()) }
    }

    /// Whether an instruction may be moved.
    pub fn check(&self, body: &Body, index: usize) -> Result<(), Refusal> {
        if let Some(refusal) = self.refusal {
            return Err(refusal);
        }
        let instruction = &body.instructions[index];
        let is_check = body.range.start == body.function.start && index < self.check;
        if !self.is_go || is_check {
            return Ok(());
        }
        let grown = |target: &u64| self.check != 0 && *target == body.function.start;
        let back = branch_target(instruction).filter(|target| *target <= instruction.ip());
        let leads_back = back.is_some_and(|target| !grown(&target));
        if leads_back || may_be_seen(instruction) {
            return Err(Refusal::Unmovable(instruction.ip()));
        }
        Ok(())
    }
}

/// Whether the runtime may see where an instruction is: it calls, or it may fault.
fn may_be_seen(instruction: &Instruction) -> bool {
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
