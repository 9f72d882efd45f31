//! Generates the code that signal handlers return through: it redirects a thread from the original
//! address of a moved instruction to its copy in a stub.
//!
//! A signal handler sees original addresses, so it may return to an instruction that a jump has
//! overwritten. A handler returns to a *restorer*, which makes the system call `rt_sigreturn`; the
//! kernel loads all registers from the signal frame on the stack. Restorers are changed to jump to
//! the code made here. This code reads the frame's `rip`, replaces it where needed, and jumps to
//! the restorer's own `syscall`. It may change all registers and flags, because the kernel loads
//! them from the frame. The code works without the controller, which may have been killed.
//!
//! ```text
//! frame   rsp + 160  rsp, 168 rip                        (Linux, uapi/asm/sigcontext.h: ucontext at rsp)
//!         rsp + 232  reserved1[8] of the sigcontext, which the kernel neither reads nor writes:
//!                    number of the session | rip that the handler sees | address where the thread continues
//! list    next list | first original address | address after the last one | number of entries | entries
//! entry   original address | address of the copy | 4: distance from the region's start | 4: first two bytes there
//! ```
//!
//! The three words in the frame are the *resumption*. It states on which side of a tag the thread
//! continues. It is used once, and only if the frame's `rip` is still the one that the handler has
//! seen. For a frame whose `rip` the handler has changed, the lists give the copy of a moved
//! instruction. An entry of a list is used only while the jump is in place, because a library may
//! have been unloaded.
//!
//! Invariant: the code is safe for any frame. A missing resumption makes a count wrong, but never
//! changes the program's state.
//!
//! Invariant: the code may be restarted before each of its instructions, which happens after a
//! signal within the code. Therefore the resumption is cleared only after its address has been
//! stored as the frame's `rip`. If it were cleared before, a restart in between would find neither,
//! and a thread that continues at the start of a region would count again. No list contains the
//! stored address, because it is in a stub.

use iced_x86::IcedError;
use iced_x86::code_asm::*;

use crate::address::RunAddr;

/// Offset of `rip` from the frame's `ucontext`, in bytes.
pub const RIP: u64 = 168;
/// Offset of the resumption from the frame's `ucontext`, in bytes.
pub const RESUMPTION: u64 = 232;
/// Bytes reserved for the code and its data.
pub const AREA_BYTES: u64 = 256;
/// Offset in this area of the pointer to the first list.
pub const FIRST_LIST: u64 = AREA_BYTES - 8;
/// Bytes of a list without its entries, and of an entry.
const LIST_BYTES: i32 = 32;
const ENTRY_BYTES: u64 = 24;
/// `mov rax, 15` in 7 and in 5 bytes, followed by `syscall`.
const LONG: [u8; 9] = [0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05];
const SHORT: [u8; 7] = [0xb8, 0x0f, 0, 0, 0, 0x0f, 0x05];
/// Byte behind the system call in Go's restorer.
const TRAP: u8 = 0xcc;

/// Form of a restorer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The form of C libraries. Unwinders without other information recognize its bytes.
    Long,
    /// The form of Go.
    Short,
}

impl Kind {
    /// Offset of the `syscall` instruction, in bytes.
    pub fn call_at(self) -> u64 {
        match self {
            Kind::Long => 7,
            Kind::Short => 5,
        }
    }
}

/// Finds the restorers in some code. Returns the offset and form of each.
pub fn find(code: &[u8]) -> impl Iterator<Item = (u64, Kind)> + '_ {
    let calls = memchr::memmem::find_iter(code, &LONG[3..]).map(|at| at + 4);
    calls.filter_map(|at| {
        let (before, after) = (&code[..at + 2], code.get(at + 2));
        if before.ends_with(&LONG) {
            return Some(((at - 7) as u64, Kind::Long));
        }
        // The bytes alone are not enough: other instructions, such as a move to another register,
        // contain them.
        let apart = before.len().checked_sub(SHORT.len() + 1).map(|at| before[at]);
        let is_go = before.ends_with(&SHORT) && after == Some(&TRAP) && apart == Some(TRAP);
        is_go.then(|| ((at - 5) as u64, Kind::Short))
    })
}

/// Whether the bytes that a near jump has overwritten may be the beginning of a restorer.
pub fn may_begin(code: &[u8]) -> bool {
    code.len() == 5 && (LONG.starts_with(code) || SHORT.starts_with(code))
}

/// A moved instruction whose original bytes a jump has overwritten.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Entry {
    /// Original address of the instruction.
    pub original: RunAddr,
    /// Address of the copy in a stub.
    pub counterpart: RunAddr,
    /// Address of the jump.
    pub start: RunAddr,
    /// First two bytes of the jump.
    pub jump: [u8; 2],
}

/// Number of bytes of a list with `entries` entries.
pub fn list_bytes(entries: u64) -> u64 {
    LIST_BYTES as u64 + entries * ENTRY_BYTES
}

/// Encodes a list. `entries`: sorted by original address. `next`: address of the next list, or 0.
pub fn list(entries: &[Entry], next: RunAddr) -> Vec<u8> {
    let first = entries.first().map_or(0, |entry| entry.original.0);
    let end = entries.last().map_or(0, |entry| entry.original.0 + 1);
    let mut bytes = Vec::with_capacity(list_bytes(entries.len() as u64) as usize);
    for word in [next.0, first, end, entries.len() as u64] {
        bytes.extend(word.to_le_bytes());
    }
    for entry in entries {
        bytes.extend(entry.original.0.to_le_bytes());
        bytes.extend(entry.counterpart.0.to_le_bytes());
        bytes.extend((entry.original.wrapping_offset_from(entry.start) as u32).to_le_bytes());
        bytes.extend(u32::from(u16::from_le_bytes(entry.jump)).to_le_bytes());
    }
    bytes
}

/// Generates the code at an address. `session`: number of the controller's session. `call`: address
/// of the restorer's `syscall`.
///
/// # Errors
/// [`IcedError`] if an instruction cannot be encoded.
pub fn code(at: RunAddr, session: u64, call: RunAddr) -> Result<Vec<u8>, IcedError> {
    let mut asm = CodeAssembler::new(64)?;
    let (mut lists, mut next, mut look) =
        (asm.create_label(), asm.create_label(), asm.create_label());
    let (mut lower, mut hit, mut skip) =
        (asm.create_label(), asm.create_label(), asm.create_label());
    let (mut unused, mut done) = (asm.create_label(), asm.create_label());
    let resumption = RESUMPTION as i32;
    asm.mov(rdi, qword_ptr(rsp + RIP as i32))?;
    asm.mov(rax, session)?;
    asm.cmp(qword_ptr(rsp + resumption), rax)?;
    asm.jne(lists)?;
    asm.cmp(qword_ptr(rsp + resumption + 8), rdi)?;
    asm.jne(unused)?;
    asm.mov(rax, qword_ptr(rsp + resumption + 16))?;
    asm.mov(qword_ptr(rsp + RIP as i32), rax)?;
    asm.mov(qword_ptr(rsp + resumption), 0)?;
    asm.jmp(done)?;
    asm.set_label(&mut unused)?;
    asm.mov(qword_ptr(rsp + resumption), 0)?;
    asm.set_label(&mut lists)?;
    asm.mov(rsi, (at + FIRST_LIST).0)?;
    asm.set_label(&mut skip)?;
    asm.mov(rsi, qword_ptr(rsi))?;
    asm.set_label(&mut next)?;
    asm.test(rsi, rsi)?;
    asm.je(done)?;
    asm.cmp(rdi, qword_ptr(rsi + 8))?;
    asm.jb(skip)?;
    asm.cmp(rdi, qword_ptr(rsi + 16))?;
    asm.jae(skip)?;
    // Binary search for the entry between rcx and rdx.
    asm.xor(ecx, ecx)?;
    asm.mov(rdx, qword_ptr(rsi + 24))?;
    asm.set_label(&mut look)?;
    asm.cmp(rcx, rdx)?;
    asm.jae(skip)?;
    asm.lea(rax, ptr(rcx + rdx))?;
    asm.shr(rax, 1)?;
    asm.lea(r8, ptr(rax + rax * 2))?;
    asm.lea(r8, ptr(rsi + r8 * 8 + LIST_BYTES))?;
    asm.cmp(rdi, qword_ptr(r8))?;
    asm.je(hit)?;
    asm.jb(lower)?;
    asm.lea(rcx, ptr(rax + 1))?;
    asm.jmp(look)?;
    asm.set_label(&mut lower)?;
    asm.mov(rdx, rax)?;
    asm.jmp(look)?;
    asm.set_label(&mut hit)?;
    asm.mov(eax, dword_ptr(r8 + 16))?;
    asm.mov(rcx, rdi)?;
    asm.sub(rcx, rax)?;
    asm.movzx(ecx, word_ptr(rcx))?;
    asm.cmp(ecx, dword_ptr(r8 + 20))?;
    asm.jne(done)?;
    asm.mov(rax, qword_ptr(r8 + 8))?;
    asm.mov(qword_ptr(rsp + RIP as i32), rax)?;
    asm.set_label(&mut done)?;
    asm.mov(eax, libc::SYS_rt_sigreturn as u32)?;
    asm.jmp(call.0)?;
    asm.assemble(at.0)
}

#[cfg(test)]
mod tests;
