//! Instructions that access memory, the stack, or vectors.

use iced_x86::{Code, Instruction, Register};

use super::{Done, Generator, register};

impl Generator {
    pub(super) fn with_memory(&mut self) -> Done {
        let memory = self.memory()?;
        let stores: [(Code, u32); 7] = [
            (Code::Mov_rm64_r64, 8),
            (Code::Add_rm32_r32, 4),
            (Code::Xor_rm8_r8, 1),
            (Code::Adc_rm16_r16, 2),
            (Code::Cmp_rm64_r64, 8),
            (Code::Mov_rm8_r8, 1),
            (Code::Xadd_rm64_r64, 8),
        ];
        let loads: [(Code, u32); 7] = [
            (Code::Mov_r64_rm64, 8),
            (Code::Mov_r32_rm32, 4),
            (Code::Sub_r64_rm64, 8),
            (Code::Movzx_r32_rm16, 4),
            (Code::Movsx_r64_rm8, 8),
            (Code::Movsxd_r64_rm32, 8),
            (Code::Sbb_r8_rm8, 1),
        ];
        let other = self.any();
        if self.random.below(2) == 0 {
            let (code, bytes) = self.random.one_of(&stores);
            let mut instruction = Instruction::with2(code, memory, register(other, bytes))?;
            let may_lock = matches!(code, Code::Add_rm32_r32 | Code::Xadd_rm64_r64);
            instruction.set_has_lock_prefix(may_lock && self.random.below(2) == 0);
            return self.add(Ok(instruction));
        }
        let (code, bytes) = self.random.one_of(&loads);
        self.add(Instruction::with2(code, register(other, bytes), memory))
    }

    pub(super) fn stack(&mut self) -> Done {
        let (source, other) = (register(self.any(), 8), register(self.any(), 8));
        match self.random.below(6) {
            0 => {
                let memory = self.base_memory();
                self.add(Instruction::with1(Code::Push_rm64, memory))?;
            }
            1 => self.add(Instruction::with1(Code::Pushq_imm32, self.data as i32))?,
            2 => self.add(Instruction::with1(Code::Push_r64, Register::RSP))?,
            3 if self.free(&[5]) => {
                self.add(Instruction::with2(Code::Enterq_imm16_imm8, 32, 0))?;
                return self.add(Ok(Instruction::with(Code::Leaveq)));
            }
            _ => self.add(Instruction::with1(Code::Push_r64, source))?,
        }
        if self.random.below(4) == 0 {
            let memory = self.base_memory();
            return self.add(Instruction::with1(Code::Pop_rm64, memory));
        }
        self.add(Instruction::with1(Code::Pop_r64, other))
    }

    pub(super) fn vector(&mut self) -> Done {
        let mut any = || self.random.below(16) as u32;
        let (first, second, third) = (any(), any(), any());
        let xmm = |number: u32| Register::XMM0 + number;
        let ymm = |number: u32| Register::YMM0 + number;
        let memory = self.base_memory();
        match self.random.below(7) {
            0 => self.add(Instruction::with2(Code::Movdqu_xmm_xmmm128, xmm(first), memory)),
            1 => self.add(Instruction::with2(Code::Movdqu_xmmm128_xmm, memory, xmm(first))),
            2 => self.add(Instruction::with2(Code::Paddd_xmm_xmmm128, xmm(first), xmm(second))),
            3 => self.add(Instruction::with2(Code::Pxor_xmm_xmmm128, xmm(first), xmm(second))),
            4 => {
                let code = Code::VEX_Vpaddd_ymm_ymm_ymmm256;
                self.add(Instruction::with3(code, ymm(first), ymm(second), ymm(third)))?;
                self.add(Instruction::with2(Code::VEX_Vmovdqu_ymmm256_ymm, memory, ymm(first)))
            }
            5 => {
                let general = register(self.any(), 8);
                self.add(Instruction::with2(Code::Movq_xmm_rm64, xmm(first), general))
            }
            _ => {
                let general = register(self.any(), 8);
                self.add(Instruction::with2(Code::Movq_rm64_xmm, general, xmm(first)))
            }
        }
    }

    pub(super) fn string(&mut self) -> Done {
        if !self.free(&[0, 1, 6, 7]) {
            return self.with_memory();
        }
        let (from, to) = (self.base_memory(), self.base_memory());
        self.add(Instruction::with2(Code::Lea_r64_m, Register::RSI, from))?;
        self.add(Instruction::with2(Code::Lea_r64_m, Register::RDI, to))?;
        let count = self.random.below(9) as i32;
        self.add(Instruction::with2(Code::Mov_r32_imm32, Register::ECX, count))?;
        let none = iced_x86::RepPrefixKind::None;
        let rep = iced_x86::RepPrefixKind::Repe;
        let repne = iced_x86::RepPrefixKind::Repne;
        let instruction = match self.random.below(6) {
            0 => Instruction::with_movsb(64, Register::None, rep),
            1 => Instruction::with_stosd(64, rep),
            2 => Instruction::with_cmpsb(64, Register::None, rep),
            3 => Instruction::with_scasb(64, repne),
            4 => Instruction::with_lodsw(64, Register::None, none),
            _ => Instruction::with_movsq(64, Register::None, rep),
        };
        self.add(instruction)
    }

    pub(super) fn exchange(&mut self) -> Done {
        let (target, other) = (self.any(), self.any());
        let (target, other) = (register(target, 8), register(other, 8));
        match self.random.below(3) {
            0 => self.add(Instruction::with2(Code::Xchg_rm64_r64, target, other)),
            1 if self.free(&[0]) => {
                let memory = self.base_memory();
                self.add(Instruction::with2(Code::Cmpxchg_rm64_r64, memory, other))
            }
            _ => self.add(Instruction::with2(Code::Xadd_rm64_r64, target, other)),
        }
    }
}
