//! Instructions that compilers compute addresses with.

use iced_x86::{Code, Instruction, MemoryOperand, Register};

use super::{Done, Generator, register};

impl Generator {
    pub(super) fn address(&mut self) -> Done {
        let number = self.any();
        let memory = self.memory()?;
        self.add(Instruction::with2(Code::Lea_r64_m, register(number, 8), memory))
    }

    /// What compilers compute addresses with.
    pub(super) fn computed(&mut self) -> Done {
        let (target, other) = (self.any(), self.any());
        let number = self.random.next() as i8 as i32;
        let short = |number: u32| register(number, 4);
        let wide = |number: u32| register(number, 8);
        let none = Register::None;
        let memory = |base, index, scale| {
            MemoryOperand::new(base, index, scale, number.into(), 1, false, none)
        };
        let scale = self.random.one_of(&[1, 2, 4, 8]);
        let instruction = match self.random.below(22) {
            0 => Instruction::with2(Code::Mov_r32_rm32, short(target), short(other)),
            1 => Instruction::with2(Code::Movsxd_r64_rm32, wide(target), short(other)),
            2 => Instruction::with2(Code::Movzx_r64_rm16, wide(target), register(other, 2)),
            3 => Instruction::with2(Code::Movzx_r32_rm8, short(target), register(other, 1)),
            4 => Instruction::with2(Code::Movsx_r32_rm8, short(target), register(other, 1)),
            5 => Instruction::with2(Code::Movsx_r64_rm16, wide(target), register(other, 2)),
            6 if self.free(&[0]) => return self.asm.cdqe(),
            7 if self.free(&[0]) => return self.asm.cwde(),
            8 => Instruction::with2(Code::Add_rm32_imm8, short(target), number),
            9 => Instruction::with2(Code::Sub_rm32_imm32, short(target), number),
            10 => Instruction::with2(Code::Add_rm32_r32, short(target), short(other)),
            11 => Instruction::with2(Code::Sub_rm64_r64, wide(target), wide(other)),
            12 => Instruction::with2(
                Code::Lea_r32_m,
                short(target),
                memory(wide(other), wide(target), scale),
            ),
            13 => Instruction::with2(
                Code::Lea_r64_m,
                wide(target),
                memory(short(other), short(target), scale),
            ),
            14 => {
                Instruction::with2(Code::Lea_r64_m, wide(target), memory(none, wide(other), scale))
            }
            15 => Instruction::with3(Code::Imul_r64_rm64_imm8, wide(target), wide(other), number),
            16 => {
                Instruction::with3(Code::Imul_r32_rm32_imm32, short(target), short(other), number)
            }
            17 => Instruction::with2(Code::And_rm64_imm8, wide(target), number),
            18 => Instruction::with2(Code::Shr_rm32_imm8, short(target), number & 63),
            19 => Instruction::with1(Code::Neg_rm32, short(target)),
            20 => Instruction::with1(Code::Inc_rm32, short(target)),
            _ => Instruction::with2(Code::Shl_rm32_1, short(target), 1),
        };
        self.add(instruction)
    }
}
