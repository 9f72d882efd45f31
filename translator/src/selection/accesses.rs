//! Finds the memory accesses of a block, in program order.
//!
//! [`memory_accesses`](crate::memory_accesses) states what each instruction accesses.

use hmtt_format::Direction;
use iced_x86::{InstructionInfoFactory, Mnemonic, OpAccess, Register};

use super::expression::{Address, Expression, Index, Template};
use super::registers::{Equality, Origin, State, Value};
use crate::block::Block;
use crate::memory_accesses::{self, Condition, Lanes, MemoryAccess, Operand};

/// An access of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// Index of its instruction in [`Block::operations`], or among the operations of all blocks of
    /// a path.
    pub operation: usize,
    /// The expression of its address, if it has one.
    pub address: Address,
    /// The registers and the displacement that the instruction names.
    pub operand: Operand,
    /// Whether the address is the value of `operand`. If the operand adds the base of `fs`, this is
    /// the base at the start of the blocks.
    pub is_located: bool,
    /// Number of bytes. With several elements it is the size of one; 0 if the instruction does not
    /// determine the size.
    pub size: u32,
    /// For an access with several elements of which some are accessed: which ones, and where they
    /// are from the address on.
    pub lanes: Option<Lanes>,
    /// Whether it reads or writes.
    pub direction: Direction,
    /// Whether memory may not be accessed, depending on values other than the address and masks:
    /// the store of a `cmpxchg`, or parts of `xsavec`.
    pub conditional: bool,
}

/// Returns the accesses of blocks that are executed one after the other, in program order.
/// Operations are numbered through all blocks.
///
/// An instruction that reads and writes the same memory has two accesses with the same expression:
/// the read, then the write. Within an instruction reads come before writes, except in `enter`,
/// which pushes the values that it reads one by one.
///
/// For `push rbp; mov rbp, rsp; push rbx` there are two accesses of 8 bytes. With
/// [`Equality::Values`] their expressions are `<rsp.0, -, -0x8>` and `<rsp.0, -, -0x10>`.
///
/// Addresses are [sets](Address::Set) in vector gathers and scatters, loads and stores under a
/// mask, strings with a repeat prefix, `bt`, `bts`, `btr` and `btc` with the bit's number in a
/// register, tile loads and stores, `clzero`, and extended states of the processor (`xsave`).
pub fn path_accesses(blocks: &[Block], equality: Equality) -> Vec<Access> {
    let mut factory = InstructionInfoFactory::new();
    let mut state = State::new(equality);
    let mut accesses = Vec::new();
    let operations = blocks.iter().flat_map(|block| &block.operations);
    for (number, operation) in operations.enumerate() {
        let instruction = &operation.instruction;
        let info = factory.info(instruction);
        memory_accesses::for_each(instruction, info, |memory_access| {
            accesses.push(access(number, &memory_access, &state))
        });
        let names_fs = info.used_registers().iter().any(|used| {
            used.register() == Register::FS
                && !matches!(used.access(), OpAccess::Read | OpAccess::CondRead)
        });
        let writes_fs =
            names_fs || matches!(instruction.mnemonic(), Mnemonic::Wrfsbase | Mnemonic::Lfs);
        // The addresses of an instruction use the values from before it.
        state.execute(operation, writes_fs);
    }
    accesses
}

/// Returns the accesses of a block in program order, as [`path_accesses`] does.
pub fn accesses(block: &Block, equality: Equality) -> Vec<Access> {
    path_accesses(std::slice::from_ref(block), equality)
}

/// An access of an operation. `state`: the registers before the operation.
fn access(operation: usize, memory_access: &MemoryAccess, state: &State) -> Access {
    let MemoryAccess { operand, size, direction, condition, is_uncertain, .. } = *memory_access;
    let lanes = match condition {
        Condition::Lanes(lanes) => Some(lanes),
        _ => None,
    };
    let conditional = is_uncertain || condition == Condition::Repeated;
    let is_elsewhere = memory_access.is_elsewhere || condition == Condition::Repeated;
    let is_located = !is_elsewhere && (!operand.is_fs || state.fs().version == 0);
    let is_set = is_elsewhere || lanes.is_some() || operand.alignment > 0;
    let address =
        if is_set { Address::Set } else { Address::Expression(expression(&operand, state)) };
    Access { operation, address, operand, is_located, size, lanes, direction, conditional }
}

/// The expression of the address that an operand names.
fn expression(operand: &Operand, state: &State) -> Expression {
    let segment = operand.is_fs.then(|| state.fs());
    let Operand { base, index, scale, displacement, .. } = *operand;
    let value = |register| (register != Register::None).then(|| state.value(register));
    let template = template(value(base), value(index), scale, displacement);
    Expression { segment, template }
}

/// The parts of an address, with all constants added up.
fn template(base: Option<Value>, index: Option<Value>, scale: u8, displacement: i64) -> Template {
    let mut constant = displacement;
    let mut register = |value: Option<Value>, scale: u8| {
        let Value { origin, offset } = value?;
        constant = constant.wrapping_add(offset.wrapping_mul(i64::from(scale)));
        Some(origin)
    };
    let (base, index) = (register(base, 1), register(index, scale));
    let scaled = match index {
        Some(Origin::Register(register)) => Some(Index { register, scale }),
        Some(Origin::Static) | None => None,
    };
    match (base, index) {
        (Some(Origin::Register(base)), Some(Origin::Static)) => {
            Template::Irr { base: constant as u64, index: None, displacement: Some(base) }
        }
        (Some(Origin::Register(base)), _) => {
            Template::Rri { base, index: scaled, displacement: constant }
        }
        (Some(Origin::Static) | None, _) => {
            Template::Irr { base: constant as u64, index: scaled, displacement: None }
        }
    }
}
