//! The entry of a function to code that waits until the controller has seen that the function was called.
//!
//! The thread takes a number ([`header::ASKED`]) and spins until the controller has come so far
//! ([`header::ANSWERED`]). It makes no system call: the program may have forbidden itself any. Nothing is waited for
//! that may never come: without a sign of the controller ([`header::ALIVE`]) in so many [`TURNS`], the thread goes on,
//! and nobody waits any more ([`header::GIVEN_UP`]).

use iced_x86::IcedError;
use iced_x86::code_asm::*;

use super::layout::header;

/// Turns of the loop without a sign of the controller: 1.9 s on an AMD EPYC, by the time that `pause` takes. The clock
/// is not read, since a program can forbid itself that too.
const TURNS: u32 = 1 << 26;
/// Most bytes of the code.
pub(super) const BYTES: usize = 112;

/// The code, at the entry of a function: nothing below the stack pointer means anything there, nor do flags.
/// `shared`: where the process has the shared memory.
pub(super) fn code(shared: u64, at: u64) -> Result<Vec<u8>, IcedError> {
    let saved = [rax, rdi, rsi, rdx, rcx];
    let mut asm = CodeAssembler::new(64)?;
    let (mut again, mut same, mut over) =
        (asm.create_label(), asm.create_label(), asm.create_label());
    let word = |place: u64| dword_ptr(rdi + place as i32);
    saved.iter().try_for_each(|register| asm.push(*register))?;
    asm.mov(rdi, shared)?;
    asm.mov(esi, 1)?;
    asm.lock().xadd(word(header::ASKED), esi)?;
    asm.lea(esi, ptr(rsi + 1))?;
    asm.mov(edx, word(header::ALIVE))?;
    asm.mov(ecx, TURNS)?;
    asm.set_label(&mut again)?;
    asm.mov(eax, word(header::ANSWERED))?;
    asm.sub(eax, esi)?;
    asm.jns(over)?;
    asm.cmp(word(header::GIVEN_UP), 0)?;
    asm.jne(over)?;
    asm.mov(eax, word(header::ALIVE))?;
    asm.cmp(eax, edx)?;
    asm.je(same)?;
    asm.mov(edx, eax)?;
    asm.mov(ecx, TURNS)?;
    asm.set_label(&mut same)?;
    asm.pause()?;
    asm.sub(ecx, 1)?;
    asm.jne(again)?;
    // Whoever looks where the thread is takes all behind this for the end of the tag.
    asm.mov(word(header::GIVEN_UP), 1)?;
    asm.set_label(&mut over)?;
    saved.iter().rev().try_for_each(|register| asm.pop(*register))?;
    asm.assemble(at)
}
