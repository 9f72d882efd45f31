//! Defines messages for the user about a process that is tagged while it runs.

use std::path::PathBuf;

use nix::unistd::Pid;

use super::RefusalReason;
use crate::ptrace::PtraceError;
use crate::ptrace::seccomp::Forbidden;

/// Something that could not be done while a process ran, with the reason.
#[derive(Debug, thiserror::Error)]
pub enum Notice {
    /// A thread has continued before the libraries that it has loaded were tagged.
    #[error(
        "process {0}: a thread has stopped waiting for its libraries to be tagged: functions that it called since then \
         have no tags"
    )]
    WaitGivenUp(Pid),
    /// Seccomp filters that were installed after the tags forbid the system calls of a log.
    #[error(
        "process {0}: its tags make no more system calls, and drop records that do not fit into buffers: {1}"
    )]
    CallsForbidden(Pid, Forbidden),
    /// The process has set `gs`, and the tags were removed.
    #[error(
        "process {0} has taken the register gs for itself: its tags were removed; before that they may have written \
         to memory of the program"
    )]
    GsTaken(Pid),
    /// The process has set `gs`. The controller noticed this only when it stopped following the
    /// process.
    #[error(
        "process {0} has taken the register gs for itself: since then its tags have written to memory of the program"
    )]
    GsTakenAtEnd(Pid),
    /// The process has forbidden itself to read the time stamp counter, and the tags were removed.
    #[error(
        "process {0} may no longer read the time stamp counter (PR_SET_TSC, or seccomp in strict mode), which its tags \
         did for the times of the log: its tags were removed; --no-time does not need it"
    )]
    TimeForbidden(Pid),
    /// Nothing can be changed at `main`, so the tags are inserted before `main`.
    #[error(
        "process {pid}: {name} is not tagged, and the program is not stopped there to be tagged: {reason}; it is tagged \
         earlier, and calls before {name} are counted too"
    )]
    NoMain {
        /// Process ID.
        pid: Pid,
        /// Name of the function.
        name: String,
        /// Why it cannot be changed.
        reason: RefusalReason,
    },
    /// Nothing can be changed where the dynamic linker reports that it has loaded a library.
    #[error(
        "process {pid}: libraries that are loaded later are not tagged: the program cannot be stopped at {name}: {reason}"
    )]
    NoLaterLibraries {
        /// Process ID.
        pid: Pid,
        /// Name of the function.
        name: String,
        /// Why it cannot be changed.
        reason: RefusalReason,
    },
    /// A library has more functions than fit into the shared memory.
    #[error("{} is not tagged: too many functions", .0.display())]
    TooManyFunctions(PathBuf),
    /// The process must not map memory for the stubs of a library.
    #[error("{} is not tagged: {error}", .path.display())]
    LibraryForbidden {
        /// Path of the library.
        path: PathBuf,
        /// Why the memory is not mapped.
        error: PtraceError,
    },
}
