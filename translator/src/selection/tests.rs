//! Tests selections. Each module compares them with something else; this file has the functions
//! that the modules share.

mod accuracies;
mod distances;
mod example;
mod expressions;
mod interpreted;
mod naive;
mod programs;
mod selections;
mod values;

use hmtt_probe::address::RunAddr;
use iced_x86::IcedError;
use iced_x86::code_asm::CodeAssembler;

use super::{Access, Address, Chunk, Equality, Expression, Omega, Operand, Selector, accesses};
use crate::block::Block;

/// Assembles a block.
fn block(code: impl FnOnce(&mut CodeAssembler) -> Result<(), IcedError>) -> Block {
    let mut asm = CodeAssembler::new(64).unwrap();
    code(&mut asm).unwrap();
    let bytes = asm.assemble(0x1000).unwrap();
    let block = Block::from_bytes(RunAddr(0x1000), &bytes).unwrap();
    assert_eq!(block.bytes.len(), bytes.len(), "all of the code is in one block");
    block
}

/// Prints accesses: index of the instruction, direction, bytes, `?` if conditional, address.
fn printed(accesses: &[Access]) -> Vec<String> {
    let print = |access: &Access| {
        let Access { operation, address, size, direction, conditional, .. } = access;
        let mark = if *conditional { "?" } else { "" };
        format!("{operation} {}{size}{mark} {address}", direction.letter())
    };
    accesses.iter().map(print).collect()
}

/// Prints the accesses of a block.
fn found(block: &Block, equality: Equality) -> Vec<String> {
    printed(&accesses(block, equality))
}

/// An access of one byte with an expression.
fn access(expression: Expression) -> Access {
    let address = Address::Expression(expression);
    let direction = hmtt_format::Direction::Read;
    let none = iced_x86::Register::None;
    let operand = Operand {
        base: none,
        index: none,
        scale: 1,
        displacement: 0,
        is_narrow: false,
        is_fs: false,
        alignment: 0,
    };
    let (is_located, conditional) = (true, false);
    Access {
        operation: 0,
        address,
        operand,
        is_located,
        size: 1,
        lanes: None,
        direction,
        conditional,
    }
}

/// A selector of representatives.
fn selector(percent: u32, chunk: u64) -> Selector {
    let omega = Omega::from_percent(percent).unwrap();
    Selector::Representatives { omega, chunk: Chunk::new(chunk).unwrap() }
}

/// A generator of pseudo-random numbers (splitmix64).
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ mixed >> 31) % limit
    }

    fn one_of<T: Copy>(&mut self, values: &[T]) -> T {
        values[self.below(values.len() as u64) as usize]
    }
}
