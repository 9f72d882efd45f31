//! States which memory an instruction accesses: the place, size, direction and condition of each of
//! its accesses.
//!
//! `add [rbx], eax` has two accesses of 4 bytes at `rbx`: a read, then a write. `push [rax]` reads
//! 8 bytes at `rax`, and writes 8 bytes at `rsp - 8`.
//!
//! The source is the list of `iced_x86`: memory operands, the stack, and strings. The list is
//! completed here. It has no access of `clzero`, has no sizes of saved states, and ignores masks.
//! `lea`, `nop` and prefetches access nothing; `clflush` and `clwb` count as reads.
//!
//! `tests/memory_accesses/table.txt` has the result for each instruction. A test executes all
//! instructions that the processor has, next to pages that must not be accessed or written.

mod lanes;
mod states;

use hmtt_format::Direction;
use iced_x86::{
    CodeSize, Instruction, InstructionInfo, InstructionInfoFactory, MemorySize, Mnemonic, OpAccess,
    OpKind, Register, UsedMemory,
};

pub use lanes::{Lanes, Mask, Order};
pub use states::{COMPACTED, StateComponent, preceding, state_components};

/// Bytes of the line that `clzero` writes on all processors that have it.
const CLZERO_BYTES: u32 = 64;

/// The registers and the displacement that an instruction names for an access. The address is their
/// sum: base + index * scale + displacement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Operand {
    /// The base, or [`Register::None`].
    pub base: Register,
    /// The index, or [`Register::None`]. It is a vector register in a gather or scatter.
    pub index: Register,
    /// Factor of the index: 1, 2, 4 or 8.
    pub scale: u8,
    /// The displacement, in bytes. For an address relative to `rip` it is the whole address.
    pub displacement: i64,
    /// Whether the sum is computed modulo 2^32.
    pub is_narrow: bool,
    /// Whether the base of `fs` is added to the sum.
    pub is_fs: bool,
    /// Binary logarithm of the alignment in bytes to which the sum is rounded down: 6 for `clzero`,
    /// 0 for others.
    pub alignment: u8,
}

/// When an instruction that is executed makes an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Condition {
    /// Always.
    Always,
    /// As often as `rcx` says: 0 times or more.
    Repeated,
    /// For the elements that a mask chooses, or whose addresses are in a vector.
    Lanes(Lanes),
}

/// An access of an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryAccess {
    /// The registers and the displacement that the instruction names.
    pub operand: Operand,
    /// Whether the address is not the value of `operand`, but somewhere from there on.
    pub is_elsewhere: bool,
    /// Number of bytes. With several elements it is the size of one; 0 if the instruction does not
    /// determine the size.
    pub size: u32,
    /// Whether it reads or writes.
    pub direction: Direction,
    /// When it is made.
    pub condition: Condition,
    /// Whether the access may not be made even under its condition, depending on values that are
    /// not known.
    pub is_uncertain: bool,
}

/// Calls a function with each access of an instruction. Reads come before writes, except in
/// `enter`, which pushes the values that it reads one by one. `info`: the description of the
/// instruction by `iced_x86`.
pub fn for_each(
    instruction: &Instruction,
    info: &InstructionInfo,
    mut add: impl FnMut(MemoryAccess),
) {
    if instruction.mnemonic() == Mnemonic::Clzero {
        return add(clzero(instruction));
    }
    if states::for_each(instruction, info.used_memory(), &mut add) {
        return;
    }
    let is_ordered = instruction.mnemonic() == Mnemonic::Enter;
    for used in info.used_memory() {
        let [read, write] = directions(used.access());
        if is_ordered || write.is_none() {
            [read, write].into_iter().flatten().for_each(|one| add(access(instruction, used, one)));
        } else if let Some(read) = read {
            add(access(instruction, used, read));
        }
    }
    for used in info.used_memory().iter().filter(|_| !is_ordered) {
        if let [_, Some(write)] = directions(used.access()) {
            add(access(instruction, used, write));
        }
    }
}

/// The accesses of an instruction, as [`for_each`] passes them on.
pub fn memory_accesses(instruction: &Instruction) -> Vec<MemoryAccess> {
    let mut accesses = Vec::new();
    let mut factory = InstructionInfoFactory::new();
    for_each(instruction, factory.info(instruction), |access| accesses.push(access));
    accesses
}

/// The read and the write of an operand: each with whether it depends on values.
fn directions(access: OpAccess) -> [Option<(Direction, bool)>; 2] {
    let (read, write) = (|may| Some((Direction::Read, may)), |may| Some((Direction::Write, may)));
    match access {
        OpAccess::Read => [read(false), None],
        OpAccess::CondRead => [read(true), None],
        OpAccess::Write => [None, write(false)],
        OpAccess::CondWrite => [None, write(true)],
        OpAccess::ReadWrite => [read(false), write(false)],
        OpAccess::ReadCondWrite => [read(false), write(true)],
        OpAccess::None | OpAccess::NoMemAccess => [None, None],
    }
}

fn access(
    instruction: &Instruction,
    used: &UsedMemory,
    (direction, is_uncertain): (Direction, bool),
) -> MemoryAccess {
    let whole = size(instruction, used);
    let (condition, size) = match lanes::of(instruction, used) {
        Some((lanes, bytes)) => (Condition::Lanes(lanes), bytes),
        None if is_repeated(instruction) => (Condition::Repeated, whole),
        None => (Condition::Always, whole),
    };
    let is_uncertain = is_uncertain && condition == Condition::Always && !instruction.has_op_mask();
    let is_elsewhere = selects_bit(instruction) || size == 0 || is_tile(instruction);
    let operand = operand(used);
    MemoryAccess { operand, is_elsewhere, size, direction, condition, is_uncertain }
}

/// Number of bytes of an operand; 0 if the instruction does not determine it.
fn size(instruction: &Instruction, used: &UsedMemory) -> u32 {
    let size = match used.memory_size() {
        MemorySize::Unknown => instruction.memory_size(),
        size => size,
    };
    match size {
        MemorySize::Fxsave_512Byte | MemorySize::Fxsave64_512Byte => 512,
        MemorySize::FpuEnv14 => 14,
        MemorySize::FpuEnv28 => 28,
        MemorySize::FpuState94 => 94,
        MemorySize::FpuState108 => 108,
        size => size.size() as u32,
    }
}

/// The access of `clzero`: it writes the line that contains the address in `rax`.
fn clzero(instruction: &Instruction) -> MemoryAccess {
    let base = match instruction.op0_register() {
        Register::None => Register::RAX,
        register => register,
    };
    let operand = Operand {
        base,
        index: Register::None,
        scale: 1,
        displacement: 0,
        is_narrow: base.is_gpr32(),
        is_fs: instruction.segment_prefix() == Register::FS,
        alignment: CLZERO_BYTES.trailing_zeros() as u8,
    };
    let (direction, condition) = (Direction::Write, Condition::Always);
    let (size, is_elsewhere, is_uncertain) = (CLZERO_BYTES, false, false);
    MemoryAccess { operand, is_elsewhere, size, direction, condition, is_uncertain }
}

/// Whether an instruction is a string instruction with a repeat prefix.
fn is_repeated(instruction: &Instruction) -> bool {
    let has_prefix = instruction.has_rep_prefix() || instruction.has_repne_prefix();
    has_prefix && instruction.is_string_instruction()
}

/// Whether an instruction accesses a bit whose number is in a register. The bit may be in memory
/// far from the operand.
fn selects_bit(instruction: &Instruction) -> bool {
    matches!(instruction.mnemonic(), Mnemonic::Bt | Mnemonic::Bts | Mnemonic::Btr | Mnemonic::Btc)
        && instruction.op1_kind() == OpKind::Register
}

/// Whether an operand is a tile, whose rows are at a distance from each other.
fn is_tile(instruction: &Instruction) -> bool {
    (0..instruction.op_count()).any(|operand| instruction.op_register(operand).is_tmm())
}

/// Returns the registers and the displacement that an instruction names for an access.
fn operand(used: &UsedMemory) -> Operand {
    let is_narrow = used.address_size() == CodeSize::Code32;
    let displacement = match used.displacement() {
        // Such an address is computed modulo 2^32.
        value if is_narrow && used.base() != Register::None => i64::from(value as u32 as i32),
        value => value as i64,
    };
    let (base, index, scale) = (used.base(), used.index(), used.scale() as u8);
    let is_fs = used.segment() == Register::FS;
    Operand { base, index, scale, displacement, is_narrow, is_fs, alignment: 0 }
}
