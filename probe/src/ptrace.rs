//! A live process to threads that stand still, whose registers and memory can be read and written.
//!
//! All of it is from one thread of ours: the kernel knows a tracer by its thread.

mod handlers;
mod inject;
mod launch;
mod maps;
mod site;
mod stop;
mod wait;

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use nix::errno::Errno;
use nix::sys::ptrace;
use nix::unistd::Pid;

pub use handlers::Interrupted;
pub use launch::launch;
pub use maps::{Mapping, mappings};
pub(crate) use stop::go_on;
pub use wait::{SignalNumber, wait_for_end};
pub(crate) use wait::{Status, wait};

/// Why a process cannot be traced.
#[derive(Debug, thiserror::Error)]
pub enum PtraceError {
    /// A step failed.
    #[error("process {pid}: cannot {operation}")]
    System {
        /// Which.
        pid: Pid,
        /// What was tried.
        operation: &'static str,
        /// Why not.
        #[source]
        source: io::Error,
    },
    /// The program cannot be started.
    #[error("cannot run {program}")]
    Launch {
        /// Which.
        program: String,
        /// Why not.
        #[source]
        source: io::Error,
    },
    /// It ended meanwhile.
    #[error("process {0} has ended")]
    Ended(Pid),
}

impl PtraceError {
    pub(crate) fn new(pid: Pid, operation: &'static str) -> impl Fn(Errno) -> PtraceError {
        move |error| match error {
            Errno::ESRCH => PtraceError::Ended(pid),
            _ => PtraceError::System { pid, operation, source: error.into() },
        }
    }
}

/// A child that begins, and waits for us.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Child {
    /// Its number.
    pub pid: Pid,
    /// Its memory is its parent's, which waits until it has memory of its own.
    pub shares_memory: bool,
}

impl Child {
    /// The child that a thread that stands at this event has started; `None` at other events.
    pub(crate) fn of(thread: Pid, event: i32) -> Result<Option<Child>, PtraceError> {
        let shares_memory = event == libc::PTRACE_EVENT_VFORK;
        if !shares_memory && event != libc::PTRACE_EVENT_FORK {
            return Ok(None);
        }
        let pid = ptrace::getevent(thread).map_err(PtraceError::new(thread, "find its child"))?;
        Ok(Some(Child { pid: Pid::from_raw(pid as i32), shares_memory }))
    }
}

/// How a thread stands still.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// Between two instructions.
    Free,
    /// So, and it gets this signal when it goes on.
    Signal(SignalNumber),
    /// Within a system call, whose result is still to come.
    InCall,
}

impl Standing {
    /// What it gets when it goes on.
    pub fn signal(self) -> Option<SignalNumber> {
        match self {
            Standing::Signal(signal) => Some(signal),
            _ => None,
        }
    }
}

/// A process that is traced; its threads stand still or are waited for by whoever follows it.
#[derive(Debug)]
pub struct Process {
    /// Its number.
    pub pid: Pid,
    /// Its threads that stand still.
    pub threads: BTreeMap<Pid, Standing>,
    /// Children that began while it was being stopped, and wait for us.
    pub forked: Vec<Child>,
    /// What has happened to threads while all were being stopped, for whoever follows the process: each
    /// event once, before those that are still to be waited for.
    pub(crate) heard: Vec<Status>,
    /// Where it makes system calls for us, once that is known.
    site: Option<site::Site>,
    memory: File,
}

impl Process {
    /// A process that is traced already, of one thread that stands still.
    pub(crate) fn of(pid: Pid) -> Result<Self, PtraceError> {
        let path = format!("/proc/{pid}/mem");
        let memory = File::options().read(true).write(true).open(path);
        let memory = memory.map_err(|source| PtraceError::System {
            pid,
            operation: "open its memory",
            source,
        })?;
        Ok(Process {
            pid,
            threads: BTreeMap::from([(pid, Standing::Free)]),
            forked: Vec::new(),
            heard: Vec::new(),
            site: None,
            memory,
        })
    }

    /// Reads memory.
    pub fn read(&self, address: u64, bytes: &mut [u8]) -> Result<(), PtraceError> {
        let read = self.memory.read_exact_at(bytes, address);
        read.map_err(|source| self.failed("read its memory", source))
    }

    /// Writes memory, whatever its protection.
    pub fn write(&self, address: u64, bytes: &[u8]) -> Result<(), PtraceError> {
        let written = self.memory.write_all_at(bytes, address);
        written.map_err(|source| self.failed("write its memory", source))
    }

    fn failed(&self, operation: &'static str, source: io::Error) -> PtraceError {
        match source.kind() {
            // Memory of a process that is no more has no bytes.
            io::ErrorKind::UnexpectedEof | io::ErrorKind::WriteZero => PtraceError::Ended(self.pid),
            _ => PtraceError::System { pid: self.pid, operation, source },
        }
    }

    /// Registers of a thread that stands still.
    pub fn registers(&self, thread: Pid) -> Result<libc::user_regs_struct, PtraceError> {
        ptrace::getregs(thread).map_err(PtraceError::new(thread, "read its registers"))
    }

    /// Sets them.
    pub fn set_registers(
        &self,
        thread: Pid,
        registers: libc::user_regs_struct,
    ) -> Result<(), PtraceError> {
        ptrace::setregs(thread, registers).map_err(PtraceError::new(thread, "set its registers"))
    }
}
