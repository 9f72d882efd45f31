//! Moves threads from stubs to the original instructions after the jumps were removed.
//!
//! Otherwise a loop whose body was moved would keep its threads in the stub, and run its tags, for
//! as long as the loop runs.

use std::collections::HashMap;

use nix::unistd::Pid;

use super::TagError;
use super::patch::PatchedFunction;
use crate::address::RunAddr;
use crate::ptrace::{HandlerReturn, PtraceError, Stopped, mappings};

/// Moves the stopped threads of a process to the original instructions, as far as possible.
///
/// A thread in a system call of a tag is not moved, and a signal handler that will return into a
/// tag still returns there. In a short loop, a processor may stop a thread in the same tag each
/// time: [`PatchedCode::move_out_of_stubs`] moves such a thread.
///
/// [`PatchedCode::move_out_of_stubs`]: super::PatchedCode::move_out_of_stubs
pub(super) fn return_threads(
    process: &mut Stopped<'_>,
    patched: &[&PatchedFunction],
) -> Result<(), TagError> {
    let mut stubs: Vec<_> = patched.iter().map(|function| function.stubs.clone()).collect();
    stubs.sort_unstable_by_key(|range| range.start);
    let inside = |address: RunAddr| {
        let next = stubs.partition_point(|range| range.start <= address);
        next.checked_sub(1).is_some_and(|index| stubs[index].contains(&address))
    };
    let original_addresses: HashMap<RunAddr, RunAddr> =
        patched.iter().flat_map(|function| function.original_addresses()).collect();
    // Threads inside tags run until they reach a moved instruction.
    let away = |address: RunAddr| inside(address) && !original_addresses.contains_key(&address);
    process.run_until_outside(away)?;
    let threads: Vec<Pid> = process.threads.keys().copied().collect();
    let mapped = mappings(process.pid)?;
    for thread in threads {
        let registers = process.registers(thread)?;
        if let Some(RunAddr(rip)) = original_addresses.get(&RunAddr(registers.rip)).copied() {
            process.set_registers(thread, libc::user_regs_struct { rip, ..registers })?;
        }
        let returns = match process.handler_returns(thread, &mapped) {
            // The stubs stay as long as a handler may return to them.
            Err(PtraceError::TooMuchMemory { .. }) => Vec::new(),
            returns => returns?,
        };
        for HandlerReturn { rip, place, .. } in returns {
            if let Some(original) = original_addresses.get(&rip) {
                process.write(place, &original.0.to_le_bytes())?;
            }
        }
    }
    Ok(())
}
