//! Generates code that stores the slots of a block in the ring, after the number of the block.
//! Slots are the values from which the addresses of the block's accesses follow.
//!
//! A general register is stored as it is. Sums of registers, values of `r15` and the signs of
//! vectors are first computed in another register. That register is saved before, and restored
//! afterwards.
//!
//! Storing a mask or vector needs no feature of the processor that the recorded instruction does
//! not need.

use hmtt_files::access_trace::SLOT_BYTES;
use hmtt_probe::address::RunAddr;
use iced_x86::{Code, IcedError, Instruction, MemoryOperand, Register};

use super::operations::SUBSTITUTES;
use super::register::R15;
use super::{Emitter, Registers};
use crate::block::{Untranslatable, Why};
use crate::layout::area;
use crate::recorded::{Content, Recorded, Silence, Slot};
use crate::selection::Operand;
use crate::state::Point;

/// Number of a register of an address; `None` for [`Register::None`].
fn number(register: Register) -> Option<u8> {
    (register != Register::None).then(|| register.full_register().number() as u8)
}

/// The registers of a sum.
fn registers(sum: &Operand) -> Registers {
    let numbers = [number(sum.base), number(sum.index)].into_iter().flatten();
    numbers.fold(Registers::NONE, |all, one| all.with(Registers::one(one)))
}

impl Emitter<'_> {
    /// Determines what the path records.
    pub(super) fn begin_recording(&mut self) {
        if let Some(choice) = &self.around.accesses {
            let recorded = Recorded::of_turn(self.path.blocks, choice, self.place.turn);
            (self.recorded, self.stored) = (recorded, 0);
        }
    }

    /// Whether the code of a superblock is generated, and not the code of a block by itself. A
    /// superblock with one block has a number of its own, which differs from the number of the
    /// block.
    fn is_path(&self) -> bool {
        self.path.blocks.len() > 1 || self.path.numbers.first() != Some(&self.place.number)
    }

    /// Whether the path writes nothing to the ring, because none of its accesses is chosen.
    pub(super) fn is_silent(&self) -> bool {
        let silence = self.around.accesses.map_or(Silence::Never, |choice| choice.silence);
        let may_be = silence == Silence::Superblocks && self.is_path();
        may_be && self.recorded.accesses.accesses.is_empty()
    }

    /// Whether the block has so many slots that the block after it must be entered at its check of
    /// the ring ([`Recorded::is_dense`]).
    pub(super) fn is_dense(&self) -> bool {
        self.recorded.is_dense(self.block)
    }

    /// Stores the slots of an operation. `is_after`: whether the slots with values after the
    /// operation are stored, or the slots with values before it.
    pub(super) fn record(&mut self, index: usize, is_after: bool) -> Result<(), Untranslatable> {
        while let Some(slot) = self.recorded.slots.get(usize::from(self.stored)).copied() {
            if (slot.operation, slot.is_after) != (self.before + index, is_after) {
                break;
            }
            // Slots with values after an instruction are stored when the instruction is complete,
            // so the original instruction pointer is at the next instruction. A repeated
            // instruction that is interrupted is not complete: the instruction pointer is still at
            // it.
            self.store_slot(index + usize::from(is_after), slot)?;
            self.stored += 1;
        }
        Ok(())
    }

    /// Stores the next slot, before the operation at an index. Slots follow the number of the path.
    /// Once that is written, the ring's pointer is behind all slots, so they have negative offsets.
    fn store_slot(&mut self, index: usize, slot: Slot) -> Result<(), Untranslatable> {
        let stored = i32::from(self.stored);
        let place = match self.unwritten {
            Some(_) => 1 + stored,
            None => stored - self.recorded.slots.len() as i32,
        };
        let at = SLOT_BYTES as i32 * place;
        match slot.content {
            Content::Sum(sum) => self.store_sum(index, at, &sum),
            Content::Bits { register, count } => self.store_bits(index, at, register, count),
            Content::Signs { register, bytes } => {
                let free = self.borrow(index, Registers::NONE)?;
                let signs = signs_to(free.register, register, bytes);
                self.encode(&signs.map_err(|_| self.refusal(index))?)?;
                self.store_borrowed(at, &free);
                Ok(())
            }
            // The first part has stored the whole vector.
            Content::Vector { part: 1.., .. } => Ok(()),
            Content::Vector { register, part: 0 } => {
                self.hot.point(self.within(index, Registers::NONE));
                let store = Instruction::with2(store_of(register), ring(at), register);
                self.encode(&store.map_err(|_| self.refusal(index))?)
            }
        }
    }

    /// The error that the operation at an index cannot be recorded.
    fn refusal(&self, index: usize) -> Untranslatable {
        let at = match self.block.operations.get(index) {
            Some(operation) => RunAddr(operation.instruction.ip()),
            None => self.block.start,
        };
        Untranslatable { at, why: Why::OutOfReach }
    }

    /// Stores a sum of registers at a distance from the ring's pointer.
    fn store_sum(&mut self, index: usize, at: i32, sum: &Operand) -> Result<(), Untranslatable> {
        self.load(index, registers(sum));
        let is_register = sum.index == Register::None && !sum.is_narrow && sum.displacement == 0;
        if let Some(register) = number(sum.base).filter(|one| is_register && *one != R15) {
            self.hot.point(self.within(index, Registers::NONE));
            self.store_register(at, register);
            return Ok(());
        }
        let free = self.borrow(index, registers(sum))?;
        let uses_r15 = registers(sum).contains(R15);
        if uses_r15 {
            self.hot.load(free.register, area::save(R15));
            self.hot.point(free.point);
        }
        if !(is_register && uses_r15) {
            let sum = sum_to(free.register, sum, uses_r15);
            self.encode(&sum.map_err(|_| self.refusal(index))?)?;
            self.hot.point(free.point);
        }
        self.store_borrowed(at, &free);
        Ok(())
    }

    /// Stores a mask register, of which `count` bits are needed.
    fn store_bits(
        &mut self,
        index: usize,
        at: i32,
        register: Register,
        count: u8,
    ) -> Result<(), Untranslatable> {
        let point = self.within(index, Registers::NONE);
        self.hot.point(point);
        let code = if count > 16 {
            Code::VEX_Kmovq_m64_kr
        } else {
            // Processors without instructions for bytes have masks of 16 bits.
            let zero = Instruction::with2(Code::Mov_rm64_imm32, ring(at), 0);
            self.encode(&zero.map_err(|_| self.refusal(index))?)?;
            self.hot.point(point);
            Code::VEX_Kmovw_m16_kr
        };
        let store = Instruction::with2(code, ring(at), register);
        self.encode(&store.map_err(|_| self.refusal(index))?)
    }

    /// Saves a register that is not `busy`, to use it before the operation at an index.
    fn borrow(&mut self, index: usize, busy: Registers) -> Result<Borrowed, Untranslatable> {
        let before = self.within(index, Registers::NONE);
        self.hot.point(before);
        let busy = busy.with(Registers::one(R15)).with(self.unloaded);
        let register = SUBSTITUTES.iter().copied().find(|number| !busy.contains(*number));
        let register = register.ok_or_else(|| self.refusal(index))?;
        let borrowed = before.borrowed.with(Registers::one(register));
        let point = Point { borrowed, ..before };
        self.hot.save(register);
        // Until the register is changed, the program's value is in the register and in the thread
        // area.
        self.hot.point(before);
        Ok(Borrowed { register, point })
    }

    /// Stores a borrowed register in the ring, and restores its own value.
    fn store_borrowed(&mut self, at: i32, borrowed: &Borrowed) {
        self.hot.point(borrowed.point);
        self.store_register(at, borrowed.register);
        self.hot.point(borrowed.point);
        self.hot.restore(borrowed.register);
    }

    /// Adds `mov [r15 + offset], register`.
    fn store_register(&mut self, offset: i32, register: u8) {
        self.hot.put(&[0x49 | register >> 3 << 2, 0x89]);
        let fields = (register & 7) << 3 | 7;
        match i8::try_from(offset) {
            Ok(short) => self.hot.put(&[0x40 | fields, short as u8]),
            Err(_) => {
                self.hot.put(&[0x80 | fields]);
                self.hot.put(&offset.to_le_bytes());
            }
        }
    }
}

/// A register that is used for another value, and the original state during this use.
struct Borrowed {
    register: u8,
    point: Point,
}

/// A place in the ring, at a distance in bytes from its pointer.
fn ring(at: i32) -> MemoryOperand {
    MemoryOperand::with_base_displ(Register::R15, at.into())
}

/// The instruction that stores a vector register.
fn store_of(register: Register) -> Code {
    let is_low = register.number() < 16;
    match register.size() {
        16 if is_low => Code::VEX_Vmovdqu_xmmm128_xmm,
        32 if is_low => Code::VEX_Vmovdqu_ymmm256_ymm,
        16 => Code::EVEX_Vmovdqu64_xmmm128_k1z_xmm,
        32 => Code::EVEX_Vmovdqu64_ymmm256_k1z_ymm,
        _ => Code::EVEX_Vmovdqu64_zmmm512_k1z_zmm,
    }
}

/// The instruction that moves the highest bit of each element of a vector to a general register,
/// `free`. `bytes`: size of an element.
///
/// # Errors
/// The instruction cannot be made.
fn signs_to(free: u8, register: Register, bytes: u8) -> Result<Instruction, IcedError> {
    let code = match (register.size(), bytes) {
        (8, _) => Code::Pmovmskb_r32_mm,
        (_, 1) => Code::Pmovmskb_r32_xmm,
        (16, 4) => Code::VEX_Vmovmskps_r32_xmm,
        (16, _) => Code::VEX_Vmovmskpd_r32_xmm,
        (_, 4) => Code::VEX_Vmovmskps_r32_ymm,
        _ => Code::VEX_Vmovmskpd_r32_ymm,
    };
    Instruction::with2(code, Register::EAX + u32::from(free), register)
}

/// The instruction `lea register, [sum]`. `replaces_r15`: whether `register` contains the program's
/// value of `r15`, and takes the place of `r15` in the sum.
///
/// # Errors
/// The instruction cannot be made.
fn sum_to(register: u8, sum: &Operand, replaces_r15: bool) -> Result<Instruction, IcedError> {
    let whole = Register::RAX + u32::from(register);
    let part = |addend: Register| match addend {
        Register::R15 if replaces_r15 => whole,
        Register::R15D if replaces_r15 => whole.full_register32(),
        other => other,
    };
    let operand = MemoryOperand::new(
        part(sum.base),
        part(sum.index),
        u32::from(sum.scale.max(1)),
        sum.displacement,
        if sum.displacement == 0 { 0 } else { 4 },
        false,
        Register::None,
    );
    Instruction::with2(Code::Lea_r64_m, whole, operand)
}
