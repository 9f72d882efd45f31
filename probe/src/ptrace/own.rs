//! Keeps other processes from tracing this one.
//!
//! A traced program has the rights of the user who traces it. Without this it could stop its own
//! controller, or read and change its memory. Invariant: no instruction of a program is executed
//! while its controller lets itself be traced.

use nix::errno::Errno;
use nix::sys::prctl;

/// Refuses tracers from here on: only processes with `CAP_SYS_PTRACE` can trace this one, read its
/// memory or open its descriptors in `/proc`. Programs that it executes are not concerned.
///
/// # Errors
/// The system's error.
pub fn refuse_tracers() -> Result<(), Errno> {
    prctl::set_dumpable(false)
}

/// While this exists, this process is open to tracers of its user: a child that is forked can be
/// seized by this process, and a stopped tracee can open descriptors of it.
pub(crate) struct Traceable {
    /// Whether it was so before.
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
