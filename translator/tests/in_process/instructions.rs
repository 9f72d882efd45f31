//! Generates random instructions that a program may execute anywhere.

mod addresses;
mod arithmetic;
mod memory;

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

    /// Memory at a constant distance from the base.
    pub fn base_memory(&mut self) -> MemoryOperand {
        let displacement = (SCRATCH + self.random.below(SCRATCH_BYTES) / 8 * 8) as i64;
        MemoryOperand::with_base_displ(register(self.base, 8), displacement)
    }
}
