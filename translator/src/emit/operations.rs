//! Copies the instructions of a block.
//!
//! Most instructions are copied byte by byte. The displacement of an operand relative to `rip` is
//! adapted to the new address. If `r15` points into the ring, an instruction that uses `r15` gets
//! another register instead, whose value is saved before the instruction and restored after it.
//!
//! ```text
//! original       generated, with a ring
//! add rax, r15   mov gs:[16], rdx    saves rdx
//!                mov rdx, gs:[120]   loads the program's value of r15
//!                add rax, rdx
//!                mov rdx, gs:[16]    restores rdx
//! mov rax, r15   mov rax, gs:[120]
//! ```

use hmtt_probe::address::RunAddr;
use iced_x86::{Code, Encoder, Instruction, OpKind, Register};

use super::register::{R11, R15, RCX};
use super::writer::jump_extent;
use super::{Emitter, LOOKUP_REGISTERS, Registers};
use crate::block::{End, Operation, Untranslatable, Why};
use crate::layout::area;
use crate::state::Point;

/// Registers that an instruction may get instead of `r15`, in order of preference.
pub(super) const SUBSTITUTES: [u8; 14] = [0, 2, 1, 6, 7, 8, 9, 10, 11, 3, 5, 12, 13, 14];

impl Emitter<'_> {
    /// Copies an operation that does not end the block.
    pub(super) fn operation(&mut self, index: usize) -> Result<(), Untranslatable> {
        let block = self.block;
        let operation = &block.operations[index];
        self.load_before(index);
        self.record(index, false)?;
        let before = self.within(index, Registers::NONE);
        self.hot.point(before);
        let uses_r15 = operation.uses.touched().contains(R15);
        if self.around.ring && uses_r15 {
            if !self.simple_use(&operation.instruction) {
                self.keep_flags(operation);
                // After the instruction, registers that it overwrites have their new values while
                // the other register is restored.
                self.unloaded = self.unloaded.without(operation.uses.overwritten);
                let after = self.within(index + 1, Registers::NONE);
                let busy = operation.uses.touched();
                self.substitute(operation, &operation.instruction, busy, before, after)?;
            }
        } else {
            self.align_branch(index);
            self.copy(operation)?;
        }
        self.keep_flags(operation);
        self.unloaded = self.unloaded.without(operation.uses.overwritten);
        self.record(index, true)
    }

    /// Loads the registers of a landing that an operation needs. Before the comparison for a
    /// conditional jump, both are loaded, so that the jump can be directly after the comparison.
    fn load_before(&mut self, index: usize) {
        let uses = &self.block.operations[index].uses;
        let needed = uses.touched().without(uses.overwritten);
        let is_last = index + 1 == self.block.body_len();
        match self.block.end {
            End::Conditional { .. } if is_last && !self.is_inner() => {
                self.load(index, Registers::ALL)
            }
            _ => self.load(index, needed),
        }
    }

    /// Loads registers of a landing that are not loaded yet, before the operation at an index.
    pub(super) fn load(&mut self, index: usize, registers: Registers) {
        for number in registers.iter().filter(|number| LOOKUP_REGISTERS.contains(*number)) {
            if self.unloaded.contains(number) {
                self.hot.point(self.within(index, Registers::NONE));
                self.hot.restore(number);
                self.unloaded = self.unloaded.without(Registers::one(number));
            }
        }
    }

    /// Aligns the conditional jump that follows an instruction, by padding before both: processors
    /// execute a comparison and the jump directly after it as one.
    fn align_branch(&mut self, index: usize) {
        let is_branch = matches!(self.block.end, End::Conditional { .. });
        if !is_branch || index + 1 != self.block.body_len() || self.is_inner() {
            return;
        }
        if self.block.operations[index + 1].instruction.is_jcc_short_or_near() {
            let (ahead, bytes) = jump_extent(2);
            let length = self.block.operations[index].instruction.len() as u64;
            self.hot.keep_together(length + ahead, bytes);
            self.hot.point(self.within(index, Registers::NONE));
        }
    }

    /// Notes that an operation overwrites all flags, after which they are the program's again.
    fn keep_flags(&mut self, operation: &Operation) {
        if operation.uses.flags_overwritten == crate::block::StatusFlags::ALL {
            self.dirty_flags = false;
        }
    }

    /// Copies an instruction, and adapts its displacement if it is relative to `rip`.
    fn copy(&mut self, operation: &Operation) -> Result<(), Untranslatable> {
        let bytes = self.block.bytes_of(operation);
        let Some(at) = operation.relative_at else {
            self.hot.put(bytes);
            return Ok(());
        };
        let instruction = &operation.instruction;
        let target = instruction.ip_rel_memory_address();
        let next = self.hot.here() + bytes.len() as u64;
        let distance = target.wrapping_sub(next) as i64;
        // The sum is computed modulo 2^32 with 32-bit addresses, so any distance can be reached.
        let displacement = match i32::try_from(distance) {
            Ok(displacement) => displacement,
            Err(_) if instruction.memory_base() == Register::EIP => distance as i32,
            Err(_) => return Err(refusal(instruction, Why::OutOfReach)),
        };
        let at = self.hot.bytes.len() + usize::from(at);
        self.hot.put(bytes);
        self.hot.bytes[at..at + 4].copy_from_slice(&displacement.to_le_bytes());
        Ok(())
    }

    /// Replaces a move, push or pop of the whole `r15` by an instruction that uses its saved value
    /// in the thread area. Returns `false`, and adds nothing, for other instructions.
    fn simple_use(&mut self, instruction: &Instruction) -> bool {
        let saved = area::save(R15);
        let number = |operand: u32| instruction.op_register(operand).number() as u8;
        match instruction.code() {
            Code::Push_r64 => {
                self.hot.put(&[0x65, 0xff, 0x34, 0x25]);
                self.hot.put(&saved.to_le_bytes());
            }
            Code::Pop_r64 => {
                self.hot.put(&[0x65, 0x8f, 0x04, 0x25]);
                self.hot.put(&saved.to_le_bytes());
            }
            Code::Mov_r64_rm64 | Code::Mov_rm64_r64
                if instruction.op0_kind() == OpKind::Register
                    && instruction.op1_kind() == OpKind::Register =>
            {
                match (number(0), number(1)) {
                    (R15, R15) => {}
                    (R15, source) => self.hot.store(saved, source),
                    (destination, _) => self.hot.load(destination, saved),
                }
            }
            _ => return false,
        }
        true
    }

    /// Adds an instruction with another register instead of `r15`. `busy`: registers that the other
    /// one must not be. `before` and `after`: the original states around the instruction.
    pub(super) fn substitute(
        &mut self,
        operation: &Operation,
        instruction: &Instruction,
        busy: Registers,
        before: Point,
        after: Point,
    ) -> Result<(), Untranslatable> {
        let busy = busy.with(self.unloaded);
        let free = SUBSTITUTES.iter().copied().find(|number| !busy.contains(*number));
        let number = free.ok_or_else(|| refusal(instruction, Why::OutOfReach))?;
        let substitute = Registers::one(number);
        let uses = &operation.uses;
        self.hot.save(number);
        if !uses.overwritten.contains(R15) {
            self.hot.point(before);
            self.hot.load(number, area::save(R15));
        }
        self.hot.point(Point { borrowed: before.borrowed.with(substitute), ..before });
        let mut changed = *instruction;
        replace_r15(&mut changed, number);
        self.encode(&changed)?;
        if uses.written.contains(R15) {
            self.hot.store(area::save(R15), number);
        }
        self.hot.point(Point { borrowed: after.borrowed.with(substitute), ..after });
        self.hot.restore(number);
        Ok(())
    }

    /// Adds an instruction by encoding it.
    pub(super) fn encode(&mut self, instruction: &Instruction) -> Result<(), Untranslatable> {
        let mut encoder = Encoder::new(64);
        match encoder.encode(instruction, self.hot.here()) {
            Ok(_) => self.hot.put(&encoder.take_buffer()),
            Err(_) => return Err(refusal(instruction, Why::OutOfReach)),
        }
        Ok(())
    }

    /// Loads `rcx` with the target of an indirect transfer: `jmp [rax + 8]` becomes `mov rcx, [rax
    /// + 8]`. `rcx` and `r11` must have been saved.
    pub(super) fn load_target(
        &mut self,
        operation: &Operation,
        before: Point,
        after: Point,
    ) -> Result<(), Untranslatable> {
        let mut load = operation.instruction;
        let is_register = load.op0_kind() == OpKind::Register;
        if self.around.ring && is_register && load.op0_register() == Register::R15 {
            self.hot.load(RCX, area::save(R15));
            return Ok(());
        }
        load.set_op1_kind(load.op0_kind());
        if is_register {
            load.set_op1_register(load.op0_register());
        }
        load.set_code(Code::Mov_r64_rm64);
        load.set_op0_kind(OpKind::Register);
        load.set_op0_register(Register::RCX);
        load.set_has_rep_prefix(false);
        load.set_has_repne_prefix(false);
        let touched = operation.uses.touched();
        if self.around.ring && touched.contains(R15) {
            let pair = Registers::one(RCX).with(Registers::one(R11));
            return self.substitute(operation, &load, touched.with(pair), before, after);
        }
        self.encode(&load)
    }
}

fn refusal(instruction: &Instruction, why: Why) -> Untranslatable {
    Untranslatable { at: RunAddr(instruction.ip()), why }
}

/// Replaces `r15` and its parts in all operands with another register.
fn replace_r15(instruction: &mut Instruction, number: u8) {
    for operand in 0..instruction.op_count() {
        let register = instruction.op_register(operand);
        let is_register = instruction.op_kind(operand) == OpKind::Register;
        if is_register && register.full_register() == Register::R15 {
            instruction.set_op_register(operand, part(register, number));
        }
    }
    let (base, index) = (instruction.memory_base(), instruction.memory_index());
    if base.full_register() == Register::R15 {
        instruction.set_memory_base(part(base, number));
    }
    if index.full_register() == Register::R15 {
        instruction.set_memory_index(part(index, number));
    }
}

/// The part of a general register that corresponds to a part of `r15`: `edx` for `r15d`. `number`:
/// number of the general register.
fn part(like: Register, number: u8) -> Register {
    let first = match like {
        Register::R15L if number < 4 => Register::AL,
        // spl to dil follow the registers ah to bh.
        Register::R15L => return Register::SPL + (u32::from(number) - 4),
        Register::R15W => Register::AX,
        Register::R15D => Register::EAX,
        _ => Register::RAX,
    };
    first + u32::from(number)
}
