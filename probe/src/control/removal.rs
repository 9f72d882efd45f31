//! Unmaps the memory of tags from a process whose jumps are removed, if that is safe.
//!
//! A thread in a stub runs until it has left the stub. The memory stays as long as a thread may
//! return to it, for example from a signal handler that has interrupted a stub.

use std::ops::Range;
use std::time::Duration;

use nix::sys::wait::WaitPidFlag;
use nix::unistd::Pid;

use super::{Ending, TagError, Tagged};
use crate::address::RunAddr;
use crate::ptrace::{Mapping, PtraceError, Status, Stopped, detach, mappings, wait};

/// Maximum number of checks of a child, and the pause before each check. All checks together take a
/// tenth of a second.
const LOOKS: usize = 1000;
const PAUSE: Duration = Duration::from_micros(100);

/// Memory of tags that remains in a process.
#[derive(Debug)]
pub enum RemainingMemory {
    /// No memory remains.
    Nothing,
    /// A thread may still return to the memory; the next controller can remove it.
    InUse,
    /// The process must not unmap the memory: its seccomp filters were installed after the tags.
    Forbidden(PtraceError),
}

impl RemainingMemory {
    /// Whether no memory remains.
    pub fn is_nothing(&self) -> bool {
        matches!(self, RemainingMemory::Nothing)
    }
}

impl std::fmt::Display for RemainingMemory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            RemainingMemory::Nothing => f.write_str("no memory of the tags is left"),
            RemainingMemory::InUse => f.write_str(
                "the tags' memory stays until the next attach or detach: a thread may still return to it",
            ),
            RemainingMemory::Forbidden(error) => write!(f, "the tags' memory stays: {error}"),
        }
    }
}

/// Unmaps memory of tags from a process whose threads are all stopped. Returns the memory that
/// remains.
///
/// `areas`: memory of stubs. `shared`: memory that `gs` of threads may point to.
pub(super) fn unmap(
    process: &mut Stopped<'_>,
    areas: &[Range<RunAddr>],
    shared: &[Range<RunAddr>],
) -> Result<RemainingMemory, TagError> {
    if !process.can_call() || !is_free_of(process, areas)? {
        return Ok(RemainingMemory::InUse);
    }
    let threads: Vec<Pid> = process.threads.keys().copied().collect();
    for thread in threads {
        let registers = process.registers(thread)?;
        if shared.iter().any(|memory| memory.contains(&RunAddr(registers.gs_base))) {
            process.set_registers(thread, libc::user_regs_struct { gs_base: 0, ..registers })?;
        }
    }
    // The shared memory, which records the areas, is unmapped last. If the controller is killed
    // before, the next controller finds the areas.
    for area in areas.iter().chain(shared) {
        let call = (libc::SYS_munmap, "unmap the tags' memory");
        match process.call(call, [area.start.0, area.end - area.start, 0, 0, 0, 0]) {
            Err(error @ PtraceError::Forbidden { .. }) => {
                return Ok(RemainingMemory::Forbidden(error));
            }
            unmapped => drop(unmapped?),
        }
    }
    let overlaps = |range: &Range<RunAddr>, other: &Mapping| {
        range.start < other.end && other.start < range.end
    };
    let left = mappings(process.pid)?;
    let is_left = |area: &Range<RunAddr>| left.iter().any(|mapping| overlaps(area, mapping));
    Ok(if areas.iter().chain(shared).any(is_left) {
        RemainingMemory::InUse
    } else {
        RemainingMemory::Nothing
    })
}

/// Resumes the stopped threads of a process until they have left the areas. Returns whether no
/// thread will return to the areas.
pub(super) fn is_free_of(
    process: &mut Stopped<'_>,
    areas: &[Range<RunAddr>],
) -> Result<bool, TagError> {
    let inside = |address: RunAddr| areas.iter().any(|area| area.contains(&address));
    if !process.run_until_outside(inside)? {
        return Ok(false);
    }
    let mapped = mappings(process.pid)?;
    for thread in process.threads.keys() {
        let interrupted = match process.handler_returns(*thread, &mapped) {
            // The addresses that handlers return to are unknown.
            Err(PtraceError::TooMuchMemory { .. }) => return Ok(false),
            interrupted => interrupted?,
        };
        if interrupted.iter().any(|handler_return| inside(handler_return.rip)) {
            return Ok(false);
        }
    }
    Ok(true)
}

impl Tagged {
    /// Removes all tags from a process after an error, as far as possible, and ends the log.
    pub fn give_up(mut self) {
        // The caller reports the first error; later errors follow from it.
        let is_stopped = self.process.stop_others().is_ok();
        let _ = self.finish(Ending::Detached);
        if is_stopped {
            drop(self.restore());
        } else {
            // The tags stay, and run without a controller.
            self.process.release();
        }
    }

    /// Detaches from children that began before their creation was handled.
    pub(super) fn detach_children(&mut self) {
        for child in std::mem::take(&mut self.process.forked) {
            // The child stops as soon as it begins, or it has ended. Its stop or end may already
            // have been reported.
            let is_stopped = |status| !matches!(status, Ok(Status::StillAlive));
            let flags = WaitPidFlag::__WALL | WaitPidFlag::WNOHANG;
            for _ in 0..LOOKS {
                if is_stopped(wait(Some(child.pid), flags)) {
                    break;
                }
                std::thread::sleep(PAUSE);
            }
            if !child.shares_memory {
                let _ = self.untag_child(child.pid);
            }
            let _ = detach(child.pid, None);
        }
    }
}
