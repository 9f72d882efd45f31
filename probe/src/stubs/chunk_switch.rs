//! Generates the code shared by a log's tags that hands over a full chunk and takes a free one.
//!
//! A tag jumps here with the return address in `r11`; it has saved the program's `r11` below `rsp`.
//! All signals are blocked meanwhile, because a tag in a signal handler would find the slot half
//! changed. A handler may have run just before, so the pointer is checked again. Then the full
//! chunk is handed over, the next chunk is taken, and the tag tries again. If the next chunk is not
//! free, the thread waits, or fills the spare chunk repeatedly and counts the lost records.
//!
//! A waiting thread watches the controller's liveness counter. If the counter has not changed after
//! [`TURNS`] waits, the controller is taken for dead, and no thread waits for it any longer.
//!
//! Where the controller has set [`header::NO_CALLS`], the code makes no system calls: signals are
//! not blocked, the controller is not woken, and threads do not wait. Tags of a handler that runs
//! in between may then lose records; lost records are counted.
//!
//! | register | |
//! |---|---|
//! | `rbx`, `rbp` | slot, header |
//! | `r12d` | [`slot::FREED`] before the chunks are checked |
//! | `r13d`, `r14d` | liveness counter when it last changed; remaining waits until it must change, negative without system calls |

use iced_x86::code_asm::*;
use iced_x86::{Decoder, DecoderOptions, IcedError, Instruction, Mnemonic};

use super::layout::{LogShape, WhenFull, chunk, header, slot};

/// Maximum duration of a wait in nanoseconds, and number of waits without a change of the liveness
/// counter.
const WAIT_NS: i32 = 100_000_000;
pub(crate) const TURNS: u32 = 20;
/// Bytes below `rsp` in which a tag may have saved registers.
pub(super) const SAVED_BYTES: i32 = 32;
/// Bytes of a signal set, as the kernel defines it.
const SIGNAL_SET_BYTES: u32 = 8;
/// All registers that the code uses, and `r11` with the return address.
pub(super) const SAVED: [AsmRegister64; 12] =
    [r11, rax, rcx, rdx, rsi, rdi, r10, rbx, rbp, r12, r13, r14];

/// Generates the code at an address.
///
/// # Errors
/// [`IcedError`] if an instruction cannot be encoded.
pub(crate) fn code(shape: &LogShape, at: u64) -> Result<Vec<u8>, IcedError> {
    let mut asm = CodeAssembler::new(64)?;
    let (mut take, mut go_on) = (asm.create_label(), asm.create_label());
    enter(&mut asm)?;
    hand_over(&mut asm, shape, take, go_on)?;
    asm.set_label(&mut take)?;
    take_chunk(&mut asm, shape, take, go_on)?;
    asm.set_label(&mut go_on)?;
    leave(&mut asm)?;
    asm.assemble(at)
}

/// The system calls in the generated code, by their offsets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SystemCalls {
    /// Offset of each `syscall`, ascending. The first one blocks all signals, the last one restores
    /// the signal mask.
    pub offsets: Vec<usize>,
    /// Offset at which the code continues without system calls. The caller sets `r14d` to a
    /// negative number and skips the first system call.
    pub silent: usize,
}

impl SystemCalls {
    /// Finds the system calls. `None` if `code` was not made by [`code`].
    pub fn find(code: &[u8]) -> Option<SystemCalls> {
        let instructions: Vec<Instruction> =
            Decoder::with_ip(64, code, 0, DecoderOptions::NONE).into_iter().collect();
        let is_call = |instruction: &&Instruction| instruction.mnemonic() == Mnemonic::Syscall;
        let offsets: Vec<usize> = instructions
            .iter()
            .filter(is_call)
            .map(|instruction| instruction.ip() as usize)
            .collect();
        let first = instructions.iter().position(|instruction| is_call(&instruction))?;
        // The instruction behind the call sets `r14d` to the number of waits, and is skipped.
        let silent = instructions.get(first + 1)?.next_ip() as usize;
        Some(SystemCalls { offsets, silent })
    }
}

fn system_call(asm: &mut CodeAssembler, number: libc::c_long) -> Result<(), IcedError> {
    asm.mov(eax, number as u32)?;
    asm.syscall()
}

fn enter(asm: &mut CodeAssembler) -> Result<(), IcedError> {
    asm.lea(rsp, ptr(rsp - SAVED_BYTES))?;
    for register in SAVED {
        asm.push(register)?;
    }
    // Pushes the set of all signals. The kernel replaces it by the previous signal mask.
    asm.push(-1)?;
    let mut silent = asm.create_label();
    asm.mov(rbx, qword_ptr(slot::SELF).gs())?;
    asm.mov(rbp, qword_ptr(rbx + slot::HEADER as i32))?;
    asm.mov(r14d, -1)?;
    asm.cmp(dword_ptr(rbp + header::NO_CALLS as i32), 0)?;
    asm.jne(silent)?;
    asm.mov(rsi, rsp)?;
    asm.mov(rdx, rsp)?;
    set_signal_mask(asm)?;
    asm.mov(r14d, TURNS)?;
    asm.set_label(&mut silent)
}

/// Sets the signal mask. `rsi`: address of the new mask. `rdx`: address to which the kernel writes
/// the old mask.
fn set_signal_mask(asm: &mut CodeAssembler) -> Result<(), IcedError> {
    asm.mov(edi, libc::SIG_SETMASK)?;
    asm.mov(r10d, SIGNAL_SET_BYTES)?;
    system_call(asm, libc::SYS_rt_sigprocmask)
}

fn leave(asm: &mut CodeAssembler) -> Result<(), IcedError> {
    let mut silent = asm.create_label();
    asm.test(r14d, r14d)?;
    asm.js(silent)?;
    asm.mov(rsi, rsp)?;
    asm.xor(edx, edx)?;
    set_signal_mask(asm)?;
    asm.set_label(&mut silent)?;
    asm.lea(rsp, ptr(rsp + 8))?;
    for register in SAVED.into_iter().rev() {
        asm.pop(register)?;
    }
    asm.lea(rsp, ptr(rsp + SAVED_BYTES))?;
    asm.jmp(r11)
}

/// Sets `rdx` to the address of the chunk with the thread's current number.
fn find_chunk(asm: &mut CodeAssembler, shape: &LogShape) -> Result<(), IcedError> {
    asm.mov(edx, dword_ptr(rbx + slot::NUMBER as i32))?;
    asm.and(edx, shape.chunks as i32 - 1)?;
    asm.inc(edx)?;
    asm.shl(rdx, shape.chunk_bytes.trailing_zeros())?;
    asm.add(rdx, rbx)
}

fn hand_over(
    asm: &mut CodeAssembler,
    shape: &LogShape,
    take: CodeLabel,
    go_on: CodeLabel,
) -> Result<(), IcedError> {
    let mut chunk = asm.create_label();
    asm.test(dword_ptr(rbx + slot::POINTER as i32), shape.place_mask())?;
    asm.jne(go_on)?;
    asm.cmp(dword_ptr(rbx + slot::DROPPING as i32), 0)?;
    asm.je(chunk)?;
    asm.add(qword_ptr(rbx + slot::DROPPED as i32), shape.capacity() as i32)?;
    asm.jmp(take)?;
    asm.set_label(&mut chunk)?;
    find_chunk(asm, shape)?;
    asm.inc(qword_ptr(rbx + slot::NUMBER as i32))?;
    // The state must be visible before the doorbell is read: an exchange is a full barrier.
    asm.mov(eax, chunk::FULL)?;
    asm.xchg(dword_ptr(rdx + chunk::STATE as i32), eax)?;
    asm.test(r14d, r14d)?;
    asm.js(take)?;
    asm.cmp(dword_ptr(rbp + header::SLEEPS as i32), 0)?;
    asm.je(take)?;
    asm.lock().inc(dword_ptr(rbp + header::DOORBELL as i32))?;
    asm.lea(rdi, ptr(rbp + header::DOORBELL as i32))?;
    asm.mov(esi, libc::FUTEX_WAKE)?;
    asm.mov(edx, 1)?;
    system_call(asm, libc::SYS_futex)
}

fn take_chunk(
    asm: &mut CodeAssembler,
    shape: &LogShape,
    take: CodeLabel,
    go_on: CodeLabel,
) -> Result<(), IcedError> {
    let mut none = asm.create_label();
    // The counter is read before the state. If a chunk becomes free in between, the kernel does not
    // wait.
    asm.mov(r12d, dword_ptr(rbx + slot::FREED as i32))?;
    find_chunk(asm, shape)?;
    asm.cmp(dword_ptr(rdx + chunk::STATE as i32), chunk::FREE as i32)?;
    asm.jne(none)?;
    asm.mov(rax, qword_ptr(rbx + slot::DROPPED as i32))?;
    asm.mov(qword_ptr(rdx + chunk::LOST as i32), rax)?;
    asm.mov(dword_ptr(rdx + chunk::STATE as i32), chunk::FILLING)?;
    asm.mov(dword_ptr(rbx + slot::DROPPING as i32), 0)?;
    asm.lea(rax, ptr(rdx + chunk::GUARD_BYTES as i32))?;
    asm.mov(qword_ptr(rbx + slot::POINTER as i32), rax)?;
    asm.jmp(go_on)?;
    asm.set_label(&mut none)?;
    if shape.when_full == WhenFull::Wait {
        wait(asm, take)?;
    }
    asm.mov(dword_ptr(rbx + slot::DROPPING as i32), 1)?;
    asm.lea(rax, ptr(rbx + chunk::GUARD_BYTES as i32))?;
    asm.mov(qword_ptr(rbx + slot::POINTER as i32), rax)
}

/// Waits for a free chunk, unless no chunk can become free.
fn wait(asm: &mut CodeAssembler, take: CodeLabel) -> Result<(), IcedError> {
    let (mut same, mut no_wait) = (asm.create_label(), asm.create_label());
    asm.test(r14d, r14d)?;
    asm.js(no_wait)?;
    // System calls may have been forbidden during the previous wait.
    asm.cmp(dword_ptr(rbp + header::NO_CALLS as i32), 0)?;
    asm.jne(no_wait)?;
    asm.cmp(dword_ptr(rbx + slot::ABANDONED as i32), 0)?;
    asm.jne(no_wait)?;
    asm.cmp(dword_ptr(rbp + header::DEAD as i32), 0)?;
    asm.jne(no_wait)?;
    asm.mov(eax, dword_ptr(rbp + header::LIVENESS as i32))?;
    asm.cmp(eax, r13d)?;
    asm.mov(r13d, eax)?;
    asm.je(same)?;
    asm.mov(r14d, TURNS)?;
    asm.set_label(&mut same)?;
    asm.mov(dword_ptr(rbx + slot::WAITING as i32), 1)?;
    asm.push(WAIT_NS)?;
    asm.push(0)?;
    asm.lea(rdi, ptr(rbx + slot::FREED as i32))?;
    asm.mov(esi, libc::FUTEX_WAIT)?;
    asm.mov(edx, r12d)?;
    asm.mov(r10, rsp)?;
    system_call(asm, libc::SYS_futex)?;
    asm.lea(rsp, ptr(rsp + 16))?;
    asm.dec(r14d)?;
    asm.jne(take)?;
    asm.mov(dword_ptr(rbp + header::DEAD as i32), 1)?;
    asm.set_label(&mut no_wait)
}

#[cfg(test)]
mod tests {
    use iced_x86::Register;

    use super::*;

    #[test]
    fn the_stack_that_is_used_is_what_the_document_states() {
        let (chunk_bytes, chunks, when_full) = (8192, 2, WhenFull::Wait);
        let shape = LogShape { is_timed: true, chunk_bytes, chunks, when_full };
        let code = code(&shape, 0x1000).unwrap();
        let (mut depth, mut deepest) = (0, 0);
        for instruction in Decoder::with_ip(64, &code, 0x1000, DecoderOptions::NONE) {
            depth -= match instruction.mnemonic() {
                Mnemonic::Lea if instruction.op0_register() == Register::RSP => {
                    instruction.memory_displacement64().cast_signed()
                }
                _ => i64::from(instruction.stack_pointer_increment()),
            };
            deepest = deepest.max(depth);
        }
        // docs/tag.md, *Loops and blocks*.
        assert_eq!((depth, deepest), (0, 152));
    }
}
