//! Delivers a signal to a stopped thread, and stops it before the first instruction of the handler.
//!
//! A thread that is resumed with a signal by `PTRACE_SINGLESTEP` stops after the kernel has written
//! the signal frame (Linux, `signal_delivered`). No instruction has been executed, and if the
//! tracer dies, the thread simply continues. If the signal has no handler, the thread executes one
//! instruction instead; therefore the disposition is checked first.

use nix::errno::Errno;
use nix::sys::ptrace;
use nix::sys::signal::Signal;
use nix::unistd::Pid;

use super::seccomp;
use super::wait::{Waited, restart_thread, wait_for_stop};
use super::{Process, PtraceError, SignalNumber, Status, StopState, Stopped};
use crate::address::RunAddr;

/// `si_code` of the stop after a written signal frame (Linux, `ptrace_notify`, `send_sigtrap`).
const FRAME_WRITTEN: i32 = libc::SIGTRAP;
/// Offset of the fault address in `siginfo_t`.
const ADDRESS_AT: usize = 16;

/// The effect of a signal on a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Disposition {
    /// A handler is called.
    Caught,
    /// The process ends.
    Fatal,
    /// The signal is ignored, or stops or continues the process.
    Harmless,
}

/// Whether a signal is in a set of the `status` file (proc(5)). `set`: name of the set, such as
/// `SigCgt:`.
fn has(text: &str, set: &str, signal: SignalNumber) -> bool {
    let set = text.lines().find_map(|line| line.strip_prefix(set));
    let set = set.and_then(|set| u64::from_str_radix(set.trim(), 16).ok());
    set.is_some_and(|set| set >> (signal.0 - 1) & 1 != 0)
}

impl Process {
    /// The effect that a signal would have on a thread. The disposition is read from the kernel
    /// each time, because threads change it without a stop.
    pub fn disposition(&mut self, thread: Pid, signal: SignalNumber) -> Disposition {
        let text = self.status.read(thread).unwrap_or_default();
        let harmless = [
            Signal::SIGCHLD,
            Signal::SIGCONT,
            Signal::SIGURG,
            Signal::SIGWINCH,
            Signal::SIGSTOP,
            Signal::SIGTSTP,
            Signal::SIGTTIN,
            Signal::SIGTTOU,
        ];
        let is_ignored = has(&text, "SigIgn:", signal);
        if has(&text, "SigCgt:", signal) {
            Disposition::Caught
        } else if text.is_empty() || is_ignored || harmless.iter().any(|known| signal == *known) {
            Disposition::Harmless
        } else {
            Disposition::Fatal
        }
    }

    /// Makes an interrupted system call restart without `restart_syscall`, which seccomp filters
    /// may forbid. If the signal has a handler, the kernel does not restart the call, and nothing
    /// is changed.
    ///
    /// # Errors
    /// [`PtraceError`] if the kernel refuses, or if the thread or process has ended.
    pub fn avoid_restart_syscall(
        &mut self,
        thread: Pid,
        signal: SignalNumber,
        registers: &libc::user_regs_struct,
    ) -> Result<(), PtraceError> {
        if registers.rax != seccomp::RESTART_BLOCK {
            return Ok(());
        }
        let text = self.status.read(thread).map_err(|_| PtraceError::Ended(thread))?;
        if has(&text, "SigCgt:", signal) {
            return Ok(());
        }
        seccomp::avoid_restart_syscall(thread, self.risk_policy.known_filters)
    }
}

/// Result of delivering a signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delivery {
    /// The thread is stopped before its handler's first instruction. Its stack pointer is the
    /// address of the signal frame.
    Entered,
    /// The thread is stopped, but the signal had no handler any more.
    NotEntered,
    /// The thread has stopped because of another event.
    OtherEvent(Status),
    /// The thread has ended. Its status is reported by another wait.
    Ended,
}

/// Delivers a pending signal that has a handler, and waits until the thread stops again.
///
/// # Errors
/// [`PtraceError`] if the kernel refuses, or if the thread or process has ended.
pub fn enter_handler(thread: Pid, signal: SignalNumber) -> Result<Delivery, PtraceError> {
    let failed = PtraceError::new(thread, "deliver a signal");
    match restart_thread(libc::PTRACE_SINGLESTEP, thread, Some(signal)) {
        Err(Errno::ESRCH) => return Ok(Delivery::Ended),
        other => other.map_err(&failed)?,
    }
    let waited = loop {
        match wait_for_stop(thread) {
            Err(Errno::EINTR) => {}
            Err(Errno::ECHILD | Errno::ESRCH) => return Ok(Delivery::Ended),
            waited => break waited.map_err(&failed)?,
        }
    };
    Ok(match waited {
        Waited::Dead => Delivery::Ended,
        Waited::Unstopped => return Err(PtraceError::Unstopped(thread)),
        Waited::Status(status @ Status::Stopped(_, stopped)) if stopped == Signal::SIGTRAP => {
            match ptrace::getsiginfo(thread).map_err(&failed)?.si_code {
                FRAME_WRITTEN => Delivery::Entered,
                libc::TRAP_TRACE => Delivery::NotEntered,
                _ => Delivery::OtherEvent(status),
            }
        }
        Waited::Status(status) => Delivery::OtherEvent(status),
    })
}

impl Stopped<'_> {
    /// Delivers the pending signals of stopped threads that have handlers. The threads stop again
    /// before their handlers' first instructions.
    ///
    /// Without this, a thread that makes an injected system call, for which all signals are
    /// blocked, would get its pending signal later. The kernel queues the signal again, behind
    /// signals that were sent meanwhile. If a signal of the same timer is already in the queue, the
    /// kernel drops it, with the count of its expirations (Linux, `ptrace_signal`, `legacy_queue`).
    ///
    /// Threads in memory that was added to the process (`is_added`) are left alone: their handlers
    /// would see addresses in that memory.
    ///
    /// # Errors
    /// [`PtraceError`] if the kernel refuses, or if the process has ended.
    pub fn enter_handlers(
        &mut self,
        is_added: impl Fn(RunAddr) -> bool,
    ) -> Result<(), PtraceError> {
        let pending =
            self.threads.iter().filter_map(|(thread, state)| Some((*thread, state.signal()?)));
        // A trap may be caused by this program.
        let pending: Vec<_> = pending.filter(|(_, signal)| *signal != Signal::SIGTRAP).collect();
        for (thread, signal) in pending {
            let is_caught = self.process.disposition(thread, signal) == Disposition::Caught;
            if !is_caught || is_added(RunAddr(self.registers(thread)?.rip)) {
                continue;
            }
            self.process.signal_frames.get_mut().forget_frames();
            match enter_handler(thread, signal)? {
                Delivery::Entered | Delivery::NotEntered => {
                    self.process.threads.insert(thread, StopState::AtInstruction);
                }
                Delivery::OtherEvent(
                    stop @ (Status::Stopped(..) | Status::Event(_, _, libc::PTRACE_EVENT_STOP)),
                ) => {
                    self.process.threads.insert(thread, StopState::reported(stop));
                }
                Delivery::OtherEvent(status) => {
                    self.process.threads.remove(&thread);
                    self.process.queued_events.push(status);
                }
                Delivery::Ended => drop(self.process.threads.remove(&thread)),
            }
        }
        if self.threads.is_empty() { Err(PtraceError::Ended(self.pid)) } else { Ok(()) }
    }
}

/// The `si_code` of the pending signal of a thread. It shows what has raised the signal
/// (sigaction(2)).
///
/// # Errors
/// [`PtraceError`] if the kernel refuses, or if the thread or process has ended.
pub fn signal_code(thread: Pid) -> Result<i32, PtraceError> {
    let failed = PtraceError::new(thread, "read the information of a signal");
    Ok(ptrace::getsiginfo(thread).map_err(failed)?.si_code)
}

/// Queue of pending signals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PendingIn {
    /// Queue of signals that were sent to a thread.
    Thread,
    /// Queue of signals that were sent to the process of a thread.
    Process,
}

/// Maximum number of signals that are read from a queue. Signals behind them are not seen.
const SIGNALS: usize = 64;
/// `PTRACE_PEEKSIGINFO` and `PTRACE_PEEKSIGINFO_SHARED` (ptrace(2)).
const PEEK: libc::c_uint = 0x4209;
const SHARED: u32 = 1;

/// Arguments of `PTRACE_PEEKSIGINFO`.
#[repr(C)]
struct Peek {
    from: u64,
    flags: u32,
    count: i32,
}

/// The first 64 pending signals in a queue of a stopped thread, with the `si_code` of each.
///
/// # Errors
/// [`PtraceError`] if the kernel refuses, or if the thread or process has ended.
pub fn pending_signals(
    thread: Pid,
    place: PendingIn,
) -> Result<Vec<(SignalNumber, i32)>, PtraceError> {
    let flags = if place == PendingIn::Process { SHARED } else { 0 };
    let peek = Peek { from: 0, flags, count: SIGNALS as i32 };
    // SAFETY: the structure consists of integers and addresses only.
    let mut signals: [libc::siginfo_t; SIGNALS] = unsafe { std::mem::zeroed() };
    // SAFETY: the kernel reads one structure, and writes at most as many as are asked for to an
    // array that outlives the call.
    let result =
        unsafe { libc::ptrace(PEEK, thread.as_raw(), &raw const peek, signals.as_mut_ptr()) };
    let count = Errno::result(result);
    let count = count.map_err(PtraceError::new(thread, "read its pending signals"))?;
    let signals = signals.iter().take(count as usize);
    Ok(signals.map(|info| (SignalNumber(info.si_signo), info.si_code)).collect())
}

/// Replaces the fault address in the siginfo of a pending signal. Returns whether an instruction
/// has raised the signal.
///
/// # Errors
/// [`PtraceError`] if the kernel refuses, or if the thread or process has ended.
pub fn replace_fault_address(
    thread: Pid,
    signal: SignalNumber,
    replacement: impl Fn(RunAddr) -> Option<RunAddr>,
) -> Result<bool, PtraceError> {
    let faults =
        [libc::SIGSEGV, libc::SIGBUS, libc::SIGILL, libc::SIGFPE, libc::SIGTRAP, libc::SIGSYS];
    if !faults.contains(&signal.0) {
        return Ok(false);
    }
    let failed = PtraceError::new(thread, "read the information of a signal");
    let mut info = ptrace::getsiginfo(thread).map_err(&failed)?;
    // In a signal that was sent, the field is no address.
    if info.si_code <= 0 || info.si_signo != signal.0 {
        return Ok(false);
    }
    let place = (&raw mut info).cast::<u8>();
    // SAFETY: a siginfo_t has 128 bytes, and contains an address there for these signals.
    let address = unsafe { place.add(ADDRESS_AT).cast::<u64>().read_unaligned() };
    let address = RunAddr(address);
    if let Some(new) = replacement(address) {
        // SAFETY: as above.
        unsafe { place.add(ADDRESS_AT).cast::<u64>().write_unaligned(new.0) };
        ptrace::setsiginfo(thread, &info).map_err(&failed)?;
    }
    Ok(true)
}
