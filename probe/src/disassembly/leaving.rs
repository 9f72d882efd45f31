//! Instructions to how they leave their function.

use iced_x86::{
    FlowControl, Instruction, InstructionInfoFactory, Mnemonic, OpAccess, OpKind, Register,
};

use super::body::Body;
use crate::elf::Image;

/// How far back the origin of a jump's register is looked for, in instructions.
const BACK: usize = 24;

/// A way to leave a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leaving {
    /// It returns.
    Return,
    /// It goes on as another function, at this address.
    Jump(u64),
    /// It goes on as another function, which it computes.
    Computed,
}

/// How the instruction with a number leaves its function, if so.
pub(super) fn of(image: &Image, body: &Body, index: usize) -> Option<Leaving> {
    let instruction = &body.instructions[index];
    match instruction.flow_control() {
        FlowControl::Return => {
            let near = matches!(instruction.mnemonic(), Mnemonic::Ret);
            near.then_some(Leaving::Return)
        }
        FlowControl::ConditionalBranch | FlowControl::UnconditionalBranch => {
            let target = instruction.near_branch_target();
            let inside = body.owns(image, target);
            (target != 0 && !inside).then_some(Leaving::Jump(target))
        }
        FlowControl::IndirectBranch => {
            is_tail_call(image, body, index).then_some(Leaving::Computed)
        }
        _ => None,
    }
}

/// Whether a jump to a computed address is a call, not a `switch`.
fn is_tail_call(image: &Image, body: &Body, index: usize) -> bool {
    let jump = &body.instructions[index];
    match jump.op0_kind() {
        OpKind::Memory if jump.is_ip_rel_memory_operand() => true,
        // A table of addresses, or a field of an object.
        OpKind::Memory => {
            let indexed = jump.memory_index() != Register::None;
            !body.has_inner_pointers(image) && !indexed
        }
        OpKind::Register => match origin(body, index, jump.op0_register()) {
            Some(origin) if origin.mnemonic() == Mnemonic::Mov => {
                let indexed = origin.memory_index() != Register::None;
                !(body.has_inner_pointers(image) || indexed)
            }
            // Sums are those of a table's address and its entry.
            Some(_) => false,
            None => !body.has_inner_pointers(image),
        },
        _ => false,
    }
}

/// The last instruction before another one that writes a register.
fn origin(body: &Body, index: usize, register: Register) -> Option<&Instruction> {
    let mut factory = InstructionInfoFactory::new();
    let mut before = body.instructions[..index].iter().rev().take(BACK);
    before.find(|instruction| {
        let info = factory.info(instruction);
        info.used_registers().iter().any(|used| {
            let writes = !matches!(used.access(), OpAccess::Read | OpAccess::CondRead);
            writes && used.register().full_register() == register.full_register()
        })
    })
}
