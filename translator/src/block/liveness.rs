//! Finds the registers and flags whose values are still needed at each instruction of a block.
//!
//! Before `mov eax, 1`, which overwrites all of `rax`, `rax` is not needed. Generated code may then
//! use it without saving it. All registers and flags are needed at the end of a block, because
//! nothing is known about the code after it.

use super::{Operation, StatusFlags};
use crate::state::Registers;

/// Sets the liveness of each operation, from the last to the first.
pub(super) fn set(operations: &mut [Operation]) {
    let (mut registers, mut flags) = (Registers::ALL, StatusFlags::ALL);
    for operation in operations.iter_mut().rev() {
        let uses = &operation.uses;
        registers = registers.without(uses.overwritten).with(uses.read);
        flags = StatusFlags(flags.0 & !uses.flags_overwritten.0 | uses.flags_read.0);
        (operation.live, operation.live_flags) = (registers, flags);
    }
}
