//! Finds the memory accesses of a block, in program order.
//!
//! Accesses are those that `iced_x86` lists: memory operands, the stack, and strings. `lea`, `nop` and prefetches
//! access nothing; `clflush` and `clwb` count as reads. The line that `clzero` writes is not listed.

use hmtt_format::Direction;
use iced_x86::{
    CodeSize, Instruction, InstructionInfoFactory, Mnemonic, OpAccess, OpKind, Register, UsedMemory,
};

use super::expression::{Address, Expression, Index, Template};
use super::registers::{Equality, Origin, State, Value};
use crate::block::{Block, Operation};

/// Most bytes of an access that one expression describes: the size of the largest register. Larger operands are saved
/// states, of which the processor accesses some parts only.
const MAX_BYTES: usize = 64;

/// The registers and the displacement that an instruction names for an access: the address is their sum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Operand {
    /// The base, or [`Register::None`].
    pub base: Register,
    /// The index, or [`Register::None`].
    pub index: Register,
    /// 1, 2, 4 or 8, which the index is multiplied by.
    pub scale: u8,
    /// The displacement, in bytes. That of an address relative to `rip` is the address.
    pub displacement: i64,
    /// Whether the sum is computed modulo 2^32.
    pub is_narrow: bool,
    /// Whether the base of `fs` is added.
    pub is_fs: bool,
}

/// An access of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// Index of its instruction in [`Block::operations`], or in those of all blocks of a path.
    pub operation: usize,
    /// What is accessed.
    pub address: Address,
    /// What the instruction names. Of a set it may be a part only.
    pub operand: Operand,
    /// Number of bytes; of one element if the address is a set, and 0 if the instruction does not determine it.
    pub size: u32,
    /// Whether it reads or writes.
    pub direction: Direction,
    /// Whether it depends on values other than the address if memory is accessed: a store under a mask, or that of a
    /// `cmpxchg`.
    pub conditional: bool,
}

/// Returns the accesses of blocks that are executed one after the other, in program order. Operations are numbered through.
///
/// An instruction that reads and writes the same memory has two accesses with the same expression: the read, then the
/// write. Within an instruction reads come before writes, except in `enter`, which pushes what it reads one by one.
///
/// Addresses are [sets](Address::Set) in vector gathers and scatters, strings with a repeat prefix, `bt`, `bts`, `btr`
/// and `btc` with the bit's number in a register, tile loads and stores, and saved processor states (`fxsave`, `xsave`,
/// `fnsave`).
pub fn path_accesses(blocks: &[Block], equality: Equality) -> Vec<Access> {
    let mut factory = InstructionInfoFactory::new();
    let mut state = State::new(equality);
    let mut found = Vec::new();
    let operations = blocks.iter().flat_map(|block| &block.operations);
    for (number, operation) in operations.enumerate() {
        let instruction = &operation.instruction;
        let info = factory.info(instruction);
        add(&mut found, number, operation, info.used_memory(), &state);
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

/// Adds the accesses of an instruction.
fn add(
    found: &mut Vec<Access>,
    number: usize,
    operation: &Operation,
    memory: &[UsedMemory],
    state: &State,
) {
    let instruction = &operation.instruction;
    let first = found.len();
    for used in memory {
        let (address, operand) = (address(instruction, used, state), operand(used));
        let size = match used.memory_size().size() {
            0 => instruction.memory_size().size(),
            size => size,
        };
        let mut add = |direction, conditional| {
            let size = size as u32;
            found.push(Access {
                operation: number,
                address,
                operand,
                size,
                direction,
                conditional,
            });
        };
        let (read, write) = (Direction::Read, Direction::Write);
        match used.access() {
            OpAccess::Read => add(read, false),
            OpAccess::CondRead => add(read, true),
            OpAccess::Write => add(write, false),
            OpAccess::CondWrite => add(write, true),
            OpAccess::ReadWrite => {
                add(read, false);
                add(write, false);
            }
            OpAccess::ReadCondWrite => {
                add(read, false);
                add(write, true);
            }
            OpAccess::None | OpAccess::NoMemAccess => {}
        }
    }
    if instruction.mnemonic() != Mnemonic::Enter {
        found[first..].sort_by_key(|access| access.direction);
    }
}

/// Returns the address of an access.
fn address(instruction: &Instruction, used: &UsedMemory, state: &State) -> Address {
    let is_repeated = instruction.has_rep_prefix() || instruction.has_repne_prefix();
    let size = used.memory_size().size();
    let is_set = used.vsib_size() != 0
        || size == 0
        || size > MAX_BYTES
        || is_repeated && instruction.is_string_instruction()
        || selects_bit(instruction);
    if is_set { Address::Set } else { Address::Expression(expression(used, state)) }
}

/// Whether an instruction accesses a bit by its number in a register, which may be in memory far from the operand.
fn selects_bit(instruction: &Instruction) -> bool {
    matches!(instruction.mnemonic(), Mnemonic::Bt | Mnemonic::Bts | Mnemonic::Btr | Mnemonic::Btc)
        && instruction.op1_kind() == OpKind::Register
}

/// Returns what an instruction names for an access.
fn operand(used: &UsedMemory) -> Operand {
    let is_narrow = used.address_size() == CodeSize::Code32;
    let displacement = match used.displacement() {
        // Such an address is computed modulo 2^32.
        value if is_narrow && used.base() != Register::None => i64::from(value as u32 as i32),
        value => value as i64,
    };
    let (base, index, scale) = (used.base(), used.index(), used.scale() as u8);
    let is_fs = used.segment() == Register::FS;
    Operand { base, index, scale, displacement, is_narrow, is_fs }
}

/// Returns the expression of an address.
fn expression(used: &UsedMemory, state: &State) -> Expression {
    let segment = (used.segment() == Register::FS).then(|| state.fs());
    let Operand { base, index, scale, displacement, .. } = operand(used);
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
