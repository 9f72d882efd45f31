//! Instructions to how they leave their function.

use iced_x86::{
    FlowControl, Instruction, InstructionInfoFactory, Mnemonic, OpAccess, OpKind, Register,
};

use super::body::Body;
use super::is_call;
use crate::elf::Image;

/// How far back the origin of a jump's register is looked for, in instructions.
const BACK: usize = 24;

/// A way to leave a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leaving {
    /// It returns.
    Return,
    /// It goes on as another function, at this address, or begins anew.
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
            // A function of Go begins anew when its stack has grown, and has not been entered yet.
            let grown = body.go.check != 0 && target == body.function.start;
            let inside = grown || body.owns(image, target);
            (target != 0 && !inside).then_some(Leaving::Jump(target))
        }
        FlowControl::IndirectBranch => {
            is_tail_call(image, body, index).then_some(Leaving::Computed)
        }
        _ => None,
    }
}

/// Whether a jump to a computed address is a call, not a `switch` or a `goto`. Those take addresses within
/// the function from data, or add distances.
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

/// Whether an instruction computes an address that is no function's: sums are those of a table's address and
/// its entry, a table on the stack was made by the function itself, and what is popped there is a return
/// address that the unwinder has put there, on a stack that is not the function's any more.
fn is_no_function(origin: &Instruction) -> bool {
    let computed = match origin.mnemonic() {
        Mnemonic::Add | Mnemonic::Sub | Mnemonic::Pop => true,
        Mnemonic::Lea => !origin.is_ip_rel_memory_operand(),
        _ => false,
    };
    computed || is_on_stack(origin)
}

/// Whether an instruction reads an element of something on the stack.
fn is_on_stack(instruction: &Instruction) -> bool {
    let base = matches!(instruction.memory_base(), Register::RSP | Register::RBP);
    base && instruction.memory_index() != Register::None
}

/// The last instruction before another one that writes a register, if no call may have.
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
