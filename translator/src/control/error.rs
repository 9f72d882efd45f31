//! Defines the reasons why a process cannot be run from a code cache.

use std::io;

use hmtt_probe::control::TagError;
use hmtt_probe::ptrace::PtraceError;
use nix::unistd::Pid;
use thiserror::Error;

use crate::cache::CacheError;

/// The reason why a process cannot be run from a code cache.
#[derive(Debug, Error)]
pub enum ControlError {
    /// The process cannot be traced.
    #[error(transparent)]
    Ptrace(#[from] PtraceError),
    /// Memory cannot be shared with the process.
    #[error(transparent)]
    Memory(#[from] TagError),
    /// The first instruction cannot be translated.
    #[error(transparent)]
    Cache(#[from] CacheError),
    /// There is no unused range of addresses for the memory.
    #[error("the program has no unused addresses for {0}")]
    NoGap(&'static str),
    /// The program is a 32-bit program.
    #[error("it is a 32-bit program; only 64-bit programs are translated")]
    Bits32,
    /// A thread uses something that generated code needs for itself.
    #[error("its thread {thread} {what}, which translated code cannot do")]
    Obstacle {
        /// The thread that does this.
        thread: Pid,
        /// What the thread does, as a clause with a verb.
        what: &'static str,
    },
    /// A system call of the controller failed.
    #[error("cannot {operation}")]
    System {
        /// The operation that failed, as a clause with a verb.
        operation: &'static str,
        /// The error of the system call.
        #[source]
        source: io::Error,
    },
}
