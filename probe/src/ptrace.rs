//! A live process to threads that stand still, whose registers and memory can be read and written.
//!
//! All of it is from one thread of ours: the kernel knows a tracer by its thread.

mod delivery;
mod handlers;
mod inherited;
mod inject;
mod launch;
mod mapped;
mod maps;
mod obstacle;
pub(crate) mod proc;
pub mod seccomp;
mod site;
mod stand_still;
mod stop;
mod wait;

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use nix::errno::Errno;
use nix::sys::ptrace;
use nix::unistd::Pid;

pub(crate) use delivery::{Delivery, Disposition, enter_handler, replace_fault_address};
pub use handlers::Interrupted;
pub use inherited::ignore_file_size_signal;
pub use launch::launch;
pub use mapped::{MappedError, Memory, code_files, open as open_mapped, program, program_mapping};
pub use maps::{FileId, Mapping, mappings};
pub use obstacle::{Obstacle, command, obstacle};
pub(crate) use stop::{detach, interrupt, listen};
pub use wait::{SignalNumber, wait_for_end};
pub(crate) use wait::{Status, go_on, is_ours, wait};

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
    /// It is none that we can trace.
    #[error("process {pid}: {obstacle}")]
    Refused {
        /// Which.
        pid: Pid,
        /// Why not.
        obstacle: Obstacle,
    },
    /// It ended meanwhile.
    #[error("process {0} has ended")]
    Ended(Pid),
    /// Seccomp restrains its system calls.
    #[error("process {pid}: {mode} restrains its thread {thread}: a system call made for tags might kill it{}",
        if *.mode == seccomp::Mode::Strict { "" } else { "; --force makes those that its filters allow" })]
    Restrained {
        /// Which.
        pid: Pid,
        /// The first of its threads for which that is so.
        thread: Pid,
        /// How.
        mode: seccomp::Mode,
    },
    /// A system call that is needed might harm it.
    #[error("process {pid}: cannot {operation}: system call {number} is not made: {why}")]
    Forbidden {
        /// Which.
        pid: Pid,
        /// What was to be done.
        operation: &'static str,
        /// The system call, by its number.
        number: libc::c_long,
        /// Why not.
        why: seccomp::Forbidden,
    },
}

impl PtraceError {
    pub(crate) fn new(pid: Pid, operation: &'static str) -> impl Fn(Errno) -> PtraceError {
        move |error| match error {
            Errno::ESRCH => PtraceError::Ended(pid),
            _ => PtraceError::System { pid, operation, source: error.into() },
        }
    }
}

impl PtraceError {
    /// An error of beginning to trace a process.
    pub(crate) fn refused(pid: Pid, error: Errno) -> PtraceError {
        match obstacle::refused(pid, error) {
            Some(obstacle) => PtraceError::Refused { pid, obstacle },
            None => PtraceError::new(pid, "trace it")(error),
        }
    }
}

/// A child that begins, and waits for us.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Child {
    /// Its number.
    pub pid: Pid,
    /// The thread that has started it.
    pub parent: Pid,
    /// Its memory is its parent's.
    pub shares_memory: bool,
    /// Its parent waits until it has memory of its own, or ends.
    pub is_waited_for: bool,
}

impl Child {
    /// The child that a thread that stands at this event has started; `None` at other events.
    pub(crate) fn of(thread: Pid, event: i32) -> Result<Option<Child>, PtraceError> {
        let is_waited_for = event == libc::PTRACE_EVENT_VFORK;
        let events = [libc::PTRACE_EVENT_VFORK, libc::PTRACE_EVENT_FORK, libc::PTRACE_EVENT_CLONE];
        if !events.contains(&event) {
            return Ok(None);
        }
        let failed = PtraceError::new(thread, "find its child");
        let pid = ptrace::getevent(thread).map_err(&failed)?;
        // One that was killed meanwhile stands where it ends, and the number is its status.
        if ptrace::getsiginfo(thread).map_err(&failed)?.si_code >> 8 != event {
            return Err(PtraceError::Ended(thread));
        }
        let pid = Pid::from_raw(pid as i32);
        // What is cloned may be a thread, or a process that sends another signal than usual when it ends.
        if event == libc::PTRACE_EVENT_CLONE && thread_group(pid) != Some(pid) {
            return Ok(None);
        }
        let shares_memory = have_one_memory(thread, pid).unwrap_or(is_waited_for);
        Ok(Some(Child { pid, parent: thread, shares_memory, is_waited_for }))
    }
}

/// The process that a thread is of; `None` if it has ended.
pub(crate) fn thread_group(thread: Pid) -> Option<Pid> {
    status_number(thread, "Tgid:")
}

/// The process that has started one, or has taken it in.
pub(crate) fn parent(pid: Pid) -> Option<Pid> {
    status_number(pid, "PPid:")
}

/// The process that traces one; 0 if nobody does, `None` if there is no such process.
pub(crate) fn tracer(pid: Pid) -> Option<Pid> {
    status_number(pid, "TracerPid:")
}

/// A number that the kernel tells of a thread (proc(5)).
fn status_number(thread: Pid, name: &str) -> Option<Pid> {
    let text = proc::read_text(thread, "status").ok()?;
    let numbers = text.lines().find_map(|line| line.strip_prefix(name))?;
    numbers.split_whitespace().next()?.parse().ok().map(Pid::from_raw)
}

/// Whether two processes share their memory; `None` if the kernel does not tell.
fn have_one_memory(one: Pid, other: Pid) -> Option<bool> {
    /// `KCMP_VM` (kcmp(2)).
    const MEMORY: libc::c_int = 1;
    // SAFETY: the kernel compares, and changes nothing.
    let order =
        unsafe { libc::syscall(libc::SYS_kcmp, one.as_raw(), other.as_raw(), MEMORY, 0, 0) };
    (order >= 0).then_some(order == 0)
}

/// How a thread stands still.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// Between two instructions.
    Free,
    /// So, and it gets this signal when it goes on.
    Signal(SignalNumber),
    /// Between two instructions, for as long as its process is stopped as by a shell.
    Halted,
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

/// What is accepted of a process that might be harmed by being tagged.
#[derive(Clone, Copy, Debug, Default)]
pub struct Treatment {
    /// Whether it is tagged though it has seccomp filters, or may use `gs`.
    pub force: bool,
    /// How many seccomp filters it may have that are those of our own process, and need not be read.
    known_filters: Option<u32>,
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
    /// What `gs` held in threads that ended while all were being stopped, until somebody judges it.
    pub(crate) last_gs: Vec<(Pid, u64)>,
    /// What is accepted of it.
    pub treatment: Treatment,
    /// Where it makes system calls for us, once that is known.
    site: Option<site::Site>,
    /// Code that signal handlers return to and that was changed, so that it is not known by its bytes.
    pub(crate) restorers: Vec<u64>,
    memory: File,
    status: proc::StatusFile,
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
            last_gs: Vec::new(),
            treatment: Treatment::default(),
            site: None,
            restorers: Vec::new(),
            memory,
            status: proc::StatusFile::default(),
        })
    }

    /// Takes as many seccomp filters as our own process has for those of our own process: it is a child of ours
    /// that has added none.
    pub(crate) fn inherits_filters(&mut self) {
        self.treatment.known_filters = match seccomp::mode(Pid::this()) {
            Ok(seccomp::Mode::Filter(count)) => count,
            _ => None,
        };
    }

    /// Whether all stopped threads may make system calls; or why one may not.
    pub(crate) fn may_call(
        &self,
        calls: &[seccomp::Call],
    ) -> Result<Result<(), seccomp::Forbidden>, PtraceError> {
        for thread in self.threads.keys() {
            let checked = seccomp::check(*thread, calls, self.treatment.known_filters)?;
            if checked.is_err() {
                return Ok(checked);
            }
        }
        Ok(Ok(()))
    }

    /// Refuses a process whose system calls seccomp restrains, unless that was accepted.
    ///
    /// # Errors
    /// [`PtraceError::Restrained`]
    pub fn check_filters(&self) -> Result<(), PtraceError> {
        match seccomp::restrained(self.pid)? {
            Some((_, seccomp::Mode::Filter(count)))
                if count.is_some() && count == self.treatment.known_filters =>
            {
                Ok(())
            }
            Some((thread, mode)) if mode == seccomp::Mode::Strict || !self.treatment.force => {
                Err(PtraceError::Restrained { pid: self.pid, thread, mode })
            }
            _ => Ok(()),
        }
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
