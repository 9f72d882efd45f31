//! Finds where a thread continues when its signal handlers return, by searching its stacks.
//!
//! When a handler is called, the kernel stores a signal frame on the stack: a return address that
//! leads to code that calls `rt_sigreturn`, the restorer, and then a `ucontext` with the
//! interrupted registers (Linux, `arch/x86/include/uapi/asm/sigcontext.h`).

mod frames;

use nix::unistd::Pid;

pub(super) use self::frames::SignalFrames;
use super::{Mapping, PtraceError, ReadMemory, Stopped};
use crate::address::RunAddr;

/// Ways to load the number of `rt_sigreturn` into `rax`: as C libraries do, as Go and others do, as
/// a 64-bit number, and through the stack.
const RETURN: [&[u8]; 4] = [
    &[0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0],
    &[0xb8, 0x0f, 0, 0, 0],
    &[0x48, 0xb8, 0x0f, 0, 0, 0, 0, 0, 0, 0],
    &[0x6a, 0x0f, 0x58],
];
/// The instruction behind the load.
const SYSCALL: [u8; 2] = [0x0f, 0x05];
/// Length of the longest load with the instruction behind it, in bytes.
const RETURN_BYTES: usize = 12;
/// Offset of the interrupted `rip` from the return address. In between are the flags, link and
/// stack of the `ucontext`, and 16 registers.
const RIP: usize = 8 + 8 + 8 + 24 + 16 * 8;
/// Offset of the interrupted `rip` from the stack pointer after the handler has returned.
const IN_RESTORER: usize = RIP - 8;
/// Distance of `rsp` before `rip`, and of the segment registers behind `rip`. The flags are between
/// `rip` and the segment registers.
const RSP_BEFORE: usize = 8;
const SEGMENTS_BEHIND: usize = 16;
/// Bytes of a frame up to and including the segment registers.
const FRAME: usize = RIP + SEGMENTS_BEHIND + 8;
/// `cs` of 64-bit code.
const CS: u16 = 0x33;
/// Largest defined value of the `ucontext` flags.
const UC_FLAGS: u64 = 7;

/// The state that a thread returns to from a signal handler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HandlerReturn {
    /// The saved instruction pointer.
    pub rip: RunAddr,
    /// Address of the saved instruction pointer.
    pub place: RunAddr,
    /// Address of the restorer that the handler will return to; `None` if the handler has already
    /// returned to it.
    pub restorer: Option<RunAddr>,
}

impl Stopped<'_> {
    /// Finds the returns from all signal handlers that a thread is in, in no particular order. For
    /// example, a handler that has interrupted another handler gives two returns.
    ///
    /// # Errors
    /// [`PtraceError`] if the thread's registers cannot be read; [`PtraceError::TooMuchMemory`] if
    /// the stacks of the process are larger than what is searched.
    pub fn handler_returns(
        &self,
        thread: Pid,
        mappings: &[Mapping],
    ) -> Result<Vec<HandlerReturn>, PtraceError> {
        let registers = self.registers(thread)?;
        let at = (RunAddr(registers.rip), RunAddr(registers.rsp));
        let mut frames = self.signal_frames.borrow_mut();
        frames.returns(self, (thread, at), mappings, &self.restorers)
    }
}

fn is_restorer(memory: &impl ReadMemory, address: RunAddr) -> bool {
    return_at(memory, address).is_some()
}

/// If a restorer is at the address, the offset of its `syscall` instruction in bytes.
fn return_at(memory: &impl ReadMemory, address: RunAddr) -> Option<u64> {
    let mut code = [0; RETURN_BYTES];
    // The code may end at the end of a page.
    let length = (1..=RETURN_BYTES)
        .rev()
        .find(|length| memory.read(address, &mut code[..*length]).is_ok())?;
    let begins = |way: &&&[u8]| {
        let rest = code[..length].strip_prefix(**way);
        rest.is_some_and(|rest| rest.starts_with(&SYSCALL))
    };
    RETURN.iter().find(begins).map(|way| way.len() as u64)
}

/// Whether a thread is within a restorer, before its system call. `changed`: restorers whose code
/// was changed.
fn is_returning(memory: &impl ReadMemory, rip: RunAddr, changed: &[RunAddr]) -> bool {
    let is_at = |before: u64| {
        let start = rip.wrapping_sub(before);
        return_at(memory, start) == Some(before) || changed.contains(&start)
    };
    is_restorer(memory, rip)
        || changed.contains(&rip)
        || RETURN.iter().any(|way| is_at(way.len() as u64))
}
