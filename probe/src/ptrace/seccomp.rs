//! Decides whether a thread's seccomp filters allow a system call, before the call is injected.
//!
//! A forbidden call may kill the process, so a call cannot simply be tried. The filters themselves
//! are read (ptrace(2), `PTRACE_SECCOMP_GET_FILTER`) and evaluated by `filter`. Invariant: a call
//! is allowed only if every filter is known and allows the call. If a filter cannot be read or
//! evaluated, the call is refused.

pub(crate) mod filter;

use nix::errno::Errno;
use nix::unistd::Pid;

use super::PtraceError;
use filter::{Action, Data, Filter};

/// Number of the ptrace request, and maximum number of filters of a thread: the kernel limits the
/// instructions of all filters together to 32,768.
const GET_FILTER: libc::c_uint = 0x420c;
const FILTERS: u64 = 1 << 15;
/// `PTRACE_GET_SYSCALL_USER_DISPATCH_CONFIG` (Linux, `include/uapi/linux/ptrace.h`).
const GET_USER_DISPATCH: libc::c_uint = 0x4211;

/// The seccomp mode of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Mode {
    /// All system calls are allowed.
    Off,
    /// Any system call but `read`, `write`, `exit` and `sigreturn` kills the thread.
    Strict,
    /// Filters decide about system calls. The field is the number of filters, if the kernel reports
    /// it.
    Filter(Option<u32>),
}

impl std::fmt::Display for Mode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Mode::Off => "no seccomp",
            Mode::Strict => "seccomp in strict mode",
            Mode::Filter(_) => "seccomp in filter mode",
        })
    }
}

/// Reason why a system call is not made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Forbidden {
    /// The thread is in strict mode.
    #[error("seccomp strict mode would kill it")]
    Strict,
    /// A filter answers with this action.
    #[error("its seccomp filter answers {0}")]
    Filter(Action),
    /// A filter depends on an unknown argument, or contains an unknown instruction.
    #[error("its seccomp filter depends on values that are not known beforehand")]
    Undecided,
    /// The filters cannot be read.
    #[error("its seccomp filters cannot be read: {0} (CAP_SYS_ADMIN is needed)")]
    Unreadable(Errno),
    /// The process gets its own system calls as signals (`PR_SET_SYSCALL_USER_DISPATCH`).
    #[error("it dispatches its system calls to itself")]
    UserDispatch,
}

/// A system call to be checked. `None` stands for a value that is not known. A filter whose
/// decision depends on such a value counts as refusing.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Call {
    pub number: libc::c_long,
    pub arguments: [Option<u64>; 6],
    /// Address after the `syscall` instruction.
    pub instruction_pointer: Option<u64>,
}

/// Reads the seccomp mode of a thread (proc(5)).
///
/// # Errors
/// [`PtraceError::Ended`] if the thread has ended.
pub fn mode(thread: Pid) -> Result<Mode, PtraceError> {
    let text = super::proc::read_text(thread, "status");
    let text = text.map_err(|_| PtraceError::Ended(thread))?;
    let number = |name: &str| {
        let value = text.lines().find_map(|line| line.strip_prefix(name));
        value.and_then(|number| number.trim().parse::<u32>().ok())
    };
    Ok(match number("Seccomp:") {
        // Kernels without seccomp have no such line.
        None | Some(0) => Mode::Off,
        Some(1) => Mode::Strict,
        Some(_) => Mode::Filter(number("Seccomp_filters:")),
    })
}

/// System calls that tags of a log make when a buffer is full.
pub(crate) fn log_calls() -> [Call; 3] {
    let number = |number| Some(number as u64);
    let mask = [number(libc::SIG_SETMASK), None, None, Some(8), None, None];
    let futex = |operation| [None, number(operation), None, None, None, None];
    let call = |number, arguments| Call { number, arguments, instruction_pointer: None };
    [
        call(libc::SYS_rt_sigprocmask, mask),
        call(libc::SYS_futex, futex(libc::FUTEX_WAKE)),
        call(libc::SYS_futex, futex(libc::FUTEX_WAIT)),
    ]
}

/// The first thread of a process that seccomp restricts, and its mode; `None` if no thread is
/// restricted. `known`: number of filters with which a thread does not count as restricted.
///
/// # Errors
/// [`PtraceError::Ended`] if the process has ended.
pub fn restricted(pid: Pid, known: Option<u32>) -> Result<Option<(Pid, Mode)>, PtraceError> {
    for thread in super::proc::threads(pid)? {
        match mode(thread) {
            Ok(Mode::Off) | Err(PtraceError::Ended(_)) => {}
            Ok(Mode::Filter(count)) if count.is_some() && count == known => {}
            Ok(mode) => return Ok(Some((thread, mode))),
            Err(error) => return Err(error),
        }
    }
    Ok(None)
}

/// Checks whether a stopped thread may make system calls. `known`: number of filters that the
/// process has inherited from this program; the user accepts them. The inner error is the reason
/// why a call may not be made.
///
/// # Errors
/// [`PtraceError::Ended`] if the thread has ended.
pub(crate) fn check(
    thread: Pid,
    calls: &[Call],
    known: Option<u32>,
) -> Result<Result<(), Forbidden>, PtraceError> {
    if has_user_dispatch(thread) {
        return Ok(Err(Forbidden::UserDispatch));
    }
    match mode(thread)? {
        Mode::Off => return Ok(Ok(())),
        Mode::Strict => return Ok(Err(Forbidden::Strict)),
        Mode::Filter(count) if count.is_some() && count == known => return Ok(Ok(())),
        Mode::Filter(_) => {}
    }
    let filters = match filters(thread) {
        Ok(filters) => filters,
        Err(error) => return Ok(Err(Forbidden::Unreadable(error))),
    };
    Ok(calls.iter().try_for_each(|call| decide(&filters, call)))
}

/// Decides about a call, by all filters together.
fn decide(filters: &[Filter], call: &Call) -> Result<(), Forbidden> {
    let data = Data::new(call);
    for filter in filters {
        match filter.run(&data) {
            Some(Action::Allow | Action::Log) => {}
            Some(action) => return Err(Forbidden::Filter(action)),
            None => return Err(Forbidden::Undecided),
        }
    }
    Ok(())
}

/// Reads the filters of a stopped thread.
fn filters(thread: Pid) -> nix::Result<Vec<Filter>> {
    let mut filters = Vec::new();
    for index in 0..FILTERS {
        let request = |place: *mut libc::sock_filter| {
            // SAFETY: the kernel writes the filter's instructions to `place`, unless that is null.
            let length = unsafe { libc::ptrace(GET_FILTER, thread.as_raw(), index, place) };
            Errno::result(length)
        };
        let length = match request(std::ptr::null_mut()) {
            // The thread has no filter with this index or a higher one.
            Err(Errno::ENOENT) => return Ok(filters),
            length => length?,
        };
        let empty = libc::sock_filter { code: 0, jt: 0, jf: 0, k: 0 };
        let mut code = vec![empty; usize::try_from(length).unwrap_or_default()];
        // The filter cannot have changed since its length was read: only the thread itself could
        // add a filter, and the thread is stopped.
        request(code.as_mut_ptr())?;
        filters.push(Filter::new(code));
    }
    Err(Errno::E2BIG)
}

/// Whether the kernel sends a stopped thread's system calls to the thread as signals.
fn has_user_dispatch(thread: Pid) -> bool {
    // The fields mode, selector, offset and len.
    let mut config = [0u64; 4];
    let (size, place) = (size_of_val(&config), config.as_mut_ptr());
    // SAFETY: the kernel writes four numbers of the given size to an array that outlives the call.
    let result = unsafe { libc::ptrace(GET_USER_DISPATCH, thread.as_raw(), size, place) };
    // Kernels before 6.4 do not support the request.
    result == 0 && config[0] != 0
}

/// Values of `rax` after an interrupted system call (Linux, `include/linux/errno.h`). The first
/// restarts the call by `restart_syscall`, the second restarts it with its original number and
/// arguments.
pub(super) const RESTART_BLOCK: u64 = -516i64 as u64;
const RESTART: u64 = -513i64 as u64;

/// Makes a stopped thread restart an interrupted system call with its original number and
/// arguments, where its filters may forbid `restart_syscall`: the program does not make that call
/// itself. A time-out begins anew.
///
/// # Errors
/// [`PtraceError`] if the kernel refuses, or if the thread or process has ended.
pub(crate) fn avoid_restart_syscall(thread: Pid, known: Option<u32>) -> Result<(), PtraceError> {
    let registers = nix::sys::ptrace::getregs(thread);
    let registers = registers.map_err(PtraceError::new(thread, "read its registers"))?;
    if registers.rax != RESTART_BLOCK || registers.orig_rax.cast_signed() < 0 {
        return Ok(());
    }
    let arguments = [registers.rdi, registers.rsi, registers.rdx];
    let [a, b, c] = arguments.map(Some);
    let restart = Call {
        number: libc::SYS_restart_syscall,
        arguments: [a, b, c, Some(registers.r10), Some(registers.r8), Some(registers.r9)],
        instruction_pointer: Some(registers.rip),
    };
    if mode(thread)? == Mode::Off || check(thread, &[restart], known)?.is_ok() {
        return Ok(());
    }
    let registers = libc::user_regs_struct { rax: RESTART, ..registers };
    let set = nix::sys::ptrace::setregs(thread, registers);
    set.map_err(PtraceError::new(thread, "set its registers"))
}
