//! Describes the blocks whose numbers the monitor reads: where each block begins, and how it ends.

use std::sync::Arc;

use hmtt_probe::address::RunAddr;
use iced_x86::{Decoder, DecoderOptions, FlowControl, Instruction, Mnemonic, OpKind};

/// How a block ends, and where the program continues after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// A direct jump.
    Jump {
        /// Target of the jump.
        to: RunAddr,
    },
    /// A conditional jump, to its target or to the next instruction.
    Conditional {
        /// Target of the jump.
        to: RunAddr,
    },
    /// A direct call.
    Call {
        /// The called address.
        to: RunAddr,
    },
    /// A jump to an address in a register or in memory.
    IndirectJump,
    /// A call of an address in a register or in memory.
    IndirectCall,
    /// A return.
    Return,
    /// A system call, after which the next instruction is executed.
    SystemCall,
    /// None of these: the block is long enough, or the next instruction runs natively.
    FallThrough,
}

impl End {
    /// Whether the next block depends on a register or on memory.
    pub fn is_indirect(self) -> bool {
        matches!(self, End::IndirectJump | End::IndirectCall | End::Return)
    }

    /// The address that a direct transfer contains.
    pub fn target(self) -> Option<RunAddr> {
        match self {
            End::Jump { to } | End::Conditional { to } | End::Call { to } => Some(to),
            _ => None,
        }
    }
}

/// Code of a block, as far as the monitor needs it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockCode {
    /// Original address of the first instruction.
    pub start: RunAddr,
    /// Original address after the last instruction.
    pub next: RunAddr,
    /// Original address of the last instruction.
    pub last: RunAddr,
    /// Number of instructions.
    pub instructions: u64,
    /// How the block ends.
    pub end: End,
}

/// The block or path that a number belongs to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Numbered {
    /// A block.
    Block(BlockCode),
    /// The first blocks of the path of a superblock. If these are not all blocks of the path, the
    /// thread has left the path after them.
    Path {
        /// Numbers of all blocks of the path.
        blocks: Arc<[u32]>,
        /// Number of blocks that were executed.
        length: usize,
    },
}

/// Describes the blocks and paths of numbers, and builds superblocks.
pub trait Blocks {
    /// Describes all numbers after `known`, in order.
    fn after(&self, known: u32) -> Vec<Numbered>;

    /// Builds a superblock of the blocks with these numbers. Returns whether it is in use.
    fn build(&self, _path: &[u32]) -> bool {
        false
    }

    /// Makes a block write only what is needed to know its accesses. If no accesses of the block
    /// are recorded, it does not even write its number.
    fn silence(&self, _block: u32) {}

    /// Stops using a superblock. `number`: the number of the whole path.
    fn undo(&self, _number: u32) {}

    /// Whether a superblock is in use.
    fn is_in_use(&self, _number: u32) -> bool {
        false
    }
}

impl<F: Fn(u32) -> Vec<Numbered>> Blocks for F {
    fn after(&self, known: u32) -> Vec<Numbered> {
        self(known)
    }
}

impl BlockCode {
    /// Describes the block with these original bytes.
    pub fn new(start: RunAddr, bytes: &[u8]) -> Self {
        let mut decoder = Decoder::with_ip(64, bytes, start.0, DecoderOptions::NONE);
        let (mut instruction, mut instructions) = (Instruction::default(), 0);
        while decoder.can_decode() {
            decoder.decode_out(&mut instruction);
            instructions += 1;
        }
        let next = start.wrapping_add(bytes.len() as u64);
        let last = if instructions == 0 { start } else { RunAddr(instruction.ip()) };
        BlockCode { start, next, last, instructions, end: end(&instruction) }
    }
}

/// How a block with this last instruction ends.
fn end(last: &Instruction) -> End {
    let to = RunAddr(last.near_branch_target());
    let is_near = last.op0_kind() == OpKind::NearBranch64;
    match last.flow_control() {
        _ if last.mnemonic() == Mnemonic::Syscall => End::SystemCall,
        FlowControl::UnconditionalBranch if is_near => End::Jump { to },
        FlowControl::ConditionalBranch if is_near => End::Conditional { to },
        FlowControl::Call if is_near => End::Call { to },
        FlowControl::IndirectBranch => End::IndirectJump,
        FlowControl::IndirectCall => End::IndirectCall,
        FlowControl::Return => End::Return,
        _ => End::FallThrough,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::block::{self, Block};

    /// The end that the translator's own decoder finds.
    fn decoded(bytes: &[u8]) -> End {
        match Block::from_bytes(RunAddr(0x1000), bytes).unwrap().end {
            block::End::Direct { to } => End::Jump { to },
            block::End::Conditional { to, .. } => End::Conditional { to },
            block::End::Call { to, .. } => End::Call { to },
            block::End::Indirect => End::IndirectJump,
            block::End::IndirectCall { .. } => End::IndirectCall,
            block::End::Return { .. } => End::Return,
            block::End::Syscall { .. } => End::SystemCall,
            block::End::FallThrough { .. } | block::End::Untranslatable(_) => End::FallThrough,
        }
    }

    #[test]
    fn ends_are_those_of_the_translator() {
        for bytes in [
            &[0x90, 0xeb, 5][..],
            &[0x90, 0xe9, 5, 0, 0, 0],
            &[0x90, 0x74, 5],
            &[0x0f, 0x84, 5, 0, 0, 0],
            &[0xe2, 5],
            &[0xe3, 0xfe],
            &[0xff, 0xe0],
            &[0xff, 0x25, 0, 0, 0, 0],
            &[0x90, 0xff, 0xd0],
            &[0x0f, 0x05],
            &[0xc3],
            &[0xf3, 0xc3],
            &[0xc2, 8, 0],
            &[0xe8, 0, 0, 0, 0],
            &[0x90, 0x90],
        ] {
            let code = BlockCode::new(RunAddr(0x1000), bytes);
            assert_eq!(code.end, decoded(bytes), "{bytes:x?}");
            assert_eq!(code.next, RunAddr(0x1000 + bytes.len() as u64));
        }
        let code = BlockCode::new(RunAddr(0x1000), &[0x90, 0x90, 0xeb, 0xfe]);
        assert_eq!((code.instructions, code.last), (3, RunAddr(0x1002)));
        assert_eq!(code.end.target(), Some(RunAddr(0x1002)));
        assert_eq!(BlockCode::new(RunAddr(7), &[]).last, RunAddr(7));
    }
}
