//! A process whose tags are out to one that has nothing of ours, if that is safe.
//!
//! What we added to its memory stays while anything may still lead there: a thread that stands in a stub is
//! taken on to where it leaves it; one whose signal handler has interrupted a stub will return to it.

use std::ops::Range;

use nix::unistd::Pid;

use super::TagError;
use crate::ptrace::{Process, mappings};

/// Most instructions that a thread is taken on: no stub is longer.
const STEPS: usize = 1 << 10;

/// Takes memory that we added out of a process whose threads all stand still. Whether it is out.
///
/// `areas`: the memory; `site`: where system calls can be made; `shared`: where `gs` of threads may point.
pub(super) fn leave(
    process: &mut Process,
    site: u64,
    areas: &[Range<u64>],
    shared: &Range<u64>,
) -> Result<bool, TagError> {
    let threads: Vec<Pid> = process.threads.keys().copied().collect();
    if !process.can_call() {
        return Ok(false);
    }
    let inside = |address: u64| areas.iter().any(|area| area.contains(&address));
    for thread in &threads {
        if !process.step_out(*thread, STEPS, inside)? {
            return Ok(false);
        }
    }
    let mapped = mappings(process.pid)?;
    for thread in &threads {
        let interrupted = process.interrupted(*thread, &mapped)?;
        if interrupted.iter().any(|one| inside(one.rip)) {
            return Ok(false);
        }
    }
    for thread in threads {
        let registers = process.registers(thread)?;
        if shared.contains(&registers.gs_base) {
            process.set_registers(thread, libc::user_regs_struct { gs_base: 0, ..registers })?;
        }
    }
    for area in areas.iter().chain([shared]) {
        let call = (libc::SYS_munmap, "unmap what tags needed");
        process.call(site, call, [area.start, area.end - area.start, 0, 0, 0, 0])?;
    }
    Ok(true)
}
