//! Instructions that compute in registers and with flags.

use iced_x86::{Code, Instruction, Register};

use super::{Done, Generator, register};

impl Generator {
    pub(super) fn binary(&mut self) -> Done {
        let codes: [(Code, u32); 16] = [
            (Code::Add_rm64_r64, 8),
            (Code::Sub_rm64_r64, 8),
            (Code::Xor_rm64_r64, 8),
            (Code::Mov_rm64_r64, 8),
            (Code::Mov_r64_rm64, 8),
            (Code::Adc_rm64_r64, 8),
            (Code::Sbb_rm32_r32, 4),
            (Code::And_rm32_r32, 4),
            (Code::Xor_rm32_r32, 4),
            (Code::Or_rm16_r16, 2),
            (Code::Mov_rm16_r16, 2),
            (Code::Add_rm8_r8, 1),
            (Code::Cmp_rm64_r64, 8),
            (Code::Test_rm32_r32, 4),
            (Code::Imul_r64_rm64, 8),
            (Code::Imul_r32_rm32, 4),
        ];
        let (code, bytes) = self.random.one_of(&codes);
        let (target, other) = (self.any(), self.any());
        self.add(Instruction::with2(code, register(target, bytes), register(other, bytes)))
    }

    pub(super) fn unary(&mut self) -> Done {
        let codes: [(Code, u32); 6] = [
            (Code::Inc_rm64, 8),
            (Code::Dec_rm32, 4),
            (Code::Neg_rm16, 2),
            (Code::Not_rm8, 1),
            (Code::Bswap_r64, 8),
            (Code::Inc_rm8, 1),
        ];
        let (code, bytes) = self.random.one_of(&codes);
        let number = self.any();
        if code != Code::Bswap_r64 && self.random.below(3) == 0 {
            let memory = self.memory()?;
            return self.add(Instruction::with1(code, memory));
        }
        self.add(Instruction::with1(code, register(number, bytes)))
    }

    pub(super) fn shift(&mut self) -> Done {
        let number = self.any();
        let by_constant: [(Code, u32); 5] = [
            (Code::Shl_rm64_imm8, 8),
            (Code::Sar_rm32_imm8, 4),
            (Code::Rol_rm16_imm8, 2),
            (Code::Shr_rm8_imm8, 1),
            (Code::Rcr_rm64_imm8, 8),
        ];
        let by_cl: [(Code, u32); 4] = [
            (Code::Shl_rm64_CL, 8),
            (Code::Shr_rm32_CL, 4),
            (Code::Ror_rm64_CL, 8),
            (Code::Rcl_rm8_CL, 1),
        ];
        if self.random.below(2) == 0 {
            let (code, bytes) = self.random.one_of(&by_constant);
            let count = self.random.below(70) as i32;
            return self.add(Instruction::with2(code, register(number, bytes), count));
        }
        let (code, bytes) = self.random.one_of(&by_cl);
        self.add(Instruction::with2(code, register(number, bytes), Register::CL))
    }

    pub(super) fn constant(&mut self) -> Done {
        let number = self.any();
        let value = self.random.next();
        let wide = register(number, 8);
        match self.random.below(4) {
            0 => self.add(Instruction::with2(Code::Mov_r64_imm64, wide, value)),
            1 => self.add(Instruction::with2(Code::Add_rm64_imm32, wide, value as i32)),
            2 => self.add(Instruction::with2(
                Code::And_rm32_imm8,
                register(number, 4),
                value as i8 as i32,
            )),
            _ => {
                self.add(Instruction::with2(Code::Mov_r32_imm32, register(number, 4), value as i32))
            }
        }
    }

    pub(super) fn conditional(&mut self) -> Done {
        let (target, other) = (self.any(), self.any());
        let (wide, source) = (register(target, 8), register(other, 8));
        match self.random.below(5) {
            0 => self.add(Instruction::with2(Code::Cmovb_r64_rm64, wide, source)),
            1 => self.add(Instruction::with2(
                Code::Cmovle_r32_rm32,
                register(target, 4),
                register(other, 4),
            )),
            2 => self.add(Instruction::with1(Code::Seto_rm8, register(target, 1))),
            3 => self.add(Instruction::with1(Code::Setp_rm8, register(target, 1))),
            _ => {
                let memory = self.memory()?;
                self.add(Instruction::with2(Code::Cmovne_r64_rm64, wide, memory))
            }
        }
    }

    pub(super) fn bits(&mut self) -> Done {
        let codes =
            [Code::Bsf_r64_rm64, Code::Bsr_r64_rm64, Code::Popcnt_r64_rm64, Code::Bt_rm64_r64];
        let code = self.random.one_of(&codes);
        let (target, other) = (self.any(), self.any());
        self.add(Instruction::with2(code, register(target, 8), register(other, 8)))
    }

    pub(super) fn high_bytes(&mut self) -> Done {
        let high = [Register::AH, Register::CH, Register::DH, Register::BH];
        let low = [Register::AL, Register::CL, Register::DL, Register::BL];
        if !self.free(&[0, 1, 2, 3]) {
            return self.binary();
        }
        let (high_byte, low_byte) = (self.random.one_of(&high), self.random.one_of(&low));
        let code = self.random.one_of(&[Code::Mov_rm8_r8, Code::Add_rm8_r8, Code::Cmp_rm8_r8]);
        if self.random.below(2) == 0 {
            self.add(Instruction::with2(code, high_byte, low_byte))
        } else {
            self.add(Instruction::with2(code, low_byte, high_byte))
        }
    }

    pub(super) fn flags(&mut self) -> Done {
        match self.random.below(6) {
            0 => self.asm.stc(),
            1 => self.asm.cmc(),
            2 if self.free(&[0]) => self.asm.lahf(),
            3 if self.free(&[0]) => self.asm.sahf(),
            4 if self.stores_flags => {
                let number = self.any();
                self.asm.pushfq()?;
                self.add(Instruction::with1(Code::Pop_r64, register(number, 8)))
            }
            5 if self.stores_flags => {
                self.asm.pushfq()?;
                self.instruction_without_stack()?;
                self.asm.popfq()
            }
            _ => self.asm.clc(),
        }
    }

    /// An instruction that leaves the stack and what is below it.
    pub(super) fn instruction_without_stack(&mut self) -> Done {
        self.binary()
    }

    pub(super) fn divide(&mut self) -> Done {
        if !self.free(&[0, 2]) {
            return self.shift();
        }
        let number = self.any();
        if number == 0 || number == 2 {
            return self.asm.cqo();
        }
        self.add(Instruction::with2(Code::Or_rm64_imm8, register(number, 8), 1))?;
        self.add(Instruction::with2(Code::Xor_rm32_r32, Register::EDX, Register::EDX))?;
        self.add(Instruction::with1(Code::Div_rm64, register(number, 8)))
    }
}
