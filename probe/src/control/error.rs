//! Defines the errors of tagging a process.

use std::io;
use std::path::PathBuf;

use nix::unistd::Pid;

use super::perf_map::PerfMapError;
use super::refused::RefusalReason;
use crate::address::RunAddr;
use crate::elf::ElfError;
use crate::ptrace::seccomp::Forbidden;
use crate::ptrace::{MappedError, PtraceError};
use crate::stubs::StubError;
use crate::stubs::layout::PAGE_BYTES;

/// Reason why a process cannot be tagged.
#[derive(Debug, thiserror::Error)]
pub enum TagError {
    /// The process cannot be traced.
    #[error(transparent)]
    Ptrace(#[from] PtraceError),
    /// The program of the process cannot be read.
    #[error(transparent)]
    Program(#[from] ElfError),
    /// A file that the process has mapped cannot be opened.
    #[error(transparent)]
    Mapped(#[from] MappedError),
    /// The file for the output of the tags cannot be written.
    #[error("cannot write {}", .path.display())]
    Output {
        /// The file.
        path: PathBuf,
        /// The reason.
        #[source]
        source: std::io::Error,
    },
    /// The symbols of code cannot be written for perf(1).
    #[error(transparent)]
    PerfMap(#[from] PerfMapError),
    /// The program's file is not mapped in the process.
    #[error("process {pid}: {path} is not mapped in it")]
    NotLoaded {
        /// Process ID.
        pid: Pid,
        /// Path of the program.
        path: PathBuf,
    },
    /// There is no free address range close enough to the program. The second field is the size in
    /// bytes.
    #[error("process {0}: no free address range of {1} bytes close enough to its program")]
    NoFreeRange(Pid, u64),
    /// The process has `gs` in use.
    #[error("process {0}: it uses the register gs, which tags need; --sink none does not need it")]
    GsInUse(Pid),
    /// A file of the process has an instruction that sets `gs`.
    #[error(
        "process {pid}: {path} sets the register gs, which tags need, at {offset:#x} of the file; --sink none does \
         not need it, and with --force the tags are taken out when gs is found in use"
    )]
    SetsGs {
        /// Process ID.
        pid: Pid,
        /// Path of the program or of a library.
        path: PathBuf,
        /// Offset of the instruction in the file, in bytes.
        offset: u64,
    },
    /// The process has more code than can be searched for instructions that set `gs`. The second
    /// field is the limit in GiB.
    #[error(
        "process {0}: it has more than {1} GiB of instructions, too much to search for code that sets the register gs; \
         --sink none does not need it, and --force does not search"
    )]
    TooMuchCode(Pid, u64),
    /// The process must not make the system calls that the tags of a log make.
    #[error("process {0}: --sink log makes system calls of its own, rt_sigprocmask and futex: {1}")]
    NoLog(Pid, Forbidden),
    /// A thread may not read the time stamp counter.
    #[error(
        "process {pid}: its thread {thread} may not read the time stamp counter (PR_SET_TSC), which tags do that write \
         times; --no-time does not need it"
    )]
    NoTime {
        /// Process ID.
        pid: Pid,
        /// The thread.
        thread: Pid,
    },
    /// A breakpoint cannot be set in a function.
    #[error("cannot stop at {name}: {reason}")]
    NoBreakpoint {
        /// Name of the function.
        name: String,
        /// The reason.
        reason: RefusalReason,
    },
    /// A thread is at an instruction that is to be overwritten and has no single counterpart in the
    /// stub. The second field is the address.
    #[error("thread {0} is at {1:x}, which a jump must overwrite; try again")]
    InTheWay(Pid, RunAddr),
    /// Tags that an earlier controller left are still in use.
    #[error(
        "process {0}: a thread is in tags or translated code of an earlier hmtt, or a signal handler will return there; try again"
    )]
    StillInUse(Pid),
    /// The code that tags share cannot be generated.
    #[error(transparent)]
    Stub(#[from] StubError),
    /// Memory cannot be shared with the process.
    #[error("process {pid}: cannot {operation}")]
    Shared {
        /// Process ID.
        pid: Pid,
        /// The operation that failed.
        operation: &'static str,
        /// The reason.
        #[source]
        source: std::io::Error,
    },
    /// The result that the process reports for a system call is false.
    #[error("process {pid}: asked to {operation}, it reported {found}; nothing was written to it")]
    Answer {
        /// Process ID.
        pid: Pid,
        /// The operation that the process was asked to do.
        operation: &'static str,
        /// Description of the actual result.
        found: String,
    },
    /// The log, or its marks on the memory bus, cannot be written.
    #[error("cannot {operation} {}", .path.display())]
    Log {
        /// The operation that failed.
        operation: &'static str,
        /// The file of the log, or the window of the marks.
        path: PathBuf,
        /// The reason.
        #[source]
        source: std::io::Error,
    },
    /// The output does not count how often each function is called.
    #[error("a budget needs counts or a log")]
    NoBudget,
    /// The card's window cannot be used.
    #[error(transparent)]
    Window(#[from] WindowError),
}

/// Reason why a window cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum WindowError {
    /// The file cannot be opened.
    #[error("cannot open {}", .0.display())]
    Open(PathBuf, #[source] io::Error),
    /// The file cannot be mapped.
    #[error("cannot map {}", .0.display())]
    Map(PathBuf, #[source] io::Error),
    /// The window does not begin at a page.
    #[error("{}: a window begins at a multiple of {PAGE_BYTES}, not at {offset}", .path.display())]
    Offset {
        /// Path of the file.
        path: PathBuf,
        /// Offset in bytes.
        offset: u64,
    },
    /// The window is too small.
    #[error("{}: {needed} bytes are needed, {found} are there", .path.display())]
    TooSmall {
        /// Path of the file.
        path: PathBuf,
        /// Bytes that the events or registers need.
        needed: u64,
        /// Bytes of the window.
        found: u64,
    },
}
