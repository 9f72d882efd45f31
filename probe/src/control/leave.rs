//! A process whose tags are out to one that has nothing of ours, if that is safe.
//!
//! What we added to its memory stays while anything may still lead there: a thread that stands in a stub is
//! let run until it has left it; one whose signal handler has interrupted a stub will return to it.

use std::ops::Range;
use std::time::Duration;

use nix::sys::wait::WaitPidFlag;
use nix::unistd::Pid;

use super::{Ending, TagError, Tagged};
use crate::ptrace::{Mapping, Process, PtraceError, Status, detach, mappings, wait};

/// How often a child is looked at, and how long it is left before each look: a tenth of a second in all.
const LOOKS: usize = 1000;
const PAUSE: Duration = Duration::from_micros(100);

/// What is left of our memory in a process.
#[derive(Debug)]
pub enum Left {
    /// Nothing.
    Nothing,
    /// Something may still lead there; the next controller can take it out.
    InUse,
    /// The process may not give it back: its seccomp filters came after the tags.
    Forbidden(PtraceError),
}

impl Left {
    /// Whether nothing is left.
    pub fn is_nothing(&self) -> bool {
        matches!(self, Left::Nothing)
    }
}

impl std::fmt::Display for Left {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Left::Nothing => f.write_str("nothing of the tags' memory is left"),
            Left::InUse => f.write_str(
                "the tags' memory stays until the next attach or detach: it may still be returned to",
            ),
            Left::Forbidden(error) => write!(f, "the tags' memory stays: {error}"),
        }
    }
}

/// Takes memory that we added out of a process whose threads all stand still. What is left comes back.
///
/// `areas`: the memory; `shared`: where `gs` of threads may point.
pub(super) fn leave(
    process: &mut Process,
    areas: &[Range<u64>],
    shared: &[Range<u64>],
) -> Result<Left, TagError> {
    if !process.can_call() || !is_free_of(process, areas)? {
        return Ok(Left::InUse);
    }
    let threads: Vec<Pid> = process.threads.keys().copied().collect();
    for thread in threads {
        let registers = process.registers(thread)?;
        if shared.iter().any(|memory| memory.contains(&registers.gs_base)) {
            process.set_registers(thread, libc::user_regs_struct { gs_base: 0, ..registers })?;
        }
    }
    // What says what the rest is goes last: if we die before, it is found.
    for area in areas.iter().chain(shared) {
        let call = (libc::SYS_munmap, "unmap what tags needed");
        match process.call(call, [area.start, area.end - area.start, 0, 0, 0, 0]) {
            Err(error @ PtraceError::Forbidden { .. }) => return Ok(Left::Forbidden(error)),
            unmapped => drop(unmapped?),
        }
    }
    let overlaps =
        |one: &Range<u64>, other: &Mapping| one.start < other.end && other.start < one.end;
    let left = mappings(process.pid)?;
    let is_left = |area: &Range<u64>| left.iter().any(|mapping| overlaps(area, mapping));
    Ok(if areas.iter().chain(shared).any(is_left) { Left::InUse } else { Left::Nothing })
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
