//! Stops the threads of a live process, and reads and writes their registers and memory.
//!
//! This module uses only ptrace(2) and `/proc`. All calls must be made by one thread of the
//! controller, because the kernel identifies a tracer by its thread.

mod clock_access;
mod delivery;
mod ending;
mod escape;
mod handlers;
mod inherited;
mod inject;
mod interrupted_call;
mod launch;
mod live;
mod mapped;
mod maps;
mod obstacle;
mod own;
pub(crate) mod proc;
pub(crate) mod search;
pub(crate) mod search_budget;
pub mod seccomp;
mod sequence;
mod stop;
mod stop_state;
mod stop_thread;
mod stopped;
mod syscall_site;
pub(crate) mod touched;
mod wait;

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use nix::errno::Errno;
use nix::sys::ptrace;
use nix::unistd::Pid;

use crate::address::RunAddr;

pub use delivery::{
    Delivery, Disposition, PendingIn, enter_handler, pending_signals, replace_fault_address,
    signal_code,
};
pub use ending::{block_signals, end_by};
pub use escape::{is_asked_to_end, is_given_up};
pub use handlers::HandlerReturn;
pub use inherited::ignore_file_size_signal;
pub use inject::set_signal_mask;
pub use interrupted_call::{continue_call, is_interrupted};
pub use launch::launch;
pub use live::live_thread;
pub use mapped::{
    MappedError, RunningMemory, code_files, open as open_mapped, program, program_mapping,
};
pub use maps::{FileId, Mapping, mappings};
pub use obstacle::{MissingRight, Obstacle, command, obstacle};
pub(crate) use own::Traceable;
pub use own::refuse_tracers;
pub use sequence::{SequenceArea, sequence_area};
pub use stop::{Attached, detach, interrupt, listen};
pub use stop_state::StopState;
pub use stop_thread::{MayStay, continue_to_stop};
pub use stopped::{ReadMemory, Stopped, StoppedThread};
pub(crate) use touched::scan as present_parts;
pub use wait::{
    SignalNumber, Status, Waited, is_waitable, resume, resume_to_call, step, wait, wait_for_end,
    wait_for_end_or_signal, wait_for_end_unless, wait_for_signal, wait_for_stop,
};

/// Why a process cannot be traced.
#[derive(Debug, thiserror::Error)]
pub enum PtraceError {
    /// A system call or the access to a file of `/proc` failed.
    #[error("process {pid}: cannot {operation}")]
    System {
        /// The process.
        pid: Pid,
        /// The operation that failed.
        operation: &'static str,
        /// Why it failed.
        #[source]
        source: io::Error,
    },
    /// The program cannot be started.
    #[error("cannot run {program}")]
    Launch {
        /// The program.
        program: String,
        /// Why it failed.
        #[source]
        source: io::Error,
    },
    /// The process cannot be traced.
    #[error("process {pid}: {obstacle}")]
    Refused {
        /// The process.
        pid: Pid,
        /// Why it cannot be traced.
        obstacle: Obstacle,
    },
    /// The process has more memory than is searched while it is stopped.
    #[error("process {pid}: it has more {subject} to search than {}; attach refuses", size(*.limit))]
    TooMuchMemory {
        /// The process.
        pid: Pid,
        /// Kind of memory that is searched, as the message names it.
        subject: &'static str,
        /// Maximum number of bytes that are searched.
        limit: u64,
    },
    /// A signal has asked this program to end during a long search of the process's memory.
    #[error("process {0}: a signal ended the search of its memory")]
    Interrupted(Pid),
    /// The process ended before the operation was complete.
    #[error("process {0} has ended")]
    Ended(Pid),
    /// A thread does not stop, and a signal has ended the wait for it.
    #[error(
        "thread {0} does not stop: it waits in the kernel, for a child or a file system; the program goes on without hmtt"
    )]
    Unstopped(Pid),
    /// Seccomp restricts the system calls of the process.
    #[error("process {pid}: {mode} restricts its thread {thread}: a system call that hmtt makes in it might kill it{}",
        if *.mode == seccomp::Mode::Strict { "" } else { "; hmtt tag --force makes those that its filters allow" })]
    Restricted {
        /// The process.
        pid: Pid,
        /// The first restricted thread of the process.
        thread: Pid,
        /// The thread's seccomp mode.
        mode: seccomp::Mode,
    },
    /// A necessary system call is not made, because it might harm the process.
    #[error("process {pid}: cannot {operation}: system call {number} is not made: {why}")]
    Forbidden {
        /// The process.
        pid: Pid,
        /// Purpose of the system call.
        operation: &'static str,
        /// Number of the system call.
        number: libc::c_long,
        /// Why the call is not made.
        why: seccomp::Forbidden,
    },
}

/// Formats a number of bytes for messages.
fn size(bytes: u64) -> String {
    if bytes.is_multiple_of(1 << 30) {
        format!("{} GiB", bytes >> 30)
    } else {
        format!("{} MiB", bytes >> 20)
    }
}

impl PtraceError {
    /// Makes the error for a failed operation: [`PtraceError::Ended`] for `ESRCH`.
    pub fn new(pid: Pid, operation: &'static str) -> impl Fn(Errno) -> PtraceError {
        move |error| match error {
            Errno::ESRCH => PtraceError::Ended(pid),
            _ => PtraceError::System { pid, operation, source: error.into() },
        }
    }
}

impl PtraceError {
    /// Makes the error for a failed access to the memory of a process.
    fn memory(pid: Pid, operation: &'static str, source: io::Error) -> PtraceError {
        match source.kind() {
            // The memory of an ended process is empty.
            io::ErrorKind::UnexpectedEof | io::ErrorKind::WriteZero => PtraceError::Ended(pid),
            _ => PtraceError::System { pid, operation, source },
        }
    }

    /// Makes the error for a failed attempt to trace a process.
    pub(crate) fn refused(pid: Pid, error: Errno) -> PtraceError {
        match obstacle::refused(pid, error) {
            Some(obstacle) => PtraceError::Refused { pid, obstacle },
            None => PtraceError::new(pid, "trace it")(error),
        }
    }
}

/// A child process at its first stop. It has not executed an instruction yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Child {
    /// Process number of the child.
    pub pid: Pid,
    /// The thread that has started the child.
    pub parent: Pid,
    /// Whether the child shares its parent's memory.
    pub shares_memory: bool,
    /// Whether the parent thread is blocked until the child has memory of its own, or ends.
    pub is_waited_for: bool,
}

/// Ptrace events of a thread that has started a thread or a process.
pub const START_EVENTS: [i32; 3] =
    [libc::PTRACE_EVENT_VFORK, libc::PTRACE_EVENT_FORK, libc::PTRACE_EVENT_CLONE];

/// Number of the thread or process that a thread, stopped at one of the [`START_EVENTS`], has
/// started.
///
/// # Errors
/// [`PtraceError::Ended`] if the thread was killed meanwhile; otherwise
/// [`PtraceError::System`].
pub fn started(thread: Pid, event: i32) -> Result<Pid, PtraceError> {
    let failed = PtraceError::new(thread, "find its child");
    let pid = ptrace::getevent(thread).map_err(&failed)?;
    // A thread that was killed meanwhile is at its exit event, and the event message is its exit
    // status.
    if ptrace::getsiginfo(thread).map_err(&failed)?.si_code >> 8 != event {
        return Err(PtraceError::Ended(thread));
    }
    Ok(Pid::from_raw(pid as i32))
}

impl Child {
    /// The child that a thread has started, if it is stopped at the ptrace event `event`; `None` at
    /// other events.
    ///
    /// # Errors
    /// [`PtraceError::Ended`] if the thread was killed meanwhile; otherwise
    /// [`PtraceError::System`].
    pub fn from_event(thread: Pid, event: i32) -> Result<Option<Child>, PtraceError> {
        let is_waited_for = event == libc::PTRACE_EVENT_VFORK;
        if !START_EVENTS.contains(&event) {
            return Ok(None);
        }
        let pid = started(thread, event)?;
        // `clone` may have started a thread. It may also have started a process that sends another
        // signal than `SIGCHLD` when it ends.
        if event == libc::PTRACE_EVENT_CLONE && thread_group(pid) != Some(pid) {
            return Ok(None);
        }
        let shares_memory = share_memory(thread, pid).unwrap_or(is_waited_for);
        Ok(Some(Child { pid, parent: thread, shares_memory, is_waited_for }))
    }
}

/// The process that a thread belongs to; `None` if the thread has ended.
pub fn thread_group(thread: Pid) -> Option<Pid> {
    status_number(thread, "Tgid:")
}

/// The parent of a process. If the parent has ended, the process that has adopted it.
pub fn parent(pid: Pid) -> Option<Pid> {
    status_number(pid, "PPid:")
}

/// The tracer of a process; 0 if it has none, `None` if there is no such process.
pub(crate) fn tracer(pid: Pid) -> Option<Pid> {
    let of_first = status_number(pid, "TracerPid:")?;
    match of_first.as_raw() {
        // If the first thread has ended, it has no tracer; another thread is read.
        0 => status_number(live_thread(pid), "TracerPid:"),
        _ => Some(of_first),
    }
}

/// A number in the `status` file of a thread (proc(5)).
fn status_number(thread: Pid, name: &str) -> Option<Pid> {
    let text = proc::read_text(thread, "status").ok()?;
    let numbers = text.lines().find_map(|line| line.strip_prefix(name))?;
    numbers.split_whitespace().next()?.parse().ok().map(Pid::from_raw)
}

/// Whether two processes share their memory; `None` if the kernel does not report it.
pub fn share_memory(process: Pid, other: Pid) -> Option<bool> {
    /// `KCMP_VM` (kcmp(2)).
    const MEMORY: libc::c_int = 1;
    // SAFETY: the kernel compares two processes, and changes nothing.
    let order =
        unsafe { libc::syscall(libc::SYS_kcmp, process.as_raw(), other.as_raw(), MEMORY, 0, 0) };
    (order >= 0).then_some(order == 0)
}

/// Risks that the user accepts for a tagged process.
#[derive(Clone, Copy, Debug, Default)]
pub struct RiskPolicy {
    /// Whether the process is tagged although it has seccomp filters, or may use `gs`.
    pub force: bool,
    /// Number of seccomp filters that the process has inherited from this program. These filters
    /// need not be read.
    known_filters: Option<u32>,
}

impl RiskPolicy {
    /// Returns an error if seccomp restricts the system calls of a process, unless this was
    /// accepted.
    ///
    /// # Errors
    /// [`PtraceError::Restricted`] if a thread is restricted and this was not accepted.
    fn check_filters(&self, pid: Pid) -> Result<(), PtraceError> {
        match seccomp::restricted(pid, self.known_filters)? {
            Some((thread, mode)) if mode == seccomp::Mode::Strict || !self.force => {
                Err(PtraceError::Restricted { pid, thread, mode })
            }
            _ => Ok(()),
        }
    }
}

/// A traced process. Each of its threads is either stopped, or runs and the user of this type waits
/// for its events. Operations on stopped threads are methods of [`Stopped`] and [`StoppedThread`].
#[derive(Debug)]
pub struct Process {
    /// Process number.
    pub pid: Pid,
    /// Stopped threads and how each is stopped.
    pub threads: BTreeMap<Pid, StopState>,
    /// Children that were started while the process was being stopped. Each is at its first stop.
    pub forked: Vec<Child>,
    /// Events of threads that arrived while the process was being stopped. The user of this type
    /// must handle each event once, before it waits for later events.
    pub queued_events: Vec<Status>,
    /// Threads that did not stop within the time allowed. They are traced until this program ends.
    pub unstopped: BTreeSet<Pid>,
    /// Threads that may be left unstopped. Any other thread that does not stop is an error.
    pub may_stay: MayStay,
    /// Registers of threads that ended while the process was being stopped. The user of this type
    /// takes them.
    pub last_registers: Vec<(Pid, libc::user_regs_struct)>,
    /// Risks that are accepted for this process.
    pub risk_policy: RiskPolicy,
    /// Place where injected system calls are made; `None` until it is searched for.
    site: Option<syscall_site::SyscallSite>,
    /// Signal frames that were found since the threads were stopped. They are searched for once.
    signal_frames: RefCell<handlers::SignalFrames>,
    /// Whether a signal to this program ends a long search. This is allowed as long as the search
    /// is not needed to undo changes.
    pub(crate) may_be_interrupted: bool,
    /// Addresses of changed restorers. Their bytes no longer identify them.
    pub(crate) restorers: Vec<RunAddr>,
    memory: File,
    status: proc::StatusFile,
}

impl Process {
    /// Takes over a process that is already traced. It has one thread, which is stopped between two
    /// instructions. The process's memory stays open even when its first thread ends before others.
    ///
    /// # Errors
    /// [`PtraceError::System`] if the memory of the process cannot be opened.
    pub fn from_traced(pid: Pid) -> Result<Self, PtraceError> {
        let path = format!("/proc/{}/mem", live_thread(pid));
        let memory = File::options().read(true).write(true).open(path);
        let memory = memory.map_err(|source| PtraceError::System {
            pid,
            operation: "open its memory",
            source,
        })?;
        Ok(Process {
            pid,
            threads: BTreeMap::from([(pid, StopState::AtInstruction)]),
            forked: Vec::new(),
            queued_events: Vec::new(),
            unstopped: BTreeSet::new(),
            may_stay: MayStay::default(),
            last_registers: Vec::new(),
            risk_policy: RiskPolicy::default(),
            site: None,
            signal_frames: RefCell::default(),
            may_be_interrupted: false,
            restorers: Vec::new(),
            memory,
            status: proc::StatusFile::default(),
        })
    }

    /// Accepts as many seccomp filters as this program has. The process is a child of this program,
    /// and has added no filters.
    pub(crate) fn accept_inherited_filters(&mut self) {
        self.risk_policy.known_filters = match seccomp::mode(Pid::this()) {
            Ok(seccomp::Mode::Filter(count)) => count,
            _ => None,
        };
    }

    /// Checks whether all stopped threads may make system calls. The inner error is the reason why
    /// a thread may not make a call.
    ///
    /// # Errors
    /// [`PtraceError`] if the state of a thread cannot be read.
    pub(crate) fn may_call(
        &self,
        calls: &[seccomp::Call],
    ) -> Result<Result<(), seccomp::Forbidden>, PtraceError> {
        for thread in self.threads.keys() {
            let checked = seccomp::check(*thread, calls, self.risk_policy.known_filters)?;
            if checked.is_err() {
                return Ok(checked);
            }
        }
        Ok(Ok(()))
    }

    /// Returns an error if seccomp restricts the system calls of the process, unless this was
    /// accepted.
    ///
    /// # Errors
    /// [`PtraceError::Restricted`] if a thread is restricted and this was not accepted.
    pub fn check_filters(&self) -> Result<(), PtraceError> {
        self.risk_policy.check_filters(self.pid)
    }

    /// Reads memory.
    fn read_memory(&self, address: RunAddr, bytes: &mut [u8]) -> Result<(), PtraceError> {
        let read = self.memory.read_exact_at(bytes, address.0);
        read.map_err(|source| PtraceError::memory(self.pid, "read its memory", source))
    }

    /// Writes memory, regardless of its protection.
    fn write_memory(&self, address: RunAddr, bytes: &[u8]) -> Result<(), PtraceError> {
        let written = self.memory.write_all_at(bytes, address.0);
        written.map_err(|source| PtraceError::memory(self.pid, "write its memory", source))
    }
}
