//! Finds addresses of instructions from which a function computes further addresses.
//!
//! Hand-written code enters an unrolled loop at a computed place, and tables of small numbers hold
//! distances from a label:
//!
//! ```text
//! lea rcx, [rip + unrolled]
//! lea rcx, [rcx + rdx*4]
//! call rcx
//! ```
//!
//! Control may then arrive at any instruction of the function that contains the address. Such an
//! address is followed from the instruction that names it, through registers and the stack, along
//! all paths, to an operation that changes it. In the example, the address of `unrolled` is
//! followed to the second `lea`. The use of the result is not examined: if it is no jump target, a
//! function only gets a smaller jump than necessary. Addresses that are passed to other functions
//! or stored elsewhere are not followed.

use std::collections::HashSet;
use std::ops::Range;

use iced_x86::{
    FlowControl, Instruction, InstructionInfoFactory, Mnemonic, OpAccess, OpKind, Register,
};

use super::{branch_target, is_call};

/// Maximum number of steps on the paths of a function: for each instruction, and in addition for
/// short functions.
const STEPS_EACH: usize = 64;
const STEPS: usize = 256;
/// Maximum number of places on the stack that are followed at once.
const SLOTS: usize = 4;
/// Bytes of a general-purpose register.
const WORD: i64 = 8;

/// Registers that a call may overwrite (System V ABI).
const OVERWRITTEN: [Register; 9] = [
    Register::RAX,
    Register::RCX,
    Register::RDX,
    Register::RSI,
    Register::RDI,
    Register::R8,
    Register::R9,
    Register::R10,
    Register::R11,
];

/// An instruction that loads the address of an instruction into a register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NamedAddress {
    /// Index of the instruction that loads the address.
    pub index: usize,
    /// Register that the address is loaded into.
    pub register: Register,
    /// The address.
    pub address: u64,
}

/// An address from which a further address is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ComputedBase {
    /// The address.
    pub address: u64,
    /// Address of the instruction that computes the further address.
    pub place: u64,
}

/// Places that hold a copy of an address: registers as a set of bits, and places on the stack by
/// their distance from the stack pointer at the beginning or from the frame pointer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Copies {
    registers: u16,
    slots: Vec<(Register, i64)>,
    /// Distance of the stack pointer from its value at the beginning.
    stack: i64,
}

/// Effect of an instruction on the copies of an address.
enum Effect {
    /// The instruction copies, stores or overwrites the address. These are the copies behind the
    /// instruction.
    Copied(Copies),
    /// The instruction computes a further address.
    Computed,
}

/// Selects the addresses among `named` from which the instructions of a function or part compute
/// further addresses.
pub(super) fn find(
    instructions: &[Instruction],
    range: &Range<u64>,
    named: &[NamedAddress],
) -> Vec<ComputedBase> {
    let mut factory = InstructionInfoFactory::new();
    let mut steps_left = STEPS + STEPS_EACH * instructions.len();
    let mut bases = Vec::new();
    for named_address in named {
        let place = follow(instructions, range, named_address, &mut factory, &mut steps_left);
        bases.extend(place.map(|place| ComputedBase { address: named_address.address, place }));
    }
    bases
}

/// Follows an address. Returns the address of an instruction that computes a further address from
/// it. If no steps are left, returns the address of the last instruction that was reached. `None`
/// if no instruction computes a further address.
fn follow(
    instructions: &[Instruction],
    range: &Range<u64>,
    named: &NamedAddress,
    factory: &mut InstructionInfoFactory,
    steps_left: &mut usize,
) -> Option<u64> {
    let mut seen: HashSet<(usize, Copies)> = HashSet::new();
    let copies = Copies { registers: bit(named.register), ..Copies::default() };
    let mut waiting = vec![(named.index + 1, copies)];
    while let Some((index, copies)) = waiting.pop() {
        let Some(instruction) = instructions.get(index) else { continue };
        if copies.is_empty() || !seen.insert((index, copies.clone())) {
            continue;
        }
        let Some(left) = steps_left.checked_sub(1) else { return Some(instruction.ip()) };
        *steps_left = left;
        let Effect::Copied(copies) = copies.after(instruction, factory) else {
            return Some(instruction.ip());
        };
        let target = branch_target(instruction).filter(|target| range.contains(target));
        let target = target
            .and_then(|target| instructions.binary_search_by_key(&target, Instruction::ip).ok());
        waiting.extend(target.map(|target| (target, copies.clone())));
        // The target of a computed jump is unknown here. Often it is the code that follows.
        let ends = matches!(
            instruction.flow_control(),
            FlowControl::Return | FlowControl::UnconditionalBranch | FlowControl::Exception
        );
        if !ends {
            waiting.push((index + 1, copies));
        }
    }
    None
}

/// Whether an instruction adds a constant to the stack pointer, or subtracts a constant from it.
fn is_stack_change(instruction: &Instruction) -> bool {
    let is_constant =
        matches!(instruction.op1_kind(), OpKind::Immediate8to64 | OpKind::Immediate32to64);
    is_constant && instruction.op0_register() == Register::RSP
}

/// Bit of a general-purpose register in the set; 0 for other registers.
fn bit(register: Register) -> u16 {
    let full = register.full_register();
    if full.is_gpr64() { 1 << (full as u32 - Register::RAX as u32) } else { 0 }
}

impl Copies {
    fn is_empty(&self) -> bool {
        self.registers == 0 && self.slots.is_empty()
    }

    fn has(&self, register: Register) -> bool {
        self.registers & bit(register) != 0
    }

    /// The place on the stack that the instruction's memory operand refers to; `None` if it is
    /// elsewhere.
    fn slot(&self, instruction: &Instruction) -> Option<(Register, i64)> {
        let distance = instruction.memory_displacement64().cast_signed();
        match (instruction.memory_base(), instruction.memory_index()) {
            (Register::RSP, Register::None) => Some((Register::RSP, self.stack + distance)),
            (Register::RBP, Register::None) => Some((Register::RBP, distance)),
            _ => None,
        }
    }

    fn holds(&self, slot: Option<(Register, i64)>) -> bool {
        slot.is_some_and(|slot| self.slots.contains(&slot))
    }

    fn set_register(&mut self, register: Register, is_copy: bool) {
        if is_copy { self.registers |= bit(register) } else { self.registers &= !bit(register) }
    }

    fn set_slot(&mut self, slot: Option<(Register, i64)>, is_copy: bool) {
        let Some(slot) = slot else { return };
        self.slots.retain(|other| *other != slot);
        if is_copy && self.slots.len() < SLOTS {
            self.slots.push(slot);
        }
    }

    /// Whether an operand of an instruction holds a copy of the address.
    fn is_operand(&self, instruction: &Instruction, operand: u32) -> bool {
        match instruction.op_kind(operand) {
            OpKind::Register => self.has(instruction.op_register(operand)),
            OpKind::Memory => self.holds(self.slot(instruction)),
            _ => false,
        }
    }

    fn after(mut self, instruction: &Instruction, factory: &mut InstructionInfoFactory) -> Effect {
        use Mnemonic as M;
        let operands = instruction.op_count();
        let has_operand = (0..operands).any(|operand| self.is_operand(instruction, operand));
        match instruction.mnemonic() {
            M::Mov => self.copy(instruction, 0, 1),
            M::Push => {
                let is_copy = self.is_operand(instruction, 0);
                self.stack -= WORD;
                self.set_slot(Some((Register::RSP, self.stack)), is_copy);
            }
            M::Pop => {
                let is_copy = self.holds(Some((Register::RSP, self.stack)));
                self.stack += WORD;
                self.set_register(instruction.op0_register(), is_copy);
            }
            M::Xchg => {
                self.copy(instruction, 0, 1);
                self.copy(instruction, 1, 0);
                if has_operand {
                    (0..2).for_each(|operand| self.set(instruction, operand, true));
                }
            }
            M::Lea => {
                let base = self.has(instruction.memory_base());
                let moves = instruction.memory_index() != Register::None
                    || instruction.memory_displacement64() != 0;
                if self.has(instruction.memory_index()) || base && moves {
                    return Effect::Computed;
                }
                self.set_register(instruction.op0_register(), base);
            }
            M::Add | M::Sub if is_stack_change(instruction) => {
                let distance = instruction.immediate(1).cast_signed();
                self.stack += if instruction.mnemonic() == M::Add { distance } else { -distance };
            }
            M::Add | M::Sub | M::Adc | M::Sbb | M::Inc | M::Dec | M::Xadd | M::Imul
                if has_operand =>
            {
                return Effect::Computed;
            }
            // If some bits of an address are cleared or set, the result is still close to the
            // address.
            M::And | M::Or if has_operand => {}
            M::Cmove
            | M::Cmovne
            | M::Cmova
            | M::Cmovae
            | M::Cmovb
            | M::Cmovbe
            | M::Cmovg
            | M::Cmovge
            | M::Cmovl
            | M::Cmovle
            | M::Cmovs
            | M::Cmovns
            | M::Cmovo
            | M::Cmovno
            | M::Cmovp
            | M::Cmovnp => {
                let is_copy = has_operand;
                self.set_register(instruction.op0_register(), is_copy);
            }
            _ if is_call(instruction) => {
                OVERWRITTEN.into_iter().for_each(|register| self.set_register(register, false));
            }
            _ => self.overwrite(instruction, factory),
        }
        Effect::Copied(self)
    }

    fn copy(&mut self, instruction: &Instruction, to: u32, from: u32) {
        let is_copy = self.is_operand(instruction, from);
        self.set(instruction, to, is_copy);
    }

    fn set(&mut self, instruction: &Instruction, operand: u32, is_copy: bool) {
        match instruction.op_kind(operand) {
            OpKind::Register => self.set_register(instruction.op_register(operand), is_copy),
            OpKind::Memory => self.set_slot(self.slot(instruction), is_copy),
            _ => {}
        }
    }

    /// Removes the registers that an instruction writes from the copies.
    fn overwrite(&mut self, instruction: &Instruction, factory: &mut InstructionInfoFactory) {
        for used in factory.info(instruction).used_registers() {
            let writes = matches!(used.access(), OpAccess::Write | OpAccess::ReadWrite);
            if writes {
                self.set_register(used.register(), false);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use iced_x86::code_asm::*;

    use super::*;

    /// Whether code computes an address from one that its first instruction loads into `rcx`.
    fn computes(write: impl Fn(&mut CodeAssembler) -> Result<(), IcedError>) -> bool {
        let mut code = CodeAssembler::new(64).unwrap();
        code.lea(rcx, ptr(0x5000)).unwrap();
        write(&mut code).unwrap();
        let bytes = code.assemble(0x1000).unwrap();
        let instructions: Vec<_> = super::super::instructions(&bytes, 0x1000).collect();
        let range = 0x1000..0x1000 + bytes.len() as u64;
        let named = NamedAddress { index: 0, register: Register::RCX, address: 0x5000 };
        !find(&instructions, &range, &[named]).is_empty()
    }

    type IcedError = iced_x86::IcedError;

    #[test]
    fn sums_with_an_address_are_found() {
        assert!(computes(|code| code.add(rcx, rdx).and_then(|()| code.jmp(rcx))));
        assert!(computes(|code| code.lea(rax, ptr(rcx + rdx * 4)).and_then(|()| code.call(rax))));
        assert!(computes(|code| code.mov(rax, rcx).and_then(|()| code.sub(rax, rdx))));
        // Through the stack, by pushing and by storing, and behind a call.
        assert!(computes(|code| {
            code.push(rcx)?;
            code.sub(rsp, 32)?;
            code.call(rbx)?;
            code.add(rsp, 32)?;
            code.pop(rdx)?;
            code.add(rax, rdx)
        }));
        assert!(computes(|code| {
            code.mov(qword_ptr(rbp - 8), rcx)?;
            code.call(rbx)?;
            code.add(rax, qword_ptr(rbp - 8))
        }));
        // Behind a branch.
        assert!(computes(|code| {
            let mut there = code.create_label();
            code.je(there)?;
            code.xor(ecx, ecx)?;
            code.ret()?;
            code.set_label(&mut there)?;
            code.add(rcx, 12)
        }));
    }

    #[test]
    fn addresses_that_are_called_passed_or_compared_are_not_found() {
        assert!(!computes(|code| code.call(rcx)));
        assert!(!computes(|code| {
            code.mov(rdi, rcx)?;
            code.cmp(rdi, rax)?;
            code.call(rbx)?;
            code.add(rdi, 8)
        }));
        assert!(!computes(|code| {
            code.mov(qword_ptr(rsp + 8), rcx)?;
            code.xor(ecx, ecx)?;
            code.add(rcx, 1)?;
            code.add(rax, qword_ptr(rsp + 16))
        }));
        assert!(!computes(|code| code.lea(rcx, ptr(rdx + 8)).and_then(|()| code.add(rcx, rdx))));
    }
}
