//! Threads in the stubs of functions whose jumps are out to where the same instruction was before.
//!
//! A loop that was moved as a whole would keep its threads, and its tags, for as long as it runs.

use std::collections::HashMap;

use nix::unistd::Pid;

use super::TagError;
use super::patch::Patched;
use crate::ptrace::{Interrupted, Process, mappings};

/// Takes the threads of a process, which all stand still, home as far as they can be: one that is in a system
/// call for a tag cannot, nor can a handler's return that would be into a tag. In a short loop, processors stop where
/// they have waited, perhaps always in the same tag: [`Tagged::leave_stubs`] takes such a thread home.
///
/// [`Tagged::leave_stubs`]: super::Tagged::leave_stubs
pub(super) fn go_home(process: &mut Process, patched: &[&Patched]) -> Result<(), TagError> {
    let mut stubs: Vec<_> = patched.iter().map(|one| one.stubs.clone()).collect();
    stubs.sort_unstable_by_key(|range| range.start);
    let inside = |address: u64| {
        let next = stubs.partition_point(|range| range.start <= address);
        next.checked_sub(1).is_some_and(|index| stubs[index].contains(&address))
    };
    let homes: HashMap<u64, u64> = patched.iter().flat_map(|one| one.homes()).collect();
    // Out of tags, to an instruction that was moved, as far as that can be.
    let away = |address: u64| inside(address) && !homes.contains_key(&address);
    process.run_out(away)?;
    let threads: Vec<Pid> = process.threads.keys().copied().collect();
    let mapped = mappings(process.pid)?;
    for thread in threads {
        let registers = process.registers(thread)?;
        if let Some(rip) = homes.get(&registers.rip).copied() {
            process.set_registers(thread, libc::user_regs_struct { rip, ..registers })?;
        }
        for Interrupted { rip, place, .. } in process.interrupted(thread, &mapped)? {
            if let Some(home) = homes.get(&rip) {
                process.write(place, &home.to_le_bytes())?;
            }
        }
    }
    Ok(())
}
