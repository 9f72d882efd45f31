//! Generates random instructions that a program may execute anywhere.

use iced_x86::code_asm::CodeAssembler;
use iced_x86::{Code, IcedError, Instruction, MemoryOperand, Register};

pub use super::numbers::Random;

/// Offsets in the data that random instructions access; what is before them is constant.
pub const SCRATCH: u64 = 0x1000;
const SCRATCH_BYTES: u64 = 0x4000;

/// Generates instructions. One register always contains the address of the data.
pub struct Generator {
    pub asm: CodeAssembler,
    pub random: Random,
    /// Address of the data.
    pub data: u64,
    /// Number of the register that contains it.
    pub base: u32,
    /// Whether flags may be stored where single steps would change them.
    pub stores_flags: bool,
}

type Done = Result<(), IcedError>;

/// A part of a general register.
pub fn register(number: u32, bytes: u32) -> Register {
    match bytes {
        8 => Register::RAX + number,
        4 => Register::EAX + number,
        2 => Register::AX + number,
        _ if number < 4 => Register::AL + number,
        _ => Register::SPL + (number - 4),
    }
}

impl Generator {
    pub fn add(&mut self, instruction: Result<Instruction, IcedError>) -> Done {
        self.asm.add_instruction(instruction?)
    }

    /// A general register that may be changed.
    pub fn any(&mut self) -> u32 {
        loop {
            let number = self.random.below(16) as u32;
            if number != 4 && number != self.base {
                return number;
            }
        }
    }

    /// Whether none of some registers contains the address of the data.
    pub fn free(&self, registers: &[u32]) -> bool {
        !registers.contains(&self.base)
    }

    /// Memory in the data or the red zone.
    pub fn memory(&mut self) -> Result<MemoryOperand, IcedError> {
        let displacement = (SCRATCH + self.random.below(SCRATCH_BYTES) / 8 * 8) as i64;
        let base = register(self.base, 8);
        let none = Register::None;
        let memory = |base, index, scale, displacement| {
            MemoryOperand::new(base, index, scale, displacement, 8, false, none)
        };
        Ok(match self.random.below(6) {
            0 => {
                let index = self.any();
                // Any byte of what the program has computed.
                let shift = self.random.below(8) as i32 * 8;
                if shift > 0 {
                    let code = self.random.one_of(&[Code::Shr_rm64_imm8, Code::Sar_rm64_imm8]);
                    self.add(Instruction::with2(code, register(index, 8), shift))?;
                }
                let (wide, byte) = (register(index, 4), register(index, 1));
                self.add(Instruction::with2(Code::Movzx_r32_rm8, wide, byte))?;
                let scale = self.random.one_of(&[1, 2, 4, 8]);
                memory(base, register(index, 8), scale, displacement)
            }
            1 => memory(Register::RSP, none, 1, -(8 + self.random.below(15) as i64 * 8)),
            2 => memory(Register::RIP, none, 1, self.data as i64 + displacement),
            _ => memory(base, none, 1, displacement),
        })
    }

    /// A random instruction, or a few that belong together.
    pub fn instruction(&mut self) -> Done {
        match self.random.below(22) {
            0..=3 => self.binary(),
            4..=6 => self.with_memory(),
            7 => self.unary(),
            8 => self.shift(),
            9 => self.constant(),
            10 => self.conditional(),
            11 => self.bits(),
            12 => self.stack(),
            13 => self.high_bytes(),
            14 => self.vector(),
            15 => self.string(),
            16 => self.flags(),
            17 => self.divide(),
            18 => self.address(),
            19 | 20 => self.computed(),
            _ => self.exchange(),
        }
    }

    fn binary(&mut self) -> Done {
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
        let (one, other) = (self.any(), self.any());
        self.add(Instruction::with2(code, register(one, bytes), register(other, bytes)))
    }

    fn with_memory(&mut self) -> Done {
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

    fn unary(&mut self) -> Done {
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

    fn shift(&mut self) -> Done {
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

    fn constant(&mut self) -> Done {
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

    fn conditional(&mut self) -> Done {
        let (one, other) = (self.any(), self.any());
        let (wide, source) = (register(one, 8), register(other, 8));
        match self.random.below(5) {
            0 => self.add(Instruction::with2(Code::Cmovb_r64_rm64, wide, source)),
            1 => self.add(Instruction::with2(
                Code::Cmovle_r32_rm32,
                register(one, 4),
                register(other, 4),
            )),
            2 => self.add(Instruction::with1(Code::Seto_rm8, register(one, 1))),
            3 => self.add(Instruction::with1(Code::Setp_rm8, register(one, 1))),
            _ => {
                let memory = self.memory()?;
                self.add(Instruction::with2(Code::Cmovne_r64_rm64, wide, memory))
            }
        }
    }

    fn bits(&mut self) -> Done {
        let codes =
            [Code::Bsf_r64_rm64, Code::Bsr_r64_rm64, Code::Popcnt_r64_rm64, Code::Bt_rm64_r64];
        let code = self.random.one_of(&codes);
        let (one, other) = (self.any(), self.any());
        self.add(Instruction::with2(code, register(one, 8), register(other, 8)))
    }

    fn stack(&mut self) -> Done {
        let (one, other) = (register(self.any(), 8), register(self.any(), 8));
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
            _ => self.add(Instruction::with1(Code::Push_r64, one))?,
        }
        if self.random.below(4) == 0 {
            let memory = self.base_memory();
            return self.add(Instruction::with1(Code::Pop_rm64, memory));
        }
        self.add(Instruction::with1(Code::Pop_r64, other))
    }

    /// Memory at a constant distance from the base.
    pub fn base_memory(&mut self) -> MemoryOperand {
        let displacement = (SCRATCH + self.random.below(SCRATCH_BYTES) / 8 * 8) as i64;
        MemoryOperand::with_base_displ(register(self.base, 8), displacement)
    }

    fn high_bytes(&mut self) -> Done {
        let high = [Register::AH, Register::CH, Register::DH, Register::BH];
        let low = [Register::AL, Register::CL, Register::DL, Register::BL];
        if !self.free(&[0, 1, 2, 3]) {
            return self.binary();
        }
        let (one, other) = (self.random.one_of(&high), self.random.one_of(&low));
        let code = self.random.one_of(&[Code::Mov_rm8_r8, Code::Add_rm8_r8, Code::Cmp_rm8_r8]);
        if self.random.below(2) == 0 {
            self.add(Instruction::with2(code, one, other))
        } else {
            self.add(Instruction::with2(code, other, one))
        }
    }

    fn vector(&mut self) -> Done {
        let mut any = || self.random.below(16) as u32;
        let (one, other, third) = (any(), any(), any());
        let xmm = |number: u32| Register::XMM0 + number;
        let ymm = |number: u32| Register::YMM0 + number;
        let memory = self.base_memory();
        match self.random.below(7) {
            0 => self.add(Instruction::with2(Code::Movdqu_xmm_xmmm128, xmm(one), memory)),
            1 => self.add(Instruction::with2(Code::Movdqu_xmmm128_xmm, memory, xmm(one))),
            2 => self.add(Instruction::with2(Code::Paddd_xmm_xmmm128, xmm(one), xmm(other))),
            3 => self.add(Instruction::with2(Code::Pxor_xmm_xmmm128, xmm(one), xmm(other))),
            4 => {
                let code = Code::VEX_Vpaddd_ymm_ymm_ymmm256;
                self.add(Instruction::with3(code, ymm(one), ymm(other), ymm(third)))?;
                self.add(Instruction::with2(Code::VEX_Vmovdqu_ymmm256_ymm, memory, ymm(one)))
            }
            5 => {
                let general = register(self.any(), 8);
                self.add(Instruction::with2(Code::Movq_xmm_rm64, xmm(one), general))
            }
            _ => {
                let general = register(self.any(), 8);
                self.add(Instruction::with2(Code::Movq_rm64_xmm, general, xmm(one)))
            }
        }
    }

    fn string(&mut self) -> Done {
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

    fn flags(&mut self) -> Done {
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
    fn instruction_without_stack(&mut self) -> Done {
        self.binary()
    }

    fn divide(&mut self) -> Done {
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

    fn address(&mut self) -> Done {
        let number = self.any();
        let memory = self.memory()?;
        self.add(Instruction::with2(Code::Lea_r64_m, register(number, 8), memory))
    }

    /// What compilers compute addresses with.
    fn computed(&mut self) -> Done {
        let (one, other) = (self.any(), self.any());
        let number = self.random.next() as i8 as i32;
        let short = |number: u32| register(number, 4);
        let wide = |number: u32| register(number, 8);
        let none = Register::None;
        let memory = |base, index, scale| {
            MemoryOperand::new(base, index, scale, number.into(), 1, false, none)
        };
        let scale = self.random.one_of(&[1, 2, 4, 8]);
        let instruction = match self.random.below(22) {
            0 => Instruction::with2(Code::Mov_r32_rm32, short(one), short(other)),
            1 => Instruction::with2(Code::Movsxd_r64_rm32, wide(one), short(other)),
            2 => Instruction::with2(Code::Movzx_r64_rm16, wide(one), register(other, 2)),
            3 => Instruction::with2(Code::Movzx_r32_rm8, short(one), register(other, 1)),
            4 => Instruction::with2(Code::Movsx_r32_rm8, short(one), register(other, 1)),
            5 => Instruction::with2(Code::Movsx_r64_rm16, wide(one), register(other, 2)),
            6 if self.free(&[0]) => return self.asm.cdqe(),
            7 if self.free(&[0]) => return self.asm.cwde(),
            8 => Instruction::with2(Code::Add_rm32_imm8, short(one), number),
            9 => Instruction::with2(Code::Sub_rm32_imm32, short(one), number),
            10 => Instruction::with2(Code::Add_rm32_r32, short(one), short(other)),
            11 => Instruction::with2(Code::Sub_rm64_r64, wide(one), wide(other)),
            12 => Instruction::with2(
                Code::Lea_r32_m,
                short(one),
                memory(wide(other), wide(one), scale),
            ),
            13 => Instruction::with2(
                Code::Lea_r64_m,
                wide(one),
                memory(short(other), short(one), scale),
            ),
            14 => Instruction::with2(Code::Lea_r64_m, wide(one), memory(none, wide(other), scale)),
            15 => Instruction::with3(Code::Imul_r64_rm64_imm8, wide(one), wide(other), number),
            16 => Instruction::with3(Code::Imul_r32_rm32_imm32, short(one), short(other), number),
            17 => Instruction::with2(Code::And_rm64_imm8, wide(one), number),
            18 => Instruction::with2(Code::Shr_rm32_imm8, short(one), number & 63),
            19 => Instruction::with1(Code::Neg_rm32, short(one)),
            20 => Instruction::with1(Code::Inc_rm32, short(one)),
            _ => Instruction::with2(Code::Shl_rm32_1, short(one), 1),
        };
        self.add(instruction)
    }

    fn exchange(&mut self) -> Done {
        let (one, other) = (self.any(), self.any());
        let (one, other) = (register(one, 8), register(other, 8));
        match self.random.below(3) {
            0 => self.add(Instruction::with2(Code::Xchg_rm64_r64, one, other)),
            1 if self.free(&[0]) => {
                let memory = self.base_memory();
                self.add(Instruction::with2(Code::Cmpxchg_rm64_r64, memory, other))
            }
            _ => self.add(Instruction::with2(Code::Xadd_rm64_r64, one, other)),
        }
    }
}
