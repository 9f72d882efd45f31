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
//! text that a call takes, if it takes one
//! ```
//!
//! It needs no stack: flags are taken from the place itself, while no signal can come. A call of the thread's own
//! that was interrupted is made again, as the kernel does if no signal has come.
//!
//! Invariant: before a call the place is what the file has there. What a killed controller has left is found by that
//! ([`Process::clear_sites`]) and replaced by what the file has.

use std::collections::HashMap;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

use iced_x86::IcedError;
use iced_x86::code_asm::*;
use nix::errno::Errno;
use nix::unistd::Pid;

use super::seccomp::Call;
use super::{FileId, Mapping, Process, PtraceError, mapped, mappings};

/// A set of signals as the kernel has it.
pub(super) type Mask = u64;

/// Room for the code and what it puts back, in bytes.
const CODE_BYTES: usize = 288;
/// Bytes of a file's header with its program headers, as far as they are looked at.
const HEADERS: usize = 4096;
/// Places that are enough: threads can stand in some of them.
const SITES: usize = 64;
const PAGE: u64 = 4096;
/// Bytes of a set of signals, as the kernel has them.
const SIGNAL_SET_BYTES: u32 = 8;
/// Bytes of `syscall`.
const SYSCALL_BYTES: u64 = 2;
/// What an interrupted call has in `rax` when the kernel is to make it again (Linux, `include/linux/errno.h`);
/// the last one by a call of its own.
const AGAIN: [i64; 3] = [-512, -513, -514];
const GO_ON: i64 = -516;

/// What the code at a site begins with: `syscall`, then the first signal mask.
const CODE: [u8; 15] = [0x0f, 0x05, 0xb8, 0x0e, 0, 0, 0, 0xbf, 0x02, 0, 0, 0, 0x48, 0x8d, 0x35];

/// Where calls are made.
#[derive(Clone, Debug)]
pub(super) struct Site {
    pub address: u64,
    /// What the file has there; `None` if it cannot be read.
    original: Option<Vec<u8>>,
}

impl Site {
    /// Longest text that a call can be given, in bytes, and room that is looked for.
    pub const TEXT_BYTES: usize = 32;
    pub const BYTES: usize = CODE_BYTES + Site::TEXT_BYTES;

    /// Where the text is.
    pub fn text(&self) -> u64 {
        self.address + CODE_BYTES as u64
    }

    fn range(&self) -> std::ops::Range<u64> {
        self.address..self.address + Site::BYTES as u64
    }

    /// What is put there for a call, of what is `there`.
    pub fn filled(&self, there: &[u8], code: &[u8], text: &[u8]) -> Vec<u8> {
        let mut bytes = there.to_vec();
        bytes[..code.len()].copy_from_slice(code);
        bytes[CODE_BYTES..][..text.len()].copy_from_slice(text);
        bytes
    }

    /// All system calls that are made there for one: those on the way back as well, which a thread makes if we die.
    pub fn calls(&self, number: libc::c_long, arguments: &[u64; 6]) -> [Call; 2] {
        let how = Some(libc::SIG_SETMASK as u64);
        let size = Some(u64::from(SIGNAL_SET_BYTES));
        let way_back = [how, None, Some(0), size, None, None];
        [
            Call {
                number,
                arguments: arguments.map(Some),
                instruction_pointer: Some(self.address + SYSCALL_BYTES),
            },
            Call {
                number: libc::SYS_rt_sigprocmask,
                arguments: way_back,
                instruction_pointer: None,
            },
        ]
    }
}

impl Process {
    /// Where calls are made.
    pub(super) fn site(&mut self) -> Result<Site, PtraceError> {
        if let Some(site) = &self.site {
            return Ok(site.clone());
        }
        let site = self.free_sites()?.into_iter().next();
        let none = || PtraceError::new(self.pid, "find room for a system call")(Errno::EAGAIN);
        let site = site.ok_or_else(none)?;
        self.site = Some(site.clone());
        Ok(site)
    }

    /// Takes out what a killed controller has left where calls are made; all threads stand still.
    ///
    /// # Errors
    /// [`PtraceError`]
    pub fn clear_sites(&mut self) -> Result<(), PtraceError> {
        self.free_sites().map(drop)
    }

    /// Sites where nobody is, nor comes back to; they are as their files have them.
    fn free_sites(&mut self) -> Result<Vec<Site>, PtraceError> {
        let mappings = mappings(self.pid)?;
        // A file may be mapped more than once: the nearest beginning before a mapping is that of its headers.
        let mut firsts: HashMap<(Option<FileId>, &Path), &Mapping> = HashMap::new();
        let with_first = mappings.iter().map(|one| {
            let key = (one.file, one.path.as_path());
            if one.offset == 0 && !one.writable && one.file.is_some() {
                firsts.insert(key, one);
            }
            (one, firsts.get(&key).copied())
        });
        let code = with_first.filter(|(one, _)| one.executable && !one.shared);
        let rests = code.filter_map(|(one, first)| self.rest(one, first, &mappings));
        let mut sites: Vec<Site> = rests.take(SITES).collect();
        let entry = self.entry().filter(|_| sites.is_empty());
        sites.extend(entry.map(|address| Site { address, original: None }));
        // A thread of a controller that has died may be on its way back.
        let ranges: Vec<_> = sites.iter().map(Site::range).collect();
        self.run_out(|rip| ranges.iter().any(|range| range.contains(&rip)))?;
        let mut places = Vec::new();
        for thread in self.threads.keys() {
            places.push(self.registers(*thread)?.rip);
            places.extend(self.interrupted(*thread, &mappings)?.iter().map(|one| one.rip));
        }
        sites.retain(|site| !places.iter().any(|place| site.range().contains(place)));
        let mut free = Vec::new();
        for site in sites {
            if self.is_as_its_file(&site)? {
                free.push(site);
            }
        }
        Ok(free)
    }

    /// Whether a site is what its file has there, where code of ours may have to be taken out for that.
    fn is_as_its_file(&self, site: &Site) -> Result<bool, PtraceError> {
        let Some(original) = &site.original else { return Ok(true) };
        let mut there = vec![0; Site::BYTES];
        self.read(site.address, &mut there)?;
        if there.starts_with(&CODE) && there != *original {
            self.write(site.address, original)?;
            there.clone_from(original);
        }
        // What the program keeps there is its own.
        Ok(there == *original)
    }

    /// The end of a file's instructions, if they end early enough in their last page. The headers that say so are
    /// read from memory: the file's path may lead to another one. `first`: where the file's beginning is.
    fn rest(
        &self,
        mapping: &Mapping,
        first: Option<&Mapping>,
        mappings: &[Mapping],
    ) -> Option<Site> {
        let is_vdso = mapping.path.as_os_str() == "[vdso]";
        let first = match is_vdso {
            true => mapping,
            false => first?,
        };
        let mut headers = vec![0; HEADERS];
        self.read(first.start, &mut headers).ok()?;
        let inside = end(&headers, mapping)?;
        let address = mapping.start.checked_add(inside)?;
        if address > mapping.end || mapping.end - address < Site::BYTES as u64 {
            return None;
        }
        let mut original = vec![0; Site::BYTES];
        if is_vdso {
            original = own_vdso(&headers, inside)?;
        } else {
            let read = |address, bytes: &mut [u8]| self.read(address, bytes).is_ok();
            let file = mapped::open(self.pid, mapping, mappings, read).ok()?;
            // Behind its end the kernel has zeros.
            read_at(&file, mapping.offset + inside, &mut original).ok()?;
        }
        Some(Site { address, original: Some(original) })
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

/// Reads what there is of a file from an offset on. How much that is.
fn read_at(file: &File, offset: u64, bytes: &mut [u8]) -> std::io::Result<usize> {
    let mut filled = 0;
    while filled < bytes.len() {
        match file.read_at(&mut bytes[filled..], offset + filled as u64)? {
            0 => break,
            more => filled += more,
        }
    }
    Ok(filled)
}

/// What our own process has where another one has a part of what the kernel maps, if that is the same.
fn own_vdso(headers: &[u8], inside: u64) -> Option<Vec<u8>> {
    let mappings = mappings(Pid::this()).ok()?;
    let own = mappings.iter().find(|one| one.path.as_os_str() == "[vdso]")?;
    let size = (own.end - own.start) as usize;
    // SAFETY: the kernel has mapped that much there, readable, for as long as we live.
    let bytes = unsafe { std::slice::from_raw_parts(own.start as *const u8, size) };
    let there = inside as usize..(inside as usize).checked_add(Site::BYTES)?;
    bytes.starts_with(headers).then(|| bytes.get(there).map(<[u8]>::to_vec)).flatten()
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
        assert!(code.starts_with(&CODE), "{code:x?}");
        assert!(code.len() <= CODE_BYTES, "{}", code.len());
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
