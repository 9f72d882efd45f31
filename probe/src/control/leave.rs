//! A process whose tags are out to one that has nothing of ours, if that is safe.
//!
//! What we added to its memory stays while anything may still lead there: a thread that stands in a stub is
//! let run until it has left it; one whose signal handler has interrupted a stub will return to it.

use std::ops::Range;
use std::time::Duration;

use nix::sys::wait::WaitPidFlag;
use nix::unistd::Pid;

use super::{Ending, TagError, Tagged};
use crate::ptrace::{Process, Status, detach, mappings, wait};

/// How often a child is looked at, and how long it is left before each look: a tenth of a second in all.
const LOOKS: usize = 1000;
const PAUSE: Duration = Duration::from_micros(100);

/// Takes memory that we added out of a process whose threads all stand still. Whether it is out.
///
/// `areas`: the memory; `shared`: where `gs` of threads may point.
pub(super) fn leave(
    process: &mut Process,
    areas: &[Range<u64>],
    shared: &[Range<u64>],
) -> Result<bool, TagError> {
    if !process.can_call() || !is_free_of(process, areas)? {
        return Ok(false);
    }
    let threads: Vec<Pid> = process.threads.keys().copied().collect();
    for thread in threads {
        let registers = process.registers(thread)?;
        if shared.iter().any(|memory| memory.contains(&registers.gs_base)) {
            process.set_registers(thread, libc::user_regs_struct { gs_base: 0, ..registers })?;
        }
    }
    // What says what the rest is goes first: nobody takes memory for ours that is another's by then.
    for area in shared.iter().chain(areas) {
        let call = (libc::SYS_munmap, "unmap what tags needed");
        process.call(call, [area.start, area.end - area.start, 0, 0, 0, 0])?;
    }
    Ok(true)
}

/// Lets threads of a process, which all stand still, leave some memory. Whether nothing leads there any more.
pub(super) fn is_free_of(process: &mut Process, areas: &[Range<u64>]) -> Result<bool, TagError> {
    let inside = |address: u64| areas.iter().any(|area| area.contains(&address));
    if !process.run_out(inside)? {
        return Ok(false);
    }
    let mapped = mappings(process.pid)?;
    for thread in process.threads.keys() {
        let interrupted = process.interrupted(*thread, &mapped)?;
        if interrupted.iter().any(|one| inside(one.rip)) {
            return Ok(false);
        }
    }
    Ok(true)
}

impl Tagged {
    /// Takes all tags out of a process with which something has gone wrong, as far as that can be done, and
    /// ends the log.
    pub fn give_up(mut self) {
        // What failed first is what matters.
        let stands = self.process.stop_others().is_ok();
        let _ = self.finish(Ending::Detached);
        if stands {
            let _ = self.restore();
        }
    }

    /// Lets children go that have begun since nobody looks after them.
    pub(super) fn let_children_go(&mut self) {
        for child in std::mem::take(&mut self.process.forked) {
            // It stands still as soon as it begins, or has ended; that may have been heard already.
            let stands = |status| !matches!(status, Ok(Status::StillAlive));
            let flags = WaitPidFlag::__WALL | WaitPidFlag::WNOHANG;
            for _ in 0..LOOKS {
                if stands(wait(Some(child.pid), flags)) {
                    break;
                }
                std::thread::sleep(PAUSE);
            }
            if !child.shares_memory {
                let _ = self.disown(child.pid);
            }
            let _ = detach(child.pid, None);
        }
    }
}
