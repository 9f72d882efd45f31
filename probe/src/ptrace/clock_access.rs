//! Finds out whether threads may read the time stamp counter (prctl(2), `PR_SET_TSC`).

use nix::unistd::Pid;

use super::{PtraceError, Stopped};
use crate::address::RunAddr;

/// Maximum number of threads that are asked; each makes a system call. A thread inherits the
/// setting from the thread that started it.
const THREADS: usize = 64;
/// `PR_GET_TSC`, and its result if reading raises SIGSEGV (Linux, `uapi/linux/prctl.h`).
const GET_TSC: u64 = 25;
const FAULTS: u32 = 2;

impl Stopped<'_> {
    /// Finds a thread that may not read the time stamp counter; `None` if all threads that were
    /// asked may read it. A thread that cannot or may not make the system call is assumed to be
    /// allowed. `answer`: address of 4 bytes in memory that is shared with the process, to which
    /// the kernel writes the answer.
    ///
    /// # Errors
    /// [`PtraceError`] if the process has ended.
    pub fn thread_without_clock(&mut self, answer: RunAddr) -> Result<Option<Pid>, PtraceError> {
        let threads: Vec<Pid> = self.threads.keys().copied().take(THREADS).collect();
        for thread in threads {
            let call = (libc::SYS_prctl, "ask whether it may read the time stamp counter");
            match self.call_of_thread(thread, call, [GET_TSC, answer.0, 0, 0, 0, 0]) {
                Ok(Some(_)) => {}
                Ok(None) | Err(PtraceError::System { .. }) => continue,
                Err(error) => return Err(error),
            }
            let mut mode = [0; 4];
            self.read(answer, &mut mode)?;
            if u32::from_le_bytes(mode) == FAULTS {
                return Ok(Some(thread));
            }
        }
        Ok(None)
    }
}
