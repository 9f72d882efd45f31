//! Generates breakpoints: tags at which a thread waits until the controller has seen the call.
//!
//! The thread takes a number ([`header::ASKED`]) and spins until the controller has processed that
//! number ([`header::ANSWERED`]). It makes no system call, because the program may have forbidden
//! itself any. A thread does not wait forever: if the controller's liveness counter
//! ([`header::BREAKPOINT_LIVENESS`]) does not change during [`TURNS`] turns of the loop, the thread
//! continues, and no thread waits any longer ([`header::GIVEN_UP`]).

use iced_x86::IcedError;
use iced_x86::code_asm::*;

use super::layout::header;
use crate::address::RunAddr;

/// Turns of the loop without a change of the liveness counter. They take 1.9 s on an AMD EPYC,
/// nearly all of it in `pause`. The clock is not read, because a program can forbid itself that
/// too.
const TURNS: u32 = 1 << 26;
/// Largest size of the code, in bytes.
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
    // An interrupted thread counts as finished with the tag after this instruction.
    asm.mov(word(header::GIVEN_UP), 1)?;
    asm.set_label(&mut over)?;
    saved.iter().rev().try_for_each(|register| asm.pop(*register))?;
    asm.assemble(at)
}
