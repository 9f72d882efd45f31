//! Decides whether a thread's seccomp filters allow a system call, before the call is made for us.
//!
//! A call that a filter forbids may kill the process, so nothing is tried: the filters themselves are read
//! (ptrace(2), `PTRACE_SECCOMP_GET_FILTER`) and evaluated by [`filter`]. Invariant: a call is allowed only if every
//! filter is known and lets it through. Whatever cannot be read or decided is refused.

pub(crate) mod filter;

use nix::errno::Errno;
use nix::unistd::Pid;

use super::PtraceError;
use filter::{Action, Data, Filter};

/// Number of the ptrace request, and the most filters that a thread is believed to have: the kernel limits the
/// instructions of all together to 32,768.
const GET_FILTER: libc::c_uint = 0x420c;
const FILTERS: u64 = 1 << 15;
/// `PTRACE_GET_SYSCALL_USER_DISPATCH_CONFIG` (Linux, `include/uapi/linux/ptrace.h`).
const GET_USER_DISPATCH: libc::c_uint = 0x4211;

/// What seccomp does with the system calls of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Mode {
    /// Nothing.
    Off,
    /// All but `read`, `write`, `exit` and `sigreturn` kill it.
    Strict,
    /// Filters decide; how many there are, if the kernel says so.
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

/// Why a system call is not made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Forbidden {
    /// Strict mode.
    #[error("seccomp strict mode would kill it")]
    Strict,
    /// A filter says so.
    #[error("its seccomp filter answers {0}")]
    Filter(Action),
    /// A filter looks at what is not known beforehand, or has an instruction that we do not know.
    #[error("its seccomp filter cannot be decided beforehand")]
    Undecided,
    /// The filters cannot be read.
    #[error("its seccomp filters cannot be read: {0} (CAP_SYS_ADMIN is needed)")]
    Unreadable(Errno),
    /// The process handles its system calls itself (`PR_SET_SYSCALL_USER_DISPATCH`).
    #[error("it dispatches its system calls to itself")]
    UserDispatch,
}

/// A system call that is to be made. `None`: not known, and not to be decided by.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Call {
    pub number: libc::c_long,
    pub arguments: [Option<u64>; 6],
    /// Address behind the `syscall` instruction.
    pub instruction_pointer: Option<u64>,
}

/// What seccomp does with a thread, as `/proc` says (proc(5)).
pub fn mode(thread: Pid) -> Result<Mode, PtraceError> {
    let text = super::proc::read_text(thread, "status");
    let text = text.map_err(|_| PtraceError::Ended(thread))?;
    let number = |name: &str| {
        let found = text.lines().find_map(|line| line.strip_prefix(name));
        found.and_then(|number| number.trim().parse::<u32>().ok())
    };
    Ok(match number("Seccomp:") {
        // A kernel without seccomp has no such line.
        None | Some(0) => Mode::Off,
        Some(1) => Mode::Strict,
        Some(_) => Mode::Filter(number("Seccomp_filters:")),
    })
}

/// What stubs of a log call where a buffer is full.
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

/// The first thread of a process that seccomp restrains, and how; `None` if there is none.
///
/// # Errors
/// [`PtraceError::Ended`]
pub fn restrained(pid: Pid) -> Result<Option<(Pid, Mode)>, PtraceError> {
    for thread in super::proc::threads(pid)? {
        match mode(thread) {
            Ok(Mode::Off) | Err(PtraceError::Ended(_)) => {}
            Ok(mode) => return Ok(Some((thread, mode))),
            Err(error) => return Err(error),
        }
    }
    Ok(None)
}

/// Whether a stopped thread may make system calls. `known`: how many filters may be there that are those of our own
/// process, which we live with ourselves.
pub(crate) fn check(
    thread: Pid,
    calls: &[Call],
    known: Option<u32>,
) -> Result<Result<(), Forbidden>, PtraceError> {
    if dispatches_itself(thread) {
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
    Ok(calls.iter().try_for_each(|call| judge(&filters, call)))
}

/// What all filters together say of a call.
fn judge(filters: &[Filter], call: &Call) -> Result<(), Forbidden> {
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

/// The filters of a stopped thread.
fn filters(thread: Pid) -> nix::Result<Vec<Filter>> {
    let mut all = Vec::new();
    for index in 0..FILTERS {
        let request = |place: *mut libc::sock_filter| {
            // SAFETY: the kernel writes as many instructions as the filter has, if there is a place for them.
            let length = unsafe { libc::ptrace(GET_FILTER, thread.as_raw(), index, place) };
            Errno::result(length)
        };
        let length = match request(std::ptr::null_mut()) {
            // Behind the last one.
            Err(Errno::ENOENT) => return Ok(all),
            length => length?,
        };
        let empty = libc::sock_filter { code: 0, jt: 0, jf: 0, k: 0 };
        let mut code = vec![empty; usize::try_from(length).unwrap_or_default()];
        // Filters never change, and the thread, which is stopped, adds none.
        request(code.as_mut_ptr())?;
        all.push(Filter::new(code));
    }
    Err(Errno::E2BIG)
}

/// Whether a stopped thread has its system calls sent to itself as signals.
fn dispatches_itself(thread: Pid) -> bool {
    // mode, selector, offset, len.
    let mut config = [0u64; 4];
    let (size, place) = (size_of_val(&config), config.as_mut_ptr());
    // SAFETY: the kernel writes four numbers, whose size it is told, to ones that outlive the call.
    let result = unsafe { libc::ptrace(GET_USER_DISPATCH, thread.as_raw(), size, place) };
    // Kernels before 6.4 do not say.
    result == 0 && config[0] != 0
}

/// What an interrupted call has in `rax` (Linux, `include/linux/errno.h`): to be made again by `restart_syscall`, or
/// as it was.
pub(super) const RESTART_BLOCK: u64 = -516i64 as u64;
const RESTART: u64 = -513i64 as u64;

/// Lets a stopped thread make an interrupted call again by itself where its filters may forbid it
/// `restart_syscall`, which the program never asks for. Its time begins anew.
pub(crate) fn spare_restart(thread: Pid, known: Option<u32>) -> Result<(), PtraceError> {
    let registers = nix::sys::ptrace::getregs(thread);
    let registers = registers.map_err(PtraceError::new(thread, "read its registers"))?;
    if registers.rax != RESTART_BLOCK || registers.orig_rax.cast_signed() < 0 {
        return Ok(());
    }
    let arguments = [registers.rdi, registers.rsi, registers.rdx];
    let [a, b, c] = arguments.map(Some);
    let again = Call {
        number: libc::SYS_restart_syscall,
        arguments: [a, b, c, Some(registers.r10), Some(registers.r8), Some(registers.r9)],
        instruction_pointer: Some(registers.rip),
    };
    if mode(thread)? == Mode::Off || check(thread, &[again], known)?.is_ok() {
        return Ok(());
    }
    let registers = libc::user_regs_struct { rax: RESTART, ..registers };
    let set = nix::sys::ptrace::setregs(thread, registers);
    set.map_err(PtraceError::new(thread, "set its registers"))
}
