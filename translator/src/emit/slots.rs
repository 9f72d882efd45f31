//! Stores what the accesses of a block follow from, in the slots behind its number in the ring.
//!
//! A register is stored as it is. Sums of registers, and values of `r15`, are computed in another register, whose value is
//! saved before and restored after that.

use hmtt_format::access_trace::SLOT_BYTES;
use hmtt_probe::address::RunAddr;
use iced_x86::{Code, IcedError, Instruction, MemoryOperand, Register};

use super::operations::SUBSTITUTES;
use super::register::R15;
use super::{Emitter, Registers};
use crate::block::{Untranslatable, Why};
use crate::layout::area;
use crate::recorded::{Recorded, Silence, Slot};
use crate::selection::Operand;
use crate::state::Point;

/// Number of a register of an address.
fn number(register: Register) -> Option<u8> {
    (register != Register::None).then(|| register.full_register().number() as u8)
}

/// The registers of a sum.
fn registers(sum: &Operand) -> Registers {
    let all = [number(sum.base), number(sum.index)].into_iter().flatten();
    all.fold(Registers::NONE, |all, one| all.with(Registers::one(one)))
}

impl Emitter<'_> {
    /// Finds out what the path records.
    pub(super) fn begin_recording(&mut self) {
        if let Some(choice) = &self.around.accesses {
            let recorded = Recorded::of_turn(self.path.blocks, choice, self.place.turn);
            (self.recorded, self.stored) = (recorded, 0);
        }
    }

    /// Whether it is a path, of one block or several, and no block by itself: that has its own number.
    fn is_path(&self) -> bool {
        self.path.blocks.len() > 1 || self.path.numbers.first() != Some(&self.place.number)
    }

    /// Whether the path writes nothing, because no access is chosen.
    pub(super) fn is_silent(&self) -> bool {
        let silence = self.around.accesses.map_or(Silence::Never, |choice| choice.silence);
        let may_be = silence == Silence::Superblocks && self.is_path();
        may_be && self.recorded.accesses.accesses.is_empty()
    }

    /// Whether there are so many slots that what follows is entered where the ring is checked.
    pub(super) fn is_dense(&self) -> bool {
        self.recorded.is_dense(self.block)
    }

    /// Stores the slots of an operation that are stored before it, or after it.
    pub(super) fn record(&mut self, index: usize, is_after: bool) -> Result<(), Untranslatable> {
        while let Some(slot) = self.recorded.slots.get(usize::from(self.stored)).copied() {
            if (slot.operation, slot.is_after) != (self.before + index, is_after) {
                break;
            }
            // A repeated instruction that is interrupted is where it was.
            self.store_slot(index + usize::from(is_after), slot)?;
            self.stored += 1;
        }
        Ok(())
    }

    /// Stores the next slot, before the operation at an index. Slots follow the number of the path, behind which the ring's
    /// pointer is once the number is written.
    fn store_slot(&mut self, index: usize, slot: Slot) -> Result<(), Untranslatable> {
        let sum = slot.sum;
        self.load(index, registers(&sum));
        let before = self.within(index, Registers::NONE);
        let stored = i32::from(self.stored);
        let place = match self.unwritten {
            Some(_) => 1 + stored,
            None => stored - self.recorded.slots.len() as i32,
        };
        let at = SLOT_BYTES as i32 * place;
        self.hot.point(before);
        let is_register = sum.index == Register::None && !sum.is_narrow && sum.displacement == 0;
        if let Some(register) = number(sum.base).filter(|one| is_register && *one != R15) {
            self.store_register(at, register);
            return Ok(());
        }
        let busy = registers(&sum).with(Registers::one(R15)).with(self.unloaded);
        let refused = || Untranslatable {
            at: RunAddr(self.block.operations[slot.operation - self.before].instruction.ip()),
            why: Why::OutOfReach,
        };
        let free = SUBSTITUTES.iter().copied().find(|number| !busy.contains(*number));
        let free = free.ok_or_else(refused)?;
        let borrowed = Point { borrowed: before.borrowed.with(Registers::one(free)), ..before };
        self.hot.save(free);
        self.hot.point(before);
        let uses_r15 = registers(&sum).contains(R15);
        if uses_r15 {
            self.hot.load(free, area::save(R15));
            self.hot.point(borrowed);
        }
        if !(is_register && uses_r15) {
            self.encode(&sum_to(free, &sum, uses_r15).map_err(|_| refused())?)?;
            self.hot.point(borrowed);
        }
        self.store_register(at, free);
        self.hot.point(borrowed);
        self.hot.restore(free);
        Ok(())
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

/// `lea register, [sum]`. `r15` is replaced by the register itself.
///
/// # Errors
/// The instruction cannot be made.
fn sum_to(register: u8, sum: &Operand, replaces_r15: bool) -> Result<Instruction, IcedError> {
    let whole = Register::RAX + u32::from(register);
    let part = |of: Register| match of {
        Register::R15 if replaces_r15 => whole,
        Register::R15D if replaces_r15 => whole.full_register32(),
        of => of,
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
