//! Runs code with chosen values of all registers, and reads them afterwards.

use iced_x86::code_asm::{
    AsmRegister64, CodeAssembler, gpr64, ptr, qword_ptr, r12, r13, r14, r15, rbp, rbx, rsp,
};
use iced_x86::code_asm::{AsmRegisterXmm, registers::xmm};

use super::memory::Range;

const FLAGS: u64 = 128;
const HOST_STACK: u64 = 136;
const TARGET: u64 = 144;
const VECTORS: u64 = 256;

/// General registers by their numbers in encodings.
const GENERAL: [AsmRegister64; 16] = [
    gpr64::rax,
    gpr64::rcx,
    gpr64::rdx,
    gpr64::rbx,
    gpr64::rsp,
    gpr64::rbp,
    gpr64::rsi,
    gpr64::rdi,
    gpr64::r8,
    gpr64::r9,
    gpr64::r10,
    gpr64::r11,
    gpr64::r12,
    gpr64::r13,
    gpr64::r14,
    gpr64::r15,
];
const VECTOR: [AsmRegisterXmm; 16] = [
    xmm::xmm0,
    xmm::xmm1,
    xmm::xmm2,
    xmm::xmm3,
    xmm::xmm4,
    xmm::xmm5,
    xmm::xmm6,
    xmm::xmm7,
    xmm::xmm8,
    xmm::xmm9,
    xmm::xmm10,
    xmm::xmm11,
    xmm::xmm12,
    xmm::xmm13,
    xmm::xmm14,
    xmm::xmm15,
];

/// Values of registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Registers {
    pub general: [u64; 16],
    pub flags: u64,
    pub vectors: [u128; 16],
}

/// Code that sets all registers, and code that stores them.
#[derive(Clone, Copy, Debug)]
pub struct Processor {
    code: Range,
    /// Values of the registers, below 2 GiB.
    context: Range,
    /// Where the code under test continues at its end.
    pub exit: u64,
}

impl Processor {
    /// Generates the code in memory near an address.
    pub fn new(near: u64) -> Processor {
        let code = Range::near(near, 8192).expect("there is memory");
        let context = Range::low(4096);
        let enter = Self::enter(context.start).assemble(code.start).expect("encodable");
        code.write(0, &enter);
        let exit = code.start + 4096;
        code.write(4096, &Self::leave(context.start).assemble(exit).expect("encodable"));
        Processor { code, context, exit }
    }

    fn enter(context: u64) -> CodeAssembler {
        let mut asm = CodeAssembler::new(64).expect("64 is a bitness");
        let mut build = || {
            for register in [rbx, rbp, r12, r13, r14, r15] {
                asm.push(register)?;
            }
            asm.mov(qword_ptr(at(context, HOST_STACK)), rsp)?;
            for (number, register) in VECTOR.into_iter().enumerate() {
                asm.movdqu(register, ptr(at(context, VECTORS + 16 * number as u64)))?;
            }
            asm.push(qword_ptr(at(context, FLAGS)))?;
            asm.popfq()?;
            for (number, register) in GENERAL.into_iter().enumerate() {
                asm.mov(register, qword_ptr(at(context, 8 * number as u64)))?;
            }
            asm.jmp(qword_ptr(at(context, TARGET)))
        };
        build().expect("valid operands");
        asm
    }

    fn leave(context: u64) -> CodeAssembler {
        let mut asm = CodeAssembler::new(64).expect("64 is a bitness");
        let mut build = || {
            for (number, register) in GENERAL.into_iter().enumerate() {
                asm.mov(qword_ptr(at(context, 8 * number as u64)), register)?;
            }
            asm.mov(rsp, qword_ptr(at(context, HOST_STACK)))?;
            asm.pushfq()?;
            asm.pop(qword_ptr(at(context, FLAGS)))?;
            for (number, register) in VECTOR.into_iter().enumerate() {
                asm.movdqu(ptr(at(context, VECTORS + 16 * number as u64)), register)?;
            }
            asm.cld()?;
            for register in [r15, r14, r13, r12, rbp, rbx] {
                asm.pop(register)?;
            }
            asm.ret()
        };
        build().expect("valid operands");
        asm
    }

    /// Continues at an address with these values. Returns those at the exit.
    pub fn run(&self, target: u64, registers: &Registers) -> Registers {
        let context = |at: u64, value: u64| self.context.write(at, &value.to_le_bytes());
        for (number, value) in registers.general.iter().enumerate() {
            context(8 * number as u64, *value);
        }
        context(FLAGS, registers.flags);
        context(TARGET, target);
        for (number, value) in registers.vectors.iter().enumerate() {
            self.context.write(VECTORS + 16 * number as u64, &value.to_le_bytes());
        }
        // SAFETY: the code keeps the registers that a function must keep. The test chose what runs.
        let enter: extern "C" fn() = unsafe { std::mem::transmute(self.code.start) };
        enter();
        self.registers()
    }

    fn registers(&self) -> Registers {
        let bytes = self.context.bytes();
        let long = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("8 bytes"));
        let vector =
            |at: usize| u128::from_le_bytes(bytes[at..at + 16].try_into().expect("16 bytes"));
        Registers {
            general: std::array::from_fn(|number| long(8 * number)),
            flags: long(FLAGS as usize),
            vectors: std::array::from_fn(|number| vector(VECTORS as usize + 16 * number)),
        }
    }
}

fn at(context: u64, offset: u64) -> u64 {
    context + offset
}
