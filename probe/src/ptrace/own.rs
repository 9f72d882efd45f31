//! Keeps other processes from tracing this program.
//!
//! A traced program has the rights of the user who traces it. Without this protection it could stop
//! its own controller, or read and change the controller's memory. Invariant: no instruction of a
//! program is executed while its controller can be traced by others.

use nix::errno::Errno;
use nix::sys::prctl;

/// Refuses tracers from now on: only processes with `CAP_SYS_PTRACE` can trace this program, read
/// its memory or open its descriptors in `/proc`. Programs that it executes are not affected.
///
/// # Errors
/// The system's error.
pub fn refuse_tracers() -> Result<(), Errno> {
    prctl::set_dumpable(false)
}

/// A guard. While it exists, processes of the same user can trace this program. So this program can
/// seize a child that it has forked, and a stopped tracee can open descriptors of this program.
pub(crate) struct Traceable {
    /// Whether this program could be traced before.
    before: bool,
}

impl Traceable {
    pub(crate) fn new() -> Self {
        // If the state cannot be read, tracers are refused afterwards.
        let before = prctl::get_dumpable().unwrap_or(false);
        let _ = prctl::set_dumpable(true);
        Traceable { before }
    }
}

impl Drop for Traceable {
    fn drop(&mut self) {
        let _ = prctl::set_dumpable(self.before);
    }
}
