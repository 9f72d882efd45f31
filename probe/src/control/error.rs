//! What can go wrong.

use std::io;
use std::path::PathBuf;

use nix::unistd::Pid;

use crate::elf::ElfError;
use crate::ptrace::seccomp::Forbidden;
use crate::ptrace::{MappedError, PtraceError};
use crate::stubs::StubError;
use crate::stubs::layout::PAGE_BYTES;

/// Why a process cannot be tagged.
#[derive(Debug, thiserror::Error)]
pub enum TagError {
    /// It cannot be traced.
    #[error(transparent)]
    Ptrace(#[from] PtraceError),
    /// Its program cannot be read.
    #[error(transparent)]
    Program(#[from] ElfError),
    /// A file that it has mapped cannot be had.
    #[error(transparent)]
    Mapped(#[from] MappedError),
    /// What its tags leave has no place to go to.
    #[error("cannot write {}", .path.display())]
    Output {
        /// The file.
        path: PathBuf,
        /// Why not.
        #[source]
        source: std::io::Error,
    },
    /// Its program is not where it should be in its memory.
    #[error("process {pid}: {path} is not in its memory")]
    NotLoaded {
        /// Which.
        pid: Pid,
        /// The program.
        path: PathBuf,
    },
    /// There is no room near the program.
    #[error("process {0}: no room for {1} bytes within reach of its program")]
    NoRoom(Pid, u64),
    /// `gs` is in use.
    #[error("process {0}: it uses the register gs, which tags need; those of --sink none do not")]
    GsInUse(Pid),
    /// A program that sets `gs`.
    #[error(
        "process {pid}: {path} sets the register gs, which tags need, at {offset:#x} of the file; --sink none does \
         not need it, and with --force the tags are taken out when gs is found in use"
    )]
    SetsGs {
        /// Which.
        pid: Pid,
        /// Its program, or a library.
        path: PathBuf,
        /// Where in that file.
        offset: u64,
    },
    /// There is too much to be searched.
    #[error(
        "process {0}: it has more than {1} GiB of instructions, too many to look for what sets the register gs; \
         --sink none does not need it, and --force does not look"
    )]
    TooMuchCode(Pid, u64),
    /// What a log's tags call is forbidden.
    #[error("process {0}: --sink log makes system calls of its own, rt_sigprocmask and futex: {1}")]
    NoLog(Pid, Forbidden),
    /// A function that must not be passed unnoticed cannot be tagged.
    #[error("cannot stop at {name}: {reason}")]
    NoGate {
        /// Which.
        name: String,
        /// Why not.
        reason: String,
    },
    /// A thread stands in what is to be overwritten, at an instruction that becomes several.
    #[error("thread {0} stands at {1:x}, where a jump is to be; try again")]
    InTheWay(Pid, u64),
    /// Tags of earlier are still in use.
    #[error(
        "process {0}: a signal handler has interrupted tags of earlier and has not returned; try again"
    )]
    Inside(Pid),
    /// What tags share cannot be made.
    #[error(transparent)]
    Stub(#[from] StubError),
    /// There is no memory to share.
    #[error("process {pid}: cannot share memory with it")]
    Shared {
        /// Which.
        pid: Pid,
        /// Why not.
        #[source]
        source: std::io::Error,
    },
    /// The process says something of a system call that is not so.
    #[error("process {pid}: asked to {operation}, it answered {found}; nothing was written there")]
    Answer {
        /// Which.
        pid: Pid,
        /// What it was to do.
        operation: &'static str,
        /// What it did instead.
        found: String,
    },
    /// The log cannot be written.
    #[error("cannot write the log")]
    Log {
        /// Why not.
        #[source]
        source: std::io::Error,
    },
    /// The sink does not tell how often a function is called.
    #[error("a budget needs counts, or a log")]
    NoBudget,
    /// The card's window cannot be used.
    #[error(transparent)]
    Window(#[from] WindowError),
}

/// An error with what has led to it, in one line.
pub(super) fn chain(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(error.source(), |cause| cause.source());
    causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}

/// Why a window cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum WindowError {
    /// Its file cannot be opened.
    #[error("cannot open {}", .0.display())]
    Open(PathBuf, #[source] io::Error),
    /// It does not begin with a page.
    #[error("{}: a window begins at a multiple of {PAGE_BYTES}, not at {offset}", .path.display())]
    Offset {
        /// Its file.
        path: PathBuf,
        /// Where it is to begin.
        offset: u64,
    },
    /// It is too small.
    #[error("{}: {needed} bytes are needed for so many functions, {found} are there", .path.display())]
    TooSmall {
        /// Its file.
        path: PathBuf,
        /// Bytes that all events need.
        needed: u64,
        /// Bytes it has.
        found: u64,
    },
}
