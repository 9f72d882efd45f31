//! Compares two instructions at different addresses for equal effects.

use iced_x86::{Instruction, OpKind};

/// Whether two instructions have the same effect. Targets of branches are not compared.
pub(super) fn is_same(first: &Instruction, second: &Instruction) -> bool {
    let code = |instruction: &Instruction| {
        let mut instruction = *instruction;
        if instruction.near_branch_target() != 0 {
            instruction.as_near_branch();
        }
        instruction.code()
    };
    let prefixes = |instruction: &Instruction| {
        (
            [
                instruction.has_lock_prefix(),
                instruction.has_rep_prefix(),
                instruction.has_repne_prefix(),
            ],
            [instruction.has_xacquire_prefix(), instruction.has_xrelease_prefix()],
            [
                instruction.zeroing_masking(),
                instruction.suppress_all_exceptions(),
                instruction.is_broadcast(),
            ],
            (instruction.op_mask(), instruction.rounding_control()),
        )
    };
    code(first) == code(second)
        && prefixes(first) == prefixes(second)
        && have_same_operands(first, second)
}

/// Whether two instructions have the same operands. Targets of branches are not compared.
pub(super) fn have_same_operands(first: &Instruction, second: &Instruction) -> bool {
    first.op_count() == second.op_count()
        && (0..first.op_count()).all(|number| is_same_operand(first, second, number))
}

fn is_same_operand(first: &Instruction, second: &Instruction, number: u32) -> bool {
    let kind = first.op_kind(number);
    if kind != second.op_kind(number) {
        return false;
    }
    let memory = |instruction: &Instruction| {
        // For operands relative to the instruction's address, iced returns the sum.
        (
            [instruction.memory_base(), instruction.memory_index(), instruction.memory_segment()],
            (instruction.memory_index_scale(), instruction.memory_displacement64()),
        )
    };
    match kind {
        OpKind::Register => first.op_register(number) == second.op_register(number),
        OpKind::NearBranch16 | OpKind::NearBranch32 | OpKind::NearBranch64 => true,
        OpKind::FarBranch16 | OpKind::FarBranch32 => {
            (first.far_branch32(), first.far_branch_selector())
                == (second.far_branch32(), second.far_branch_selector())
        }
        OpKind::Memory => memory(first) == memory(second),
        _ => match (first.try_immediate(number), second.try_immediate(number)) {
            (Ok(value), Ok(same)) => value == same,
            // String instructions: their registers are implied by the code.
            (Err(_), Err(_)) => first.memory_segment() == second.memory_segment(),
            _ => false,
        },
    }
}
