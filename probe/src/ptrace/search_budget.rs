//! Limits how much of a process's memory is searched.

use nix::unistd::Pid;

use super::PtraceError;
use crate::stubs::layout::PAGE_BYTES;

/// The work that a search may still do, in bytes that are read.
#[derive(Debug)]
pub(crate) struct SearchBudget {
    pid: Pid,
    /// What is searched, as errors call it.
    subject: &'static str,
    limit: u64,
    left: u64,
}

impl SearchBudget {
    /// A budget of `limit` bytes for one process.
    pub fn new(pid: Pid, subject: &'static str, limit: u64) -> Self {
        SearchBudget { pid, subject, limit, left: limit }
    }

    /// Spends bytes. A step costs at least a page, so that their number is limited too.
    ///
    /// # Errors
    /// [`PtraceError::TooMuchMemory`] if so many are not left, now and for all later steps.
    pub fn take(&mut self, bytes: u64) -> Result<(), PtraceError> {
        let left = self.left.checked_sub(bytes.max(PAGE_BYTES));
        self.left = left.unwrap_or(0);
        let SearchBudget { pid, subject, limit, .. } = *self;
        left.map(drop).ok_or(PtraceError::TooMuchMemory { pid, subject, limit })
    }

    /// Bytes that were spent.
    pub fn spent(&self) -> u64 {
        self.limit - self.left
    }
}
