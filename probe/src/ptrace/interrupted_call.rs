//! Lets a system call continue that was interrupted by the stop of its thread.
//!
//! The kernel makes most interrupted calls again if no signal handler runs. Other calls fail with
//! EINTR each time that the thread is woken up, even by a tracer or by an ignored signal: calls
//! that wait with a time-out, and some more (signal(7), "Interruption of system calls and library
//! functions by stop signals"). When a thread is stopped for a signal or by a tracer, the kernel
//! has not yet acted on the call's result. If the result is changed to `-ERESTARTNOHAND` at this
//! moment, the kernel makes the call again, unless a handler runs: then the call fails with EINTR,
//! as in a plain run.
//!
//! The kernel begins the time-out anew. So the time of the first stop within a call is recorded. At
//! a later stop, after the time-out, the call ends with the result that it has at its time-out. Two
//! stops belong to the same call if the thread still has marks in its status flags: the zero flag
//! without even parity. Only instructions that load flags produce this combination, and any
//! arithmetic after the call replaces it. Compilers and the C library expect no particular flags
//! after a system call.
//!
//! Invariant: a call never ends before its time-out. It ends late by the time before the first
//! stop, plus the time between the first and the last stop within the call.

use std::cell::RefCell;
use std::collections::HashMap;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sys::ptrace;
use nix::sys::signal::Signal;
use nix::unistd::Pid;

use super::{PtraceError, ReadMemory, RunningMemory, SignalNumber, Status};
use crate::address::RunAddr;

/// Result with which the kernel makes a call again unless a handler runs (Linux,
/// `include/linux/errno.h`).
const RESTART_UNLESS_HANDLED: i64 = -514;
/// Zero flag and parity flag.
const ZERO: u64 = 1 << 6;
const PARITY: u64 = 1 << 2;
/// `IORING_ENTER_EXT_ARG`, and the offset of the time-out's address in its structure
/// (io_uring_enter(2)).
const EXTENDED: u64 = 1 << 3;
const EXTENDED_TIME_AT: u64 = 16;
/// Number of io_pgetevents(2), which `libc` lacks (Linux,
/// `arch/x86/entry/syscalls/syscall_64.tbl`).
const IO_PGETEVENTS: i64 = 333;
/// Length of the instruction `syscall`, in bytes.
const SYSCALL_BYTES: u64 = 2;
/// Maximum number of calls whose first stop is recorded.
const MOST: usize = 1 << 14;

/// Identity of a call: its number, arguments, address and stack pointer.
type Key = [u64; 9];

thread_local! {
    /// Time of the first stop of each thread within its call. The map belongs to one thread of this
    /// program, which traces all processes.
    static STOPPED: RefCell<HashMap<Pid, (Key, Instant)>> = RefCell::new(HashMap::new());
}

/// Time-out of an interrupted call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct TimeOut {
    /// Time after which the call ends; `None` if it never ends by itself.
    after: Option<Duration>,
    /// Result of the call at its time-out.
    result: i64,
}

/// Whether a stopped thread is in a system call that has failed with EINTR, and that the kernel
/// would not make again by itself.
pub fn is_interrupted(registers: &libc::user_regs_struct) -> bool {
    let is_failed = registers.rax.cast_signed() == -i64::from(libc::EINTR);
    is_failed && registers.orig_rax.cast_signed() >= 0 && wait_of(registers).is_some()
}

/// Whether a thread is stopped at the start or end of a system call that the stop itself
/// interrupts. The thread must be stopped again, so that its call can continue. If the call is
/// about to begin, the thread is moved back before it: otherwise the kernel would find the pending
/// stop and let the call fail.
pub(super) fn is_to_stop_again(status: Status) -> bool {
    let Status::Stopped(thread, SignalNumber::SYSTEM_CALL) = status else { return false };
    let Ok(registers) = ptrace::getregs(thread) else { return false };
    let is_start = registers.rax.cast_signed() == -i64::from(libc::ENOSYS)
        && registers.orig_rax.cast_signed() >= 0
        && wait_of(&registers).is_some();
    let before = libc::user_regs_struct {
        rax: registers.orig_rax,
        orig_rax: u64::MAX,
        rip: registers.rip.wrapping_sub(SYSCALL_BYTES),
        ..registers
    };
    is_interrupted(&registers) || is_start && ptrace::setregs(thread, before).is_ok()
}

/// Lets the call of a stopped thread continue if the stop has interrupted it. `status`: the stop. A
/// thread that has ended is ignored.
///
/// # Errors
/// [`PtraceError::System`] if the kernel refuses.
pub fn continue_call(status: Status) -> Result<(), PtraceError> {
    match continue_stopped(status) {
        Err(PtraceError::Ended(_)) => Ok(()),
        other => other,
    }
}

fn continue_stopped(status: Status) -> Result<(), PtraceError> {
    let thread = match status {
        Status::Stopped(thread, signal) if !stops(signal.0) => thread,
        Status::Event(thread, signal, libc::PTRACE_EVENT_STOP) if signal == Signal::SIGTRAP => {
            thread
        }
        _ => return Ok(()),
    };
    let registers =
        ptrace::getregs(thread).map_err(PtraceError::new(thread, "read its registers"))?;
    let time_out = wait_of(&registers).filter(|_| is_interrupted(&registers));
    let Some(time_out) = time_out.and_then(|wait| wait.time_out(thread)) else {
        return Ok(());
    };
    let has_marks = registers.eflags & (ZERO | PARITY) == ZERO;
    let result = match time_out.after {
        Some(after) if first_stop(thread, &registers, has_marks).elapsed() >= after => {
            time_out.result
        }
        _ => RESTART_UNLESS_HANDLED,
    };
    let changed = libc::user_regs_struct {
        rax: result.cast_unsigned(),
        eflags: registers.eflags & !PARITY | ZERO,
        ..registers
    };
    ptrace::setregs(thread, changed).map_err(PtraceError::new(thread, "set its registers"))
}

/// Whether a signal stops the process of a thread. After such a signal, calls fail in a plain run,
/// too.
fn stops(signal: i32) -> bool {
    let stops = [libc::SIGSTOP, libc::SIGTSTP, libc::SIGTTIN, libc::SIGTTOU];
    // A stop at a system call looks like a signal.
    signal > libc::SIGRTMAX() || stops.contains(&signal)
}

/// Time at which a thread was first stopped in its call. `is_same`: whether the thread has executed
/// no instruction since the last stop.
fn first_stop(thread: Pid, registers: &libc::user_regs_struct, is_same: bool) -> Instant {
    let key = [
        registers.orig_rax,
        registers.rdi,
        registers.rsi,
        registers.rdx,
        registers.r10,
        registers.r8,
        registers.r9,
        registers.rip,
        registers.rsp,
    ];
    STOPPED.with_borrow_mut(|stopped| {
        if stopped.len() >= MOST {
            stopped.clear();
        }
        let now = Instant::now();
        match stopped.get(&thread) {
            Some((known, first)) if is_same && *known == key => *first,
            _ => {
                stopped.insert(thread, (key, now));
                now
            }
        }
    })
}

/// Position of the time-out of a call that the kernel never makes again by itself. The last field
/// of a variant is the result at the time-out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wait {
    /// The call has no time-out.
    Endless,
    /// The time-out is this number of milliseconds; negative for none.
    Milliseconds(u64, i64),
    /// The time-out is stored at this address, as seconds and nanoseconds; address 0 for none.
    Time(u64, i64),
    /// The address of the time-out is stored at this address.
    TimeAt(u64, i64),
    /// The time-out is this option of the socket with this descriptor.
    Socket(u64, libc::c_int, i64),
}

/// The time-out of the call that a thread is in. `None` for calls that the kernel makes again by
/// itself, and for calls that fail with EINTR for other reasons.
fn wait_of(registers: &libc::user_regs_struct) -> Option<Wait> {
    let again = -i64::from(libc::EAGAIN);
    Some(match registers.orig_rax.cast_signed() {
        libc::SYS_epoll_wait | libc::SYS_epoll_pwait => Wait::Milliseconds(registers.r10, 0),
        libc::SYS_epoll_pwait2 => Wait::Time(registers.r10, 0),
        libc::SYS_rt_sigtimedwait => Wait::Time(registers.rdx, again),
        libc::SYS_semop => Wait::Endless,
        libc::SYS_semtimedop => Wait::Time(registers.r10, again),
        libc::SYS_io_getevents | IO_PGETEVENTS => Wait::Time(registers.r8, 0),
        libc::SYS_io_uring_enter if registers.r10 & EXTENDED == 0 || registers.r8 == 0 => {
            Wait::Endless
        }
        libc::SYS_io_uring_enter => {
            Wait::TimeAt(registers.r8.wrapping_add(EXTENDED_TIME_AT), -i64::from(libc::ETIME))
        }
        libc::SYS_read
        | libc::SYS_readv
        | libc::SYS_recvfrom
        | libc::SYS_recvmsg
        | libc::SYS_recvmmsg
        | libc::SYS_accept
        | libc::SYS_accept4 => Wait::Socket(registers.rdi, libc::SO_RCVTIMEO, again),
        libc::SYS_write
        | libc::SYS_writev
        | libc::SYS_sendto
        | libc::SYS_sendmsg
        | libc::SYS_sendmmsg => Wait::Socket(registers.rdi, libc::SO_SNDTIMEO, again),
        libc::SYS_connect => {
            Wait::Socket(registers.rdi, libc::SO_SNDTIMEO, -i64::from(libc::EINPROGRESS))
        }
        _ => return None,
    })
}

impl Wait {
    /// Reads the time-out for a stopped thread. `None` if it cannot be read.
    fn time_out(self, thread: Pid) -> Option<TimeOut> {
        let words = |at: u64| {
            let mut bytes = [0; 16];
            let memory = RunningMemory::open(thread).ok()?;
            memory.read(RunAddr(at), &mut bytes).ok()?;
            Some([0, 1].map(|word: usize| u64::from_le_bytes(bytes.as_chunks().0[word])))
        };
        let time = |at: u64| {
            let [seconds, nanoseconds] = words(at)?;
            let time = Duration::from_secs(seconds);
            Some(time.checked_add(Duration::from_nanos(nanoseconds)).unwrap_or(Duration::MAX))
        };
        let (after, result) = match self {
            Wait::Endless | Wait::Time(0, _) => (None, 0),
            Wait::Milliseconds(time, result) => {
                let time = u64::try_from(time as i32).ok();
                (time.map(Duration::from_millis), result)
            }
            Wait::Time(at, result) => (Some(time(at)?), result),
            Wait::TimeAt(at, result) => match words(at)?[0] {
                0 => (None, 0),
                at => (Some(time(at)?), result),
            },
            Wait::Socket(descriptor, option, result) => {
                (Some(socket_time(thread, descriptor, option)?), result)
            }
        };
        Some(TimeOut { after, result })
    }
}

/// Reads a time-out of a socket of a stopped thread. `None` if the socket has none, or the
/// descriptor is no socket.
fn socket_time(thread: Pid, descriptor: u64, option: libc::c_int) -> Option<Duration> {
    let descriptor = descriptor as u32 as libc::c_int;
    let link = std::fs::read_link(format!("/proc/{thread}/fd/{descriptor}")).ok()?;
    if !link.to_string_lossy().starts_with("socket:") {
        return None;
    }
    let process = super::thread_group(thread).unwrap_or(thread);
    let open = |number: libc::c_long, first: libc::c_int, second: libc::c_int| {
        // SAFETY: both calls take numbers only, and return a new descriptor.
        let result = Errno::result(unsafe { libc::syscall(number, first, second, 0) }).ok()?;
        // SAFETY: the descriptor is new, and nobody else has it.
        Some(unsafe { OwnedFd::from_raw_fd(result as libc::c_int) })
    };
    let process = open(libc::SYS_pidfd_open, process.as_raw(), 0)?;
    let socket = open(libc::SYS_pidfd_getfd, process.as_raw_fd(), descriptor)?;
    let mut time = libc::timeval { tv_sec: 0, tv_usec: 0 };
    let mut bytes = size_of::<libc::timeval>() as libc::socklen_t;
    // SAFETY: the kernel writes at most so many bytes to a structure that outlives the call.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            option,
            (&raw mut time).cast(),
            &raw mut bytes,
        )
    };
    let seconds = u64::try_from(time.tv_sec).ok()?;
    let time = Duration::from_secs(seconds)
        .checked_add(Duration::from_micros(u64::try_from(time.tv_usec).ok()?))?;
    (result == 0 && !time.is_zero()).then_some(time)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn registers(number: i64, rax: i64) -> libc::user_regs_struct {
        // SAFETY: a structure of numbers.
        let zero: libc::user_regs_struct = unsafe { std::mem::zeroed() };
        let (orig_rax, rax) = (number.cast_unsigned(), rax.cast_unsigned());
        libc::user_regs_struct { orig_rax, rax, ..zero }
    }

    #[test]
    fn only_calls_that_the_kernel_does_not_make_again_are_interrupted() {
        let failed = -i64::from(libc::EINTR);
        assert!(is_interrupted(&registers(libc::SYS_epoll_wait, failed)));
        assert!(!is_interrupted(&registers(libc::SYS_epoll_wait, RESTART_UNLESS_HANDLED)));
        assert!(!is_interrupted(&registers(libc::SYS_epoll_wait, 1)));
        // The descriptor is closed although it fails.
        assert!(!is_interrupted(&registers(libc::SYS_close, failed)));
        assert!(!is_interrupted(&registers(-1, failed)));
    }

    #[test]
    fn the_time_since_the_first_stop_counts_for_the_same_call_only() {
        let thread = Pid::from_raw(i32::MAX);
        let wait = registers(libc::SYS_epoll_wait, 0);
        let first = first_stop(thread, &wait, false);
        assert_eq!(first_stop(thread, &wait, true), first);
        let other = libc::user_regs_struct { rsp: 8, ..wait };
        assert_ne!(first_stop(thread, &other, true), first);
        assert_ne!(first_stop(thread, &wait, false), first);
    }

    #[test]
    fn negative_milliseconds_never_end() {
        let after = |time: i32| {
            let wait = Wait::Milliseconds(time as u32 as u64, 0);
            wait.time_out(Pid::this()).unwrap().after
        };
        assert_eq!(after(-1), None);
        assert_eq!(after(1500), Some(Duration::from_millis(1500)));
    }
}
