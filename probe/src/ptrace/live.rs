//! Finds a thread whose files in `/proc` describe its process.
//!
//! A process continues when its first thread ends before other threads. The kernel then shows the
//! first thread as a zombie, without memory and without open files, until the process ends.

use nix::unistd::Pid;

use super::proc::threads;
use super::wait::is_dead;

/// Returns a thread of a process whose files in `/proc` describe the process's memory and open
/// files. This is the first thread, unless it has ended before others. The kernel accepts the
/// number of any thread as a name in `/proc`.
pub fn live_thread(pid: Pid) -> Pid {
    if !is_dead(pid) {
        return pid;
    }
    let others = threads(pid).unwrap_or_default();
    others.into_iter().find(|thread| !is_dead(*thread)).unwrap_or(pid)
}
