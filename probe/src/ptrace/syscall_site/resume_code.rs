//! Generates the code that a thread runs at a site: the system call, and instructions that restore
//! the thread's state if the tracer has died meanwhile.

use iced_x86::IcedError;
use iced_x86::code_asm::*;

use super::{Mask, SIGNAL_SET_BYTES, SYSCALL_BYTES};

/// Values of `rax` after an interrupted system call that the kernel restarts (Linux,
/// `include/linux/errno.h`). For `RESTART_BLOCK` the kernel restarts it by `restart_syscall`.
const RESTART_ERRORS: [i64; 3] = [-512, -513, -514];
const RESTART_BLOCK: i64 = -516;

/// State of a thread after an injected system call.
pub(in crate::ptrace) struct ResumeCode {
    pub registers: libc::user_regs_struct,
    pub mask: Mask,
}

impl ResumeCode {
    /// Generates the `syscall` instruction, and the code that restores the state.
    pub fn code(&self) -> Vec<u8> {
        // All instructions are known to be encodable.
        self.assemble().unwrap_or_default()
    }

    /// Values of `rax` and `rip`. If a system call is to be restarted, `rip` leads to it.
    fn resumed(&self) -> (u64, u64) {
        let saved = &self.registers;
        let call = saved.rip.wrapping_sub(SYSCALL_BYTES);
        let is_call = saved.orig_rax.cast_signed() >= 0;
        match saved.rax.cast_signed() {
            result if is_call && RESTART_ERRORS.contains(&result) => (saved.orig_rax, call),
            RESTART_BLOCK if is_call => (libc::SYS_restart_syscall as u64, call),
            _ => (saved.rax, saved.rip),
        }
    }

    fn assemble(&self) -> Result<Vec<u8>, IcedError> {
        let mut asm = CodeAssembler::new(64)?;
        let (mut full_mask, mut mask, mut flags) =
            (asm.create_label(), asm.create_label(), asm.create_label());
        let (mut stack, mut target) = (asm.create_label(), asm.create_label());
        asm.syscall()?;
        set_signal_mask(&mut asm, full_mask)?;
        asm.lea(rsp, ptr(flags))?;
        asm.popfq()?;
        asm.mov(rsp, qword_ptr(stack))?;
        set_signal_mask(&mut asm, mask)?;
        let saved = &self.registers;
        let (first, rip) = self.resumed();
        let registers = [
            (rax, first),
            (rbx, saved.rbx),
            (rcx, saved.rcx),
            (rdx, saved.rdx),
            (rsi, saved.rsi),
            (rdi, saved.rdi),
            (rbp, saved.rbp),
            (r8, saved.r8),
            (r9, saved.r9),
            (r10, saved.r10),
            (r11, saved.r11),
            (r12, saved.r12),
            (r13, saved.r13),
            (r14, saved.r14),
            (r15, saved.r15),
        ];
        for (register, value) in registers {
            asm.mov(register, value)?;
        }
        asm.jmp(qword_ptr(target))?;
        let values = [
            (&mut full_mask, !0),
            (&mut mask, self.mask),
            (&mut flags, saved.eflags),
            (&mut stack, saved.rsp),
            (&mut target, rip),
        ];
        for (label, value) in values {
            asm.set_label(label)?;
            asm.dq(&[value])?;
        }
        // The code is position-independent.
        asm.assemble(0)
    }
}

/// Sets the signal mask, without changing flags.
fn set_signal_mask(asm: &mut CodeAssembler, set: CodeLabel) -> Result<(), IcedError> {
    asm.mov(eax, libc::SYS_rt_sigprocmask as u32)?;
    asm.mov(edi, libc::SIG_SETMASK)?;
    asm.lea(rsi, ptr(set))?;
    asm.mov(edx, 0)?;
    asm.mov(r10d, SIGNAL_SET_BYTES)?;
    asm.syscall()
}

#[cfg(test)]
mod tests {
    use super::super::{CODE, CODE_BYTES};
    use super::*;

    fn registers() -> libc::user_regs_struct {
        // SAFETY: integers only.
        unsafe { std::mem::zeroed() }
    }

    #[test]
    fn the_restoring_code_fits() {
        let mut registers = registers();
        // All registers have values with the longest encoding.
        let long = 1 << 62;
        registers = libc::user_regs_struct {
            rax: long,
            rbx: long,
            rcx: long,
            rdx: long,
            rsi: long,
            rdi: long,
            rbp: long,
            r8: long,
            r9: long,
            r10: long,
            r11: long,
            r12: long,
            r13: long,
            r14: long,
            r15: long,
            ..registers
        };
        let code = ResumeCode { registers, mask: !0 }.code();
        assert!(code.starts_with(&CODE), "{code:x?}");
        assert!(code.len() <= CODE_BYTES, "{}", code.len());
    }

    #[test]
    fn interrupted_calls_are_restarted() {
        let resumed = |result: i64, orig_rax: u64| {
            let mut registers = registers();
            registers.rax = result.cast_unsigned();
            (registers.orig_rax, registers.rip) = (orig_rax, 0x1002);
            ResumeCode { registers, mask: 0 }.resumed()
        };
        assert_eq!(resumed(-512, 7), (7, 0x1000));
        assert_eq!(resumed(-516, 35), (219, 0x1000));
        assert_eq!(resumed(-4, 7), ((-4i64).cast_unsigned(), 0x1002));
        assert_eq!(resumed(-512, u64::MAX), ((-512i64).cast_unsigned(), 0x1002));
    }
}
