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
    /// Index of its instruction in [`Block::operations`], or in those of all blocks of a path.
    pub operation: usize,
    /// What is accessed.
    pub address: Address,
    /// What the instruction names.
    pub operand: Operand,
    /// Whether the access is where `operand` says, with the base of `fs` from the start of the
    /// blocks.
    pub is_located: bool,
    /// Number of bytes; of one element if there are several, and 0 if the instruction does not
    /// determine it.
    pub size: u32,
    /// If it has several elements, of which some are accessed: which, and where they are from the
    /// address on.
    pub lanes: Option<Lanes>,
    /// Whether it reads or writes.
    pub direction: Direction,
    /// Whether it depends on values other than the address and masks if memory is accessed: the
    /// store of a `cmpxchg`, or parts of `xsavec`.
    pub conditional: bool,
}

/// Returns the accesses of blocks that are executed one after the other, in program order.
/// Operations are numbered through.
///
/// An instruction that reads and writes the same memory has two accesses with the same expression:
/// the read, then the write. Within an instruction reads come before writes, except in `enter`,
/// which pushes what it reads one by one.
///
/// Addresses are [sets](Address::Set) in vector gathers and scatters, loads and stores under a
/// mask, strings with a repeat prefix, `bt`, `bts`, `btr` and `btc` with the bit's number in a
/// register, tile loads and stores, `clzero`, and extended states of the processor (`xsave`).
pub fn path_accesses(blocks: &[Block], equality: Equality) -> Vec<Access> {
    let mut factory = InstructionInfoFactory::new();
    let mut state = State::new(equality);
    let mut found = Vec::new();
    let operations = blocks.iter().flat_map(|block| &block.operations);
    for (number, operation) in operations.enumerate() {
        let instruction = &operation.instruction;
        let info = factory.info(instruction);
        memory_accesses::for_each(instruction, info, |one| {
            found.push(access(number, &one, &state))
        });
        let names_fs = info.used_registers().iter().any(|used| {
            used.register() == Register::FS
                && !matches!(used.access(), OpAccess::Read | OpAccess::CondRead)
        });
        let writes_fs =
            names_fs || matches!(instruction.mnemonic(), Mnemonic::Wrfsbase | Mnemonic::Lfs);
        // An instruction's own addresses have the values from before it.
        state.execute(operation, writes_fs);
    }
    found
}

/// Returns the accesses of a block in program order, as [`path_accesses`] does.
pub fn accesses(block: &Block, equality: Equality) -> Vec<Access> {
    path_accesses(std::slice::from_ref(block), equality)
}

/// An access of an operation, before which registers have these values.
fn access(operation: usize, found: &MemoryAccess, state: &State) -> Access {
    let MemoryAccess { operand, size, direction, condition, is_uncertain, .. } = *found;
    let lanes = match condition {
        Condition::Lanes(lanes) => Some(lanes),
        _ => None,
    };
    let conditional = is_uncertain || condition == Condition::Repeated;
    let is_elsewhere = found.is_elsewhere || condition == Condition::Repeated;
    let is_located = !is_elsewhere && (!operand.is_fs || state.fs().version == 0);
    let is_set = is_elsewhere || lanes.is_some() || operand.alignment > 0;
    let address = match is_set {
        true => Address::Set,
        false => Address::Expression(expression(&operand, state)),
    };
    Access { operation, address, operand, is_located, size, lanes, direction, conditional }
}

/// Returns the expression of an address.
fn expression(operand: &Operand, state: &State) -> Expression {
    let segment = operand.is_fs.then(|| state.fs());
    let Operand { base, index, scale, displacement, .. } = *operand;
    let value = |register| (register != Register::None).then(|| state.value(register));
    let template = template(value(base), value(index), scale, displacement);
    Expression { segment, template }
}

/// Returns the parts of an address, with constants added up.
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
