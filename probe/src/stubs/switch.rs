//! A thread whose chunk is full to one that has another.
//!
//! Tags come here by jumps, with the address to go on at in `r11`, which they have saved below `rsp`. All
//! signals are blocked meanwhile, or a handler's tags would come here too and find things half done. One may
//! have been here just before, so the place is looked at again; then what is full is handed over, the next
//! chunk is taken, and the tag tries again. Without a next chunk the thread waits, or fills the spare chunk
//! over and over and counts what it threw away.
//!
//! Whoever waits looks whether the controller's heart beats. [`TURNS`] waits without that, and it is taken
//! for dead: nobody waits for it any more.
//!
//! Where the controller has set [`header::NO_CALLS`], none of this is done by system calls: signals are not blocked,
//! nobody is woken, nobody waits. A handler's tags that come between may cost records, which are counted as lost.
//!
//! | register | |
//! |---|---|
//! | `rbx`, `rbp` | slot, header |
//! | `r12d` | [`slot::FREED`] before chunks were looked at |
//! | `r13d`, `r14d` | heartbeat when it last moved; waits that are left until it must, negative without calls |

use iced_x86::IcedError;
use iced_x86::code_asm::*;

use super::layout::{LogShape, WhenFull, chunk, header, slot};

/// How long a wait lasts at most, in nanoseconds, and how many without a heartbeat are enough.
const WAIT_NS: i32 = 100_000_000;
const TURNS: u32 = 20;
/// What a tag may have saved below `rsp`.
pub(super) const SAVED_BYTES: i32 = 32;
/// Bytes of a set of signals, as the kernel has them.
const SIGNAL_SET_BYTES: u32 = 8;
/// All registers that are used, `r11` for the address to go on at.
pub(super) const SAVED: [AsmRegister64; 12] =
    [r11, rax, rcx, rdx, rsi, rdi, r10, rbx, rbp, r12, r13, r14];

/// The code, at an address.
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

fn system_call(asm: &mut CodeAssembler, number: libc::c_long) -> Result<(), IcedError> {
    asm.mov(eax, number as u32)?;
    asm.syscall()
}

fn enter(asm: &mut CodeAssembler) -> Result<(), IcedError> {
    asm.lea(rsp, ptr(rsp - SAVED_BYTES))?;
    for register in SAVED {
        asm.push(register)?;
    }
    // The set of all signals, in whose place the kernel puts the one that was blocked so far.
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

/// `rsi`: the new one; `rdx`: where the old one goes.
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

/// `rdx`: the chunk whose turn it is.
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
    // Seen before the doorbell is looked at: an exchange is a fence.
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
    // Before the look: if one is free since, the kernel does not wait.
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

/// Waits for a free chunk, unless that is in vain.
fn wait(asm: &mut CodeAssembler, take: CodeLabel) -> Result<(), IcedError> {
    let (mut same, mut in_vain) = (asm.create_label(), asm.create_label());
    asm.test(r14d, r14d)?;
    asm.js(in_vain)?;
    // Forbidden while it waited.
    asm.cmp(dword_ptr(rbp + header::NO_CALLS as i32), 0)?;
    asm.jne(in_vain)?;
    asm.cmp(dword_ptr(rbx + slot::ABANDONED as i32), 0)?;
    asm.jne(in_vain)?;
    asm.cmp(dword_ptr(rbp + header::DEAD as i32), 0)?;
    asm.jne(in_vain)?;
    asm.mov(eax, dword_ptr(rbp + header::HEARTBEAT as i32))?;
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
    asm.set_label(&mut in_vain)
}
