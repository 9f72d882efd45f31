//! Finds the registers and flags whose values are still needed at each instruction of a block.
//!
//! Nothing is assumed of what follows the block: everything is needed at its end.

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
