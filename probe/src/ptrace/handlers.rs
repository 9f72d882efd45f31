//! A thread's stack to where it goes on when its signal handlers return.
//!
//! The kernel keeps what a handler interrupted on the stack: a return address to code that calls
//! `rt_sigreturn`, then a `ucontext` with the registers (Linux, `arch/x86/include/uapi/asm/sigcontext.h`).

use std::collections::HashMap;

use nix::unistd::Pid;

use super::{Mapping, Process, PtraceError};

/// `mov rax, 15; syscall`: what handlers return to.
const RETURN: [u8; 9] = [0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05];
/// From the return address to the interrupted `rip`: flags, link and stack of the `ucontext`, and 16
/// registers come between.
const RIP: usize = 8 + 8 + 8 + 24 + 16 * 8;
/// Most of a stack that is looked at, in bytes.
const LONGEST: u64 = 64 << 20;

/// Somewhere a thread goes on when a handler returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interrupted {
    /// The address that is kept.
    pub rip: u64,
    /// Where it is kept.
    pub place: u64,
}

impl Process {
    /// What the handlers that a thread is in have interrupted; it stands still.
    pub fn interrupted(
        &self,
        thread: Pid,
        mappings: &[Mapping],
    ) -> Result<Vec<Interrupted>, PtraceError> {
        let rsp = self.registers(thread)?.rsp;
        let stack = mappings.iter().find(|one| (one.start..one.end).contains(&rsp));
        // A stack that is none, such as one that is about to be replaced, has no handlers.
        let Some(stack) = stack else { return Ok(Vec::new()) };
        let start = rsp.next_multiple_of(8).min(stack.end);
        let mut bytes = vec![0; (stack.end - start).min(LONGEST) as usize];
        if self.read(start, &mut bytes).is_err() {
            return Ok(Vec::new());
        }
        let words = bytes.as_chunks::<8>().0;
        let word = |index: usize| words.get(index).map(|word| u64::from_le_bytes(*word));
        let mut known = HashMap::new();
        let mut all = Vec::new();
        for index in 0..words.len() {
            let Some(address) = word(index) else { break };
            let code = mappings.iter().filter(|one| one.executable);
            if !code.into_iter().any(|one| (one.start..one.end).contains(&address)) {
                continue;
            }
            let returns = *known.entry(address).or_insert_with(|| {
                let mut code = [0; RETURN.len()];
                self.read(address, &mut code).is_ok() && code == RETURN
            });
            if let Some(rip) = word(index + RIP / 8).filter(|_| returns) {
                all.push(Interrupted { rip, place: start + (index * 8 + RIP) as u64 });
            }
        }
        Ok(all)
    }
}
