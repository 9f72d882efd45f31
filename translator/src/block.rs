//! Intermediate blocks: the description of original code that everything else reads.
//!
//! A block is a series of instructions up to the first transfer. Blocks may start at any address
//! and may overlap. `decode` reads them from original code, `uses` finds the registers and flags of
//! each instruction, and `liveness` those whose values are still needed.

mod decode;
mod liveness;
mod uses;

use hmtt_probe::address::RunAddr;
use iced_x86::Instruction;
use thiserror::Error;

use crate::extent::Extent;
use crate::state::Registers;
pub use uses::{Class, StatusFlags, Uses};

/// Most instructions of a block. What follows is in the next block.
pub const MAX_INSTRUCTIONS: usize = 64;
/// Most bytes of a block.
pub const MAX_BYTES: usize = 512;

/// A block.
#[derive(Clone, Debug)]
pub struct Block {
    /// Original address of its first instruction.
    pub start: RunAddr,
    /// Original bytes of its instructions.
    pub bytes: Box<[u8]>,
    /// Its instructions, at least one. The last one is the transfer, if the block ends with one.
    pub operations: Vec<Operation>,
    /// How it ends.
    pub end: End,
    /// Whether its bytes may change without a system call of the process. Such a block ends with
    /// its first store, which may change what follows.
    pub may_change: bool,
    /// How much of its accesses is recorded, if any are.
    pub extent: Extent,
}

/// An instruction of a block.
#[derive(Clone, Copy, Debug)]
pub struct Operation {
    /// The decoded instruction, with its original address.
    pub instruction: Instruction,
    /// What kind of instruction it is.
    pub class: Class,
    /// The registers and flags that it reads and writes.
    pub uses: Uses,
    /// Registers whose values before the instruction are still needed.
    pub live: Registers,
    /// Status flags whose values before the instruction are still needed.
    pub live_flags: StatusFlags,
    /// Offset in the instruction of the displacement of a memory operand relative to `rip`.
    pub relative_at: Option<u8>,
}

/// How a block ends, and where the program continues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// A direct jump.
    Direct {
        /// Its target.
        to: RunAddr,
    },
    /// A conditional jump.
    Conditional {
        /// Its target.
        to: RunAddr,
        /// Address of the next instruction.
        next: RunAddr,
    },
    /// A direct call.
    Call {
        /// The called address.
        to: RunAddr,
        /// The return address.
        return_to: RunAddr,
    },
    /// A jump to an address in a register or in memory.
    Indirect,
    /// A call of an address in a register or in memory.
    IndirectCall {
        /// The return address.
        return_to: RunAddr,
    },
    /// A return.
    Return {
        /// Number of bytes that are removed from the stack after the return address.
        pop: u16,
    },
    /// A system call.
    Syscall {
        /// Address of the next instruction.
        next: RunAddr,
    },
    /// The block is long enough.
    FallThrough {
        /// Address of the next instruction.
        next: RunAddr,
    },
    /// The next instruction runs natively.
    Untranslatable(Untranslatable),
}

impl Block {
    /// Whether a direct transfer at its end may lead back to the start of its path.
    pub fn may_be_repeated_from(&self) -> bool {
        matches!(
            self.end,
            End::Direct { .. }
                | End::Conditional { .. }
                | End::Call { .. }
                | End::FallThrough { .. }
        )
    }

    /// Number of operations before the one that ends the block.
    pub fn body_len(&self) -> usize {
        match self.end {
            End::FallThrough { .. } | End::Untranslatable(_) => self.operations.len(),
            _ => self.operations.len() - 1,
        }
    }

    /// Original bytes of an operation.
    pub fn bytes_of(&self, operation: &Operation) -> &[u8] {
        let from = operation.instruction.ip().wrapping_sub(self.start.0) as usize;
        &self.bytes[from..from + operation.instruction.len()]
    }

    /// Address after the block.
    pub fn limit(&self) -> RunAddr {
        self.start.wrapping_add(self.bytes.len() as u64)
    }
}

/// Why an instruction is not translated, but runs natively.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// Its bytes cannot be read.
    NotReadable,
    /// Its bytes have changed many times.
    ChangesOften,
    /// It is not a valid instruction.
    Invalid,
    /// It uses `gs`, which generated code uses.
    UsesGs,
    /// It is a trap, a far transfer, or another transfer of a kind that is not translated.
    Transfer,
    /// Its memory operand is out of reach from the cache.
    OutOfReach,
    /// It belongs to a restartable sequence.
    Sequence,
}

impl std::fmt::Display for Why {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Why::NotReadable => "its bytes cannot be read",
            Why::ChangesOften => "its bytes change often",
            Why::Invalid => "it is not valid",
            Why::UsesGs => "it uses gs",
            Why::Transfer => "it is a transfer that is not translated",
            Why::OutOfReach => "its operand is out of reach",
            Why::Sequence => "it belongs to a restartable sequence",
        })
    }
}

/// An instruction that runs natively.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("the instruction at {at:#x} is not translated: {why}")]
pub struct Untranslatable {
    /// Original address of the instruction.
    pub at: RunAddr,
    /// The reason.
    pub why: Why,
}
