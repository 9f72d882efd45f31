//! Generates breakpoints: tags at which a thread waits until the controller has handled its
//! arrival.
//!
//! The thread takes a number ([`header::ASKED`]) and spins until the controller has handled that
//! number ([`header::ANSWERED`]). The thread makes no system call, because the program may have
//! forbidden all system calls. The wait is limited: if the controller's liveness counter
//! ([`header::BREAKPOINT_LIVENESS`]) does not change during [`TURNS`] turns of the loop, the thread
//! continues, and from then on no thread waits at breakpoints ([`header::GIVEN_UP`]).

use iced_x86::IcedError;
use iced_x86::code_asm::*;

use super::layout::header;
use crate::address::RunAddr;

/// Number of turns of the loop without a change of the liveness counter. They take 1.9 s on an AMD
/// EPYC, nearly all of it in `pause`. The time is not read from the time stamp counter, because a
/// program can forbid itself to read it.
const TURNS: u32 = 1 << 26;
/// Maximum size of the code, in bytes.
pub(super) const BYTES: usize = 112;

/// Generates a breakpoint for a function's entry, where neither flags nor the red zone are live.
/// `shared`: address of the shared memory in the process.
///
/// # Errors
/// [`IcedError`] if an instruction cannot be encoded.
pub(super) fn code(shared: RunAddr, at: u64) -> Result<Vec<u8>, IcedError> {
    let saved = [rax, rdi, rsi, rdx, rcx];
    let mut asm = CodeAssembler::new(64)?;
    let (mut again, mut same, mut over) =
        (asm.create_label(), asm.create_label(), asm.create_label());
    let word = |place: u64| dword_ptr(rdi + place as i32);
    saved.iter().try_for_each(|register| asm.push(*register))?;
    asm.mov(rdi, shared.0)?;
    asm.mov(esi, 1)?;
    asm.lock().xadd(word(header::ASKED), esi)?;
    asm.lea(esi, ptr(rsi + 1))?;
    asm.mov(edx, word(header::BREAKPOINT_LIVENESS))?;
    asm.mov(ecx, TURNS)?;
    asm.set_label(&mut again)?;
    asm.mov(eax, word(header::ANSWERED))?;
    asm.sub(eax, esi)?;
    asm.jns(over)?;
    asm.cmp(word(header::GIVEN_UP), 0)?;
    asm.jne(over)?;
    asm.mov(eax, word(header::BREAKPOINT_LIVENESS))?;
    asm.cmp(eax, edx)?;
    asm.je(same)?;
    asm.mov(edx, eax)?;
    asm.mov(ecx, TURNS)?;
    asm.set_label(&mut same)?;
    asm.pause()?;
    asm.sub(ecx, 1)?;
    asm.jne(again)?;
    // If a thread is interrupted behind this instruction, its tag counts as finished.
    asm.mov(word(header::GIVEN_UP), 1)?;
    asm.set_label(&mut over)?;
    saved.iter().rev().try_for_each(|register| asm.pop(*register))?;
    asm.assemble(at)
}
