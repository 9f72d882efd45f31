//! Compares two instructions at different addresses for equal effects.

use iced_x86::{Instruction, OpKind};

/// Whether two instructions have the same effect. Targets of branches are not compared.
pub(super) fn is_same(one: &Instruction, other: &Instruction) -> bool {
    let code = |one: &Instruction| {
        let mut one = *one;
        if one.near_branch_target() != 0 {
            one.as_near_branch();
        }
        one.code()
    };
    let prefixes = |one: &Instruction| {
        (
            [one.has_lock_prefix(), one.has_rep_prefix(), one.has_repne_prefix()],
            [one.has_xacquire_prefix(), one.has_xrelease_prefix()],
            [one.zeroing_masking(), one.suppress_all_exceptions(), one.is_broadcast()],
            (one.op_mask(), one.rounding_control()),
        )
    };
    code(one) == code(other) && prefixes(one) == prefixes(other) && have_same_operands(one, other)
}

/// Whether two instructions have the same operands. Targets of branches are not compared.
pub(super) fn have_same_operands(one: &Instruction, other: &Instruction) -> bool {
    one.op_count() == other.op_count()
        && (0..one.op_count()).all(|number| is_same_operand(one, other, number))
}

fn is_same_operand(one: &Instruction, other: &Instruction, number: u32) -> bool {
    let kind = one.op_kind(number);
    if kind != other.op_kind(number) {
        return false;
    }
    let memory = |one: &Instruction| {
        // For operands relative to the instruction's address, iced returns the sum.
        (
            [one.memory_base(), one.memory_index(), one.memory_segment()],
            (one.memory_index_scale(), one.memory_displacement64()),
        )
    };
    match kind {
        OpKind::Register => one.op_register(number) == other.op_register(number),
        OpKind::NearBranch16 | OpKind::NearBranch32 | OpKind::NearBranch64 => true,
        OpKind::FarBranch16 | OpKind::FarBranch32 => {
            (one.far_branch32(), one.far_branch_selector())
                == (other.far_branch32(), other.far_branch_selector())
        }
        OpKind::Memory => memory(one) == memory(other),
        _ => match (one.try_immediate(number), other.try_immediate(number)) {
            (Ok(value), Ok(same)) => value == same,
            // String instructions: their registers are implied by the code.
            (Err(_), Err(_)) => one.memory_segment() == other.memory_segment(),
            _ => false,
        },
    }
}
