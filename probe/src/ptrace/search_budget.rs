//! Limits how much of a process's memory is searched.

use nix::unistd::Pid;

use super::PtraceError;
use crate::stubs::layout::PAGE_BYTES;

/// Number of bytes that a search may still read.
#[derive(Debug)]
pub(crate) struct SearchBudget {
    pid: Pid,
    /// Name of the searched memory in error messages.
    subject: &'static str,
    limit: u64,
    left: u64,
}

impl SearchBudget {
    /// A budget of `limit` bytes for one process.
    pub fn new(pid: Pid, subject: &'static str, limit: u64) -> Self {
        SearchBudget { pid, subject, limit, left: limit }
    }

    /// Subtracts bytes. Each call subtracts at least a page, so the number of calls is limited too.
    ///
    /// # Errors
    /// [`PtraceError::TooMuchMemory`] if fewer bytes are left. All later calls fail too.
    pub fn take(&mut self, bytes: u64) -> Result<(), PtraceError> {
        let left = self.left.checked_sub(bytes.max(PAGE_BYTES));
        self.left = left.unwrap_or(0);
        let SearchBudget { pid, subject, limit, .. } = *self;
        left.map(drop).ok_or(PtraceError::TooMuchMemory { pid, subject, limit })
    }

    /// Number of bytes that were subtracted so far.
    pub fn spent(&self) -> u64 {
        self.limit - self.left
    }
}
