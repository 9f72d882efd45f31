//! A process to a place in it where a thread can make a system call of ours, and go on where it was.
//!
//! What is left of the last page of a file's instructions is mapped, can be executed, and is nobody's. There we
//! put, for as long as a call takes (or where the program began, if no file leaves room, which is hardly ever):
//!
//! ```text
//! syscall                          the call; the rest runs only if we have died meanwhile
//! all signals off; flags; signals as they were; registers as they were
//! jmp                              to where the thread was
//! flags, rsp, signals, ...         what is put back
//! ```
//!
//! It needs no stack: flags are taken from the place itself, while no signal can come. A call of the thread's own
//! that was interrupted is made again, as the kernel does if no signal has come.

use std::fs::File;
use std::io::Read;

use iced_x86::IcedError;
use iced_x86::code_asm::*;
use nix::errno::Errno;

use super::inject::Mask;
use super::{Mapping, Process, PtraceError, mappings};

/// Room that is looked for, in bytes: more than the code and what it puts back.
const ROOM: usize = 288;
/// Bytes of a file's header with its program headers, as far as they are looked at.
const HEADERS: usize = 4096;
const PAGE: u64 = 4096;
/// Bytes of a set of signals, as the kernel has them.
const SIGNAL_SET_BYTES: u32 = 8;
/// Bytes of `syscall`.
const SYSCALL_BYTES: u64 = 2;
/// What an interrupted call has in `rax` when the kernel is to make it again (Linux, `include/linux/errno.h`);
/// the last one by a call of its own.
const AGAIN: [i64; 3] = [-512, -513, -514];
const GO_ON: i64 = -516;

/// Where calls are made.
#[derive(Clone, Copy, Debug)]
pub(super) struct Site {
    pub address: u64,
    pub bytes: usize,
}

impl Process {
    /// Where calls are made.
    pub(super) fn site(&mut self) -> Result<Site, PtraceError> {
        if let Some(site) = self.site {
            return Ok(site);
        }
        let mappings = mappings(self.pid)?;
        let code = mappings.iter().filter(|one| one.executable);
        let mut sites: Vec<u64> = code.filter_map(|one| self.rest(one)).collect();
        sites.extend(self.entry().filter(|_| sites.is_empty()));
        let site = |address| address..address + ROOM as u64;
        // A thread of a controller that has died may be on its way back.
        self.run_out(|rip| sites.iter().any(|at| site(*at).contains(&rip)))?;
        let mut places = Vec::new();
        for thread in self.threads.keys() {
            places.push(self.registers(*thread)?.rip);
            places.extend(self.interrupted(*thread, &mappings)?.iter().map(|one| one.rip));
        }
        sites.retain(|at| !places.iter().any(|place| site(*at).contains(place)));
        let none = || PtraceError::new(self.pid, "find room for a system call")(Errno::EAGAIN);
        let site = Site { address: *sites.first().ok_or_else(none)?, bytes: ROOM };
        self.site = Some(site);
        Ok(site)
    }

    /// The end of a file's instructions, if they end early enough in their last page.
    fn rest(&self, mapping: &Mapping) -> Option<u64> {
        let mut headers = vec![0; HEADERS];
        if mapping.path.is_absolute() {
            let read = File::open(&mapping.path).ok()?.take(HEADERS as u64).read(&mut headers);
            headers.truncate(read.ok()?);
        } else if mapping.path.as_os_str() == "[vdso]" {
            self.read(mapping.start, &mut headers).ok()?;
        } else {
            return None;
        }
        let end = mapping.start.checked_add(end(&headers, mapping)?)?;
        (end <= mapping.end && mapping.end - end >= ROOM as u64).then_some(end)
    }

    /// Where the program begins: it has been there, and what is behind is needed when it ends.
    fn entry(&self) -> Option<u64> {
        let values = std::fs::read(format!("/proc/{}/auxv", self.pid)).ok()?;
        let (words, _) = values.as_chunks::<8>();
        let mut pairs = words
            .chunks_exact(2)
            .map(|pair| (u64::from_le_bytes(pair[0]), u64::from_le_bytes(pair[1])));
        pairs.find_map(|(kind, value)| (kind == libc::AT_ENTRY).then_some(value))
    }
}

/// Where in a mapping the file's instructions end, if it is all of a segment that is in the file as a whole.
fn end(headers: &[u8], mapping: &Mapping) -> Option<u64> {
    use object::elf::{FileHeader64, PF_X, PT_LOAD};
    use object::read::elf::{FileHeader, ProgramHeader};
    let endian = object::Endianness::Little;
    let header = FileHeader64::<object::Endianness>::parse(headers).ok()?;
    let segments = header.program_headers(endian, headers).ok()?;
    segments.iter().find_map(|one| {
        let (offset, bytes) = (one.p_offset(endian), one.p_filesz(endian));
        let start = offset / PAGE * PAGE;
        let is_it = one.p_type(endian) == PT_LOAD
            && one.p_flags(endian) & PF_X != 0
            && one.p_memsz(endian) == bytes
            && start == mapping.offset;
        let end = (offset - start).checked_add(bytes)?;
        let is_all = end.next_multiple_of(PAGE) == mapping.end - mapping.start;
        (is_it && is_all).then_some(end)
    })
}

/// What a thread is to have again.
pub(super) struct Return {
    pub registers: libc::user_regs_struct,
    pub mask: Mask,
}

impl Return {
    /// `syscall`, and the way back from there.
    pub fn code(&self) -> Vec<u8> {
        // Instructions of ours, all of which exist.
        self.assemble().unwrap_or_default()
    }

    /// `rax` and `rip`: those of a call that is to be made again lead to it.
    fn resumed(&self) -> (u64, u64) {
        let saved = &self.registers;
        let call = saved.rip.wrapping_sub(SYSCALL_BYTES);
        let is_call = saved.orig_rax.cast_signed() >= 0;
        match saved.rax.cast_signed() {
            result if is_call && AGAIN.contains(&result) => (saved.orig_rax, call),
            GO_ON if is_call => (libc::SYS_restart_syscall as u64, call),
            _ => (saved.rax, saved.rip),
        }
    }

    fn assemble(&self) -> Result<Vec<u8>, IcedError> {
        let mut asm = CodeAssembler::new(64)?;
        let (mut all, mut mask, mut flags) =
            (asm.create_label(), asm.create_label(), asm.create_label());
        let (mut stack, mut target) = (asm.create_label(), asm.create_label());
        asm.syscall()?;
        set_signal_mask(&mut asm, all)?;
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
            (&mut all, !0),
            (&mut mask, self.mask),
            (&mut flags, saved.eflags),
            (&mut stack, saved.rsp),
            (&mut target, rip),
        ];
        for (label, value) in values {
            asm.set_label(label)?;
            asm.dq(&[value])?;
        }
        // Nothing in it depends on where it is.
        asm.assemble(0)
    }
}

/// Takes a set of signals for the thread's, and changes no flags.
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
    use super::*;

    fn registers() -> libc::user_regs_struct {
        // SAFETY: integers only.
        unsafe { std::mem::zeroed() }
    }

    #[test]
    fn the_way_back_fits() {
        let mut registers = registers();
        // All that are put back are as long as they can be.
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
        let code = Return { registers, mask: !0 }.code();
        assert!(code.starts_with(&[0x0f, 0x05]), "{code:x?}");
        assert!(code.len() <= ROOM, "{}", code.len());
    }

    #[test]
    fn interrupted_calls_are_made_again() {
        let resumed = |result: i64, orig_rax: u64| {
            let mut registers = registers();
            registers.rax = result.cast_unsigned();
            (registers.orig_rax, registers.rip) = (orig_rax, 0x1002);
            Return { registers, mask: 0 }.resumed()
        };
        assert_eq!(resumed(-512, 7), (7, 0x1000));
        assert_eq!(resumed(-516, 35), (219, 0x1000));
        assert_eq!(resumed(-4, 7), ((-4i64).cast_unsigned(), 0x1002));
        assert_eq!(resumed(-512, u64::MAX), ((-512i64).cast_unsigned(), 0x1002));
    }
}
