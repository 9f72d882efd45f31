//! Describes original code as intermediate blocks, which everything else reads.
//!
//! A block is a series of instructions up to and including the first transfer: `mov`, `add`, `jne`
//! is one block. Blocks may start at any address and may overlap. `decode` reads them from original
//! code, `uses` finds the registers and flags that each instruction uses, and `liveness` finds the
//! registers and flags whose values are still needed.

mod decode;
mod liveness;
mod uses;

use hmtt_probe::address::RunAddr;
use iced_x86::Instruction;
use thiserror::Error;

use crate::extent::Extent;
use crate::state::Registers;
pub use uses::{Class, StatusFlags, Uses};

/// Maximum number of instructions of a block. Further ones are in the next block.
pub const MAX_INSTRUCTIONS: usize = 64;
/// Maximum number of bytes of a block.
pub const MAX_BYTES: usize = 512;

/// A block.
#[derive(Clone, Debug)]
pub struct Block {
    /// Original address of its first instruction.
    pub start: RunAddr,
    /// Original bytes of its instructions, without gaps.
    pub bytes: Box<[u8]>,
    /// Its instructions, at least one. The last one is the transfer, if the block ends with one.
    pub operations: Vec<Operation>,
    /// How it ends, and where the program continues.
    pub end: End,
    /// Whether its bytes may change without a system call of the process. Such a block ends with
    /// its first store, because the store may change the instructions that follow.
    pub may_change: bool,
    /// How much of its accesses is recorded, if accesses are recorded at all.
    pub extent: Extent,
}

/// An instruction of a block.
#[derive(Clone, Copy, Debug)]
pub struct Operation {
    /// The decoded instruction, with its original address.
    pub instruction: Instruction,
    /// Whether it accesses memory or ends the block.
    pub class: Class,
    /// The registers and flags that it reads and writes.
    pub uses: Uses,
    /// Registers whose values before the instruction may still be read. After the last instruction,
    /// these are all registers.
    pub live: Registers,
    /// Status flags whose values before the instruction may still be read. After the last
    /// instruction, these are all flags.
    pub live_flags: StatusFlags,
    /// Offset in the instruction of the displacement of a memory operand relative to `rip`. `None`
    /// without such an operand.
    pub relative_at: Option<u8>,
}

/// How a block ends, and where the program continues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// A direct jump.
    Direct {
        /// The target.
        to: RunAddr,
    },
    /// A conditional jump.
    Conditional {
        /// The target.
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
    /// The block ends without a transfer: it has the maximum number of instructions or bytes, the
    /// next instruction cannot be read, or a store may change the next instruction.
    FallThrough {
        /// Address of the next instruction.
        next: RunAddr,
    },
    /// The next instruction is not translated. It runs natively.
    Untranslatable(Untranslatable),
}

impl Block {
    /// Whether the block ends with a direct transfer or none, so that it may lead back to the start
    /// of its path in the cache.
    pub fn may_be_repeated_from(&self) -> bool {
        matches!(
            self.end,
            End::Direct { .. }
                | End::Conditional { .. }
                | End::Call { .. }
                | End::FallThrough { .. }
        )
    }

    /// Number of operations without the transfer at the end, if there is one.
    pub fn body_len(&self) -> usize {
        match self.end {
            End::FallThrough { .. } | End::Untranslatable(_) => self.operations.len(),
            _ => self.operations.len() - 1,
        }
    }

    /// Original bytes of an operation. The operation must be one of this block.
    pub fn bytes_of(&self, operation: &Operation) -> &[u8] {
        let from = operation.instruction.ip().wrapping_sub(self.start.0) as usize;
        &self.bytes[from..from + operation.instruction.len()]
    }

    /// Address after its last byte.
    pub fn limit(&self) -> RunAddr {
        self.start.wrapping_add(self.bytes.len() as u64)
    }
}

/// Why an instruction is not translated. It runs natively instead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// Its bytes cannot be read, or not all of them.
    NotReadable,
    /// Its bytes have changed too often since the cache was made.
    ChangesOften,
    /// It is not a valid instruction.
    Invalid,
    /// It uses `gs`, which generated code needs for the thread area.
    UsesGs,
    /// It is a trap, a far transfer, or another transfer of a kind that is not translated.
    Transfer,
    /// Its memory operand is farther from the cache than a displacement of 32 bits reaches.
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

/// An instruction that is not translated, but runs natively.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("the instruction at {at:#x} is not translated: {why}")]
pub struct Untranslatable {
    /// Original address of the instruction.
    pub at: RunAddr,
    /// The reason.
    pub why: Why,
}
