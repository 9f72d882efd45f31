//! A process that executes one instruction at a time with chosen values of registers, among pages
//! of all kinds.

use std::arch::is_x86_feature_detected;
use std::ffi::c_void;

use iced_x86::code_asm::{
    AsmMemoryOperand, AsmRegisterMm, AsmRegisterXmm, AsmRegisterYmm, AsmRegisterZmm, CodeAssembler,
    dword_ptr, ptr, qword_ptr,
    registers::{k, mm, xmm, ymm, zmm},
};
use nix::sys::ptrace;
use nix::sys::signal::{Signal, raise};
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::{ForkResult, Pid, fork};

use super::forms::CODE;
use super::model::Registers;

pub const PAGE: u64 = 4096;
/// First of the pages.
pub const PAGES: u64 = 0x2000_0000;
/// Where operands are that are not tested.
pub const SAFE: u64 = PAGES + 12 * PAGE;
const NONE: i32 = libc::PROT_NONE;
const READ: i32 = libc::PROT_READ;
const BOTH: i32 = libc::PROT_READ | libc::PROT_WRITE;
/// What may be done with each page.
const PROTECTION: [i32; 15] =
    [NONE, BOTH, BOTH, NONE, READ, READ, BOTH, BOTH, READ, NONE, NONE, BOTH, BOTH, BOTH, NONE];
/// Where values of registers are that the process loads.
const VALUES: u64 = 0x2300_0000;
const MASKS: u64 = VALUES + 64 * 32;
const MMX: u64 = MASKS + 64;
const MXCSR: u64 = MMX + 64;

/// How the execution of an instruction ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    Completed,
    /// A page fault at an address.
    Fault(u64),
    /// The processor has no such instruction.
    Missing,
    /// It may not be executed so, for another reason than access to a page.
    Refused,
}

/// Whether a byte may be accessed so.
pub fn is_allowed(address: u64, is_write: bool) -> bool {
    let protection = address
        .checked_sub(PAGES)
        .and_then(|distance| PROTECTION.get((distance / PAGE) as usize))
        .copied()
        .unwrap_or(NONE);
    protection == BOTH || protection == READ && !is_write
}

/// The process. It shares its memory with the test, which may access all of it.
pub struct Process {
    pid: Pid,
    /// The memory of the pages, and where the first page of values and that of code are behind
    /// them.
    memory: *mut u8,
}

const PAGES_BYTES: u64 = PROTECTION.len() as u64 * PAGE;
const ALL_BYTES: u64 = PAGES_BYTES + 2 * PAGE;

/// Maps a part of a file at an address.
fn map(file: i32, at: u64, bytes: u64, protection: i32, offset: u64) -> *mut u8 {
    let fixed = if at == 0 { 0 } else { libc::MAP_FIXED_NOREPLACE };
    let flags = libc::MAP_SHARED | fixed;
    let at = at as *mut c_void;
    // SAFETY: a new mapping replaces no other one.
    let mapping = unsafe { libc::mmap(at, bytes as usize, protection, flags, file, offset as i64) };
    assert_ne!(mapping, libc::MAP_FAILED, "{}", std::io::Error::last_os_error());
    mapping.cast()
}

impl Process {
    /// Starts the process.
    pub fn start() -> Process {
        // SAFETY: the name is a string that ends with 0.
        let file = unsafe { libc::memfd_create(c"pages".as_ptr(), 0) };
        // SAFETY: the call uses no memory.
        assert!(file >= 0 && unsafe { libc::ftruncate(file, ALL_BYTES as i64) } == 0);
        let memory = map(file, 0, ALL_BYTES, BOTH, 0);
        for (number, protection) in (0..).zip(PROTECTION) {
            map(file, PAGES + number * PAGE, PAGE, protection, number * PAGE);
        }
        map(file, VALUES, PAGE, BOTH, PAGES_BYTES);
        let executed = READ | libc::PROT_EXEC;
        map(file, CODE & !(PAGE - 1), PAGE, executed, PAGES_BYTES + PAGE);
        // SAFETY: the child only makes system calls.
        let pid = match unsafe { fork() }.expect("a process can be started") {
            ForkResult::Parent { child } => child,
            ForkResult::Child => {
                let _ = ptrace::traceme();
                let _ = raise(Signal::SIGSTOP);
                // SAFETY: ends the process.
                unsafe { libc::_exit(1) }
            }
        };
        assert_eq!(waitpid(pid, None), Ok(WaitStatus::Stopped(pid, Signal::SIGSTOP)));
        let options = ptrace::Options::PTRACE_O_EXITKILL;
        ptrace::setoptions(pid, options).expect("the process is traced");
        Process { pid, memory }
    }

    fn write(&self, offset: u64, bytes: &[u8]) {
        assert!(offset + bytes.len() as u64 <= ALL_BYTES);
        // SAFETY: the range is in the mapping, and the process is stopped.
        unsafe {
            let to = self.memory.add(offset as usize);
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len());
        }
    }

    fn set_value(&self, at: u64, bytes: &[u8]) {
        self.write(PAGES_BYTES + at - VALUES, bytes);
    }

    /// Writes code that loads vectors and masks, and then executes the instruction. Returns where
    /// it starts.
    pub fn set_code(&self, instruction: &[u8], uses_mmx: bool) -> u64 {
        let mut before = loads(uses_mmx).assemble(0).expect("encodable");
        before.extend_from_slice(&[0x90; 16]);
        let start = CODE - before.len() as u64;
        // Behind the instruction is a trap.
        let code = [&before, instruction, &[0xcc; 16]].concat();
        self.write(PAGES_BYTES + PAGE + start % PAGE, &code);
        start
    }

    /// Addresses of bytes that are not 0 any more.
    pub fn changed(&self) -> Vec<u64> {
        // SAFETY: the range is mapped, and the process that may write it is stopped.
        let now = unsafe { std::slice::from_raw_parts(self.memory, PAGES_BYTES as usize) };
        if now == [0; PAGES_BYTES as usize] {
            return Vec::new();
        }
        (PAGES..).zip(now).filter(|(_, byte)| **byte != 0).map(|(at, _)| at).collect()
    }

    /// Executes the instruction with these values, and memory of zeros.
    pub fn run(&self, start: u64, length: usize, values: &Registers) -> Ending {
        self.write(0, &[0; PAGES_BYTES as usize]);
        for (number, vector) in values.vectors.iter().enumerate() {
            self.set_value(VALUES + 64 * number as u64, vector);
            if number < 8 {
                self.set_value(MASKS + 8 * number as u64, &values.masks[number].to_le_bytes());
                self.set_value(MMX + 8 * number as u64, &vector[..8]);
            }
        }
        self.set_value(MXCSR, &0x1f80u32.to_le_bytes());
        let mut registers = ptrace::getregs(self.pid).expect("it is stopped");
        let general = &values.general;
        [registers.rax, registers.rcx, registers.rdx, registers.rbx] =
            [general[0], general[1], general[2], general[3]];
        [registers.rsp, registers.rbp, registers.rsi, registers.rdi] =
            [general[4], general[5], general[6], general[7]];
        [registers.r8, registers.r9, registers.r10, registers.r11] =
            [general[8], general[9], general[10], general[11]];
        [registers.r12, registers.r13, registers.r14, registers.r15] =
            [general[12], general[13], general[14], general[15]];
        (registers.rip, registers.eflags, registers.orig_rax) = (start, 0x202, u64::MAX);
        ptrace::setregs(self.pid, registers).expect("it is stopped");
        ptrace::cont(self.pid, None).expect("it is stopped");
        let Ok(WaitStatus::Stopped(_, signal)) = waitpid(self.pid, None) else {
            panic!("the process has ended")
        };
        let rip = ptrace::getregs(self.pid).expect("it is stopped").rip;
        let information = ptrace::getsiginfo(self.pid).expect("it has a signal");
        match signal {
            Signal::SIGTRAP if rip == CODE + length as u64 + 1 => Ending::Completed,
            // Operands that are 0.
            Signal::SIGFPE => Ending::Completed,
            Signal::SIGSEGV if rip == 0 => Ending::Completed,
            Signal::SIGILL => Ending::Missing,
            Signal::SIGSEGV
                if rip == CODE && information.si_code > 0 && information.si_code < 128 =>
            {
                // SAFETY: a page fault has an address.
                Ending::Fault(unsafe { information.si_addr() } as u64)
            }
            _ => Ending::Refused,
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = nix::sys::signal::kill(self.pid, Signal::SIGKILL);
        let _ = waitpid(self.pid, None);
    }
}

/// Code that loads what no system call sets.
fn loads(uses_mmx: bool) -> CodeAssembler {
    let mut asm = CodeAssembler::new(64).expect("64 is a bitness");
    let at = |address: u64, number: usize, bytes: u64| address + bytes * number as u64;
    let vector = |number: usize| -> AsmMemoryOperand { ptr(at(VALUES, number, 64)) };
    let mut build = || {
        asm.fninit()?;
        asm.ldmxcsr(dword_ptr(MXCSR))?;
        if is_x86_feature_detected!("avx512bw") {
            for (number, register) in ALL_ZMM.into_iter().enumerate() {
                asm.vmovdqu64(register, vector(number))?;
            }
            let masks = [k::k0, k::k1, k::k2, k::k3, k::k4, k::k5, k::k6, k::k7];
            for (number, register) in masks.into_iter().enumerate() {
                asm.kmovq(register, qword_ptr(at(MASKS, number, 8)))?;
            }
        } else if is_x86_feature_detected!("avx") {
            for (number, register) in ALL_YMM.into_iter().enumerate() {
                asm.vmovdqu(register, vector(number))?;
            }
        } else {
            for (number, register) in ALL_XMM.into_iter().enumerate() {
                asm.movdqu(register, vector(number))?;
            }
        }
        if uses_mmx {
            for (number, register) in ALL_MM.into_iter().enumerate() {
                asm.movq(register, qword_ptr(at(MMX, number, 8)))?;
            }
        }
        Ok::<_, iced_x86::IcedError>(())
    };
    build().expect("valid operands");
    asm
}

macro_rules! registers {
    ($name:ident, $kind:ty, $module:ident, $($register:ident)*) => {
        const $name: [$kind; [$(stringify!($register)),*].len()] = [$($module::$register),*];
    };
}
registers!(ALL_MM, AsmRegisterMm, mm, mm0 mm1 mm2 mm3 mm4 mm5 mm6 mm7);
registers!(ALL_XMM, AsmRegisterXmm, xmm, xmm0 xmm1 xmm2 xmm3 xmm4 xmm5 xmm6 xmm7 xmm8 xmm9 xmm10
    xmm11 xmm12 xmm13 xmm14 xmm15);
registers!(ALL_YMM, AsmRegisterYmm, ymm, ymm0 ymm1 ymm2 ymm3 ymm4 ymm5 ymm6 ymm7 ymm8 ymm9 ymm10
    ymm11 ymm12 ymm13 ymm14 ymm15);
registers!(ALL_ZMM, AsmRegisterZmm, zmm, zmm0 zmm1 zmm2 zmm3 zmm4 zmm5 zmm6 zmm7 zmm8 zmm9 zmm10
    zmm11 zmm12 zmm13 zmm14 zmm15 zmm16 zmm17 zmm18 zmm19 zmm20 zmm21 zmm22 zmm23 zmm24 zmm25 zmm26
    zmm27 zmm28 zmm29 zmm30 zmm31);
