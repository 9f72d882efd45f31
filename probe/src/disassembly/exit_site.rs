//! Recognizes the instructions that leave a function: returns and tail calls.

use iced_x86::{
    FlowControl, Instruction, InstructionInfoFactory, Mnemonic, OpAccess, OpKind, Register,
};

use super::body::Body;
use super::is_call;
use crate::elf::Image;

/// Maximum number of instructions before a jump that are searched for the origin of its target.
const BACK: usize = 24;

/// Way in which an instruction leaves its function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExitKind {
    /// A return.
    Return,
    /// A jump to another function at this address, or to the start of the same function.
    Jump(u64),
    /// A jump to another function at a computed address.
    Computed,
}

/// Classifies an instruction by its index; `None` if it does not leave the function.
pub(super) fn find(image: &Image, body: &Body, index: usize) -> Option<ExitKind> {
    let instruction = &body.instructions[index];
    match instruction.flow_control() {
        FlowControl::Return => {
            let near = matches!(instruction.mnemonic(), Mnemonic::Ret);
            near.then_some(ExitKind::Return)
        }
        FlowControl::ConditionalBranch | FlowControl::UnconditionalBranch => {
            let target = instruction.near_branch_target();
            // A Go function branches to its start after its stack has grown. The function counts as
            // entered only after this branch.
            let is_restart = body.go.check != 0 && target == body.function.start;
            let inside = is_restart || body.owns(image, target);
            (target != 0 && !inside).then_some(ExitKind::Jump(target))
        }
        FlowControl::IndirectBranch => {
            is_tail_call(image, body, index).then_some(ExitKind::Computed)
        }
        _ => None,
    }
}

/// Whether a computed jump is a tail call. Otherwise it is a `switch` or a computed `goto`, which
/// takes an address within the function from data, or adds a distance to an address.
fn is_tail_call(image: &Image, body: &Body, index: usize) -> bool {
    let jump = &body.instructions[index];
    match jump.op0_kind() {
        OpKind::Memory if jump.is_ip_rel_memory_operand() => true,
        OpKind::Memory => !(body.has_inner_pointers(image) || is_on_stack(jump)),
        OpKind::Register => {
            let origin = origin(body, index, jump.op0_register());
            !body.has_inner_pointers(image) && !origin.is_some_and(is_no_function)
        }
        _ => false,
    }
}

/// Whether an instruction computes a jump target that cannot be the address of a function:
///
/// - A sum is the address of a table plus an entry.
/// - An element of a table on the stack was written by the function itself.
/// - A popped value is a return address that the unwinder has stored on another stack.
fn is_no_function(origin: &Instruction) -> bool {
    let is_computed = match origin.mnemonic() {
        Mnemonic::Add | Mnemonic::Sub | Mnemonic::Pop => true,
        Mnemonic::Lea => !origin.is_ip_rel_memory_operand(),
        _ => false,
    };
    is_computed || is_on_stack(origin)
}

/// Whether an instruction reads an element of an array on the stack.
fn is_on_stack(instruction: &Instruction) -> bool {
    let base = matches!(instruction.memory_base(), Register::RSP | Register::RBP);
    base && instruction.memory_index() != Register::None
}

/// The last instruction before a jump that writes a register. `None` if a call in between may write
/// the register.
fn origin(body: &Body, index: usize, register: Register) -> Option<&Instruction> {
    let mut factory = InstructionInfoFactory::new();
    let before = body.instructions[..index].iter().rev().take(BACK);
    let mut before = before.take_while(|instruction| !is_call(instruction));
    before.find(|instruction| {
        let info = factory.info(instruction);
        info.used_registers().iter().any(|used| {
            let writes = !matches!(used.access(), OpAccess::Read | OpAccess::CondRead);
            writes && used.register().full_register() == register.full_register()
        })
    })
}
