//! Reasons why a process cannot be run from a code cache.

use std::io;

use hmtt_probe::control::TagError;
use hmtt_probe::ptrace::PtraceError;
use nix::unistd::Pid;
use thiserror::Error;

use crate::cache::CacheError;

/// Why a process cannot be run from a code cache.
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
    /// A thread uses what generated code needs for itself.
    #[error("its thread {thread} {what}, which translated code cannot do")]
    Obstacle {
        /// The thread.
        thread: Pid,
        /// What it does.
        what: &'static str,
    },
    /// A system call of the controller failed.
    #[error("cannot {operation}")]
    System {
        /// What was tried.
        operation: &'static str,
        /// Why it failed.
        #[source]
        source: io::Error,
    },
}
