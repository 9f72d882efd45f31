//! Finds where a thread continues when its signal handlers return, by searching its stacks.
//!
//! When a handler is called, the kernel stores on the stack a return address to code that calls
//! `rt_sigreturn`, then a `ucontext` with the interrupted registers (Linux,
//! `arch/x86/include/uapi/asm/sigcontext.h`).

use std::collections::{BTreeMap, HashMap};

use nix::unistd::Pid;

use super::{Mapping, PtraceError, Stopped};
use crate::address::RunAddr;

/// Ways to load the number of `rt_sigreturn` into `rax`: of C libraries, of Go and others, as a
/// 64-bit number, and through the stack.
const RETURN: [&[u8]; 4] = [
    &[0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0],
    &[0xb8, 0x0f, 0, 0, 0],
    &[0x48, 0xb8, 0x0f, 0, 0, 0, 0, 0, 0, 0],
    &[0x6a, 0x0f, 0x58],
];
/// The instruction that follows.
const SYSCALL: [u8; 2] = [0x0f, 0x05];
/// Bytes of the longest of these sequences.
const RETURN_BYTES: usize = 12;
/// Offset of the interrupted `rip` from the return address. In between are flags, link and stack of
/// the `ucontext`, and 16 registers.
const RIP: usize = 8 + 8 + 8 + 24 + 16 * 8;
/// The same offset from the stack pointer when the handler has returned.
const IN_RESTORER: usize = RIP - 8;
/// Distance of `rsp` before `rip`, and of the segment registers after `rip`; the flags are in
/// between.
const RSP_BEFORE: usize = 8;
const SEGMENTS_BEHIND: usize = 16;
/// Bytes of a frame up to the segment registers.
const FRAME: usize = RIP + SEGMENTS_BEHIND + 8;
/// `cs` of 64-bit code.
const CS: u64 = 0x33;
/// Largest defined value of the `ucontext` flags.
const UC_FLAGS: u64 = 7;
/// Most bytes that are searched of all stacks of a thread.
const LONGEST: u64 = 64 << 20;
/// Most addresses that are checked for being restorers: a program has few. Beyond this number,
/// everything that has the layout of a frame counts as one.
const MOST_RESTORERS: usize = 4096;

/// The state that a thread returns to from a signal handler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HandlerReturn {
    /// The saved instruction pointer.
    pub rip: RunAddr,
    /// Address of the saved instruction pointer.
    pub place: RunAddr,
    /// Address of the restorer that the handler returns to; `None` if it has already returned to
    /// it.
    pub restorer: Option<RunAddr>,
}

impl Stopped<'_> {
    /// Finds the returns from all signal handlers that a thread is in, in no particular
    /// order.
    ///
    /// # Errors
    /// [`PtraceError`] if the thread's registers cannot be read.
    pub fn handler_returns(
        &self,
        thread: Pid,
        mappings: &[Mapping],
    ) -> Result<Vec<HandlerReturn>, PtraceError> {
        let registers = self.registers(thread)?;
        // Binary search by address: a process may have tens of thousands of mappings.
        let holding = |address: RunAddr| {
            let next = mappings.partition_point(|one| one.start <= address);
            let found = mappings.get(next.checked_sub(1)?);
            found.filter(|one| address < one.end)
        };
        let is_code = |address: RunAddr| holding(address).is_some_and(|one| one.executable);
        let (mut all, mut known, mut left) = (Vec::new(), HashMap::new(), LONGEST);
        // A handler may run on an alternate stack, and be interrupted by a handler on another one.
        // Each stack is searched from its stack pointer at the switch.
        let rsp_now = RunAddr(registers.rsp);
        let mut stacks = vec![rsp_now];
        let mut seen: BTreeMap<RunAddr, RunAddr> = BTreeMap::new();
        while let Some(rsp) = stacks.pop() {
            // An unmapped stack, such as one that is about to be replaced, has no handlers.
            let Some(stack) = holding(rsp) else { continue };
            let start = rsp.next_multiple_of(8).min(stack.end);
            let end = seen.insert(stack.start, start).unwrap_or(stack.end).min(stack.end);
            if start >= end {
                seen.insert(stack.start, end);
                continue;
            }
            // The part after `end` was searched before; a frame may extend into it.
            let length = (stack.end - start).min(left).min(end - start + FRAME as u64);
            left -= length;
            let mut bytes = vec![0; length as usize];
            if self.read(start, &mut bytes).is_err() {
                continue;
            }
            let words = bytes.as_chunks::<8>().0;
            let word = |index: usize| words.get(index).map(|word| u64::from_le_bytes(*word));
            let address_at = |index: usize| word(index).map(RunAddr);
            if rsp == rsp_now
                && let Some(rip) = address_at(IN_RESTORER / 8)
                    .filter(|_| self.is_returning(RunAddr(registers.rip)))
            {
                all.push(HandlerReturn { rip, place: start + IN_RESTORER as u64, restorer: None });
                stacks.extend(address_at((IN_RESTORER - RSP_BEFORE) / 8));
            }
            for index in 0..words.len().min((end - start) as usize / 8) {
                let Some(address) = address_at(index) else { break };
                let Some(rip) = address_at(index + RIP / 8).filter(|_| is_code(address)) else {
                    continue;
                };
                let segments = word(index + (RIP + SEGMENTS_BEHIND) / 8).unwrap_or_default();
                let flags = word(index + 1).unwrap_or_default();
                if segments as u16 as u64 != CS || flags > UC_FLAGS {
                    continue;
                }
                let is_full = known.len() >= MOST_RESTORERS;
                let returns = match known.get(&address) {
                    Some(returns) => *returns,
                    None if is_full => true,
                    None => {
                        let is = self.restorers.contains(&address) || self.is_restorer(address);
                        known.insert(address, is);
                        is
                    }
                };
                if returns {
                    let place = start + (index * 8 + RIP) as u64;
                    all.push(HandlerReturn { rip, place, restorer: Some(address) });
                    let before = address_at(index + (RIP - RSP_BEFORE) / 8).unwrap_or_default();
                    // If the interrupted stack pointer is on this stack, the search covers it.
                    if !(start..stack.end).contains(&before) {
                        stacks.push(before);
                    }
                }
            }
        }
        Ok(all)
    }

    fn is_restorer(&self, address: RunAddr) -> bool {
        self.return_at(address).is_some()
    }

    /// Number of bytes before the system call, if a restorer is at the address.
    fn return_at(&self, address: RunAddr) -> Option<u64> {
        let mut code = [0; RETURN_BYTES];
        // The code may end at the end of a page.
        let length = (1..=RETURN_BYTES)
            .rev()
            .find(|length| self.read(address, &mut code[..*length]).is_ok())?;
        let begins = |way: &&&[u8]| {
            let rest = code[..length].strip_prefix(**way);
            rest.is_some_and(|rest| rest.starts_with(&SYSCALL))
        };
        RETURN.iter().find(begins).map(|way| way.len() as u64)
    }

    /// Whether a thread is within a restorer, before its system call.
    fn is_returning(&self, rip: RunAddr) -> bool {
        let mut ways = RETURN.iter().map(|way| way.len() as u64);
        self.is_restorer(rip)
            || ways.any(|before| self.return_at(rip.wrapping_sub(before)) == Some(before))
    }
}
