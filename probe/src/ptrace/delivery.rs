//! Delivers a signal to a stopped thread up to the first instruction of the handler.
//!
//! A thread that is continued with a signal by `PTRACE_SINGLESTEP` stops when the kernel has written the signal
//! frame (Linux, `signal_delivered`): no instruction is executed, and if the tracer dies the thread simply goes on.
//! If the signal has no handler, one instruction is executed: so it is looked up before whether it has one.

use nix::errno::Errno;
use nix::sys::ptrace;
use nix::sys::signal::Signal;
use nix::unistd::Pid;

use super::seccomp;
use super::wait::{resume, wait_unless_dead};
use super::{Process, PtraceError, SignalNumber, Status};

/// `si_code` of a stop behind a written frame, and behind a step (Linux, `ptrace_notify`, `send_sigtrap`).
const FRAME_WRITTEN: i32 = libc::SIGTRAP;
/// Where in `siginfo_t` the address of a fault is.
const ADDRESS_AT: usize = 16;

/// What a signal does to a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Disposition {
    /// It has a handler.
    Caught,
    /// It ends the process.
    Fatal,
    /// It is ignored, or stops or continues the process.
    Harmless,
}

/// Whether a set of signals in the text of `status` (proc(5)) has a signal.
fn has(text: &str, set: &str, signal: SignalNumber) -> bool {
    let set = text.lines().find_map(|line| line.strip_prefix(set));
    let set = set.and_then(|set| u64::from_str_radix(set.trim(), 16).ok());
    set.is_some_and(|set| set >> (signal.0 - 1) & 1 != 0)
}

impl Process {
    /// What a signal that a thread is about to get will do. It is read each time: threads change it without a stop.
    pub(crate) fn disposition(&mut self, thread: Pid, signal: SignalNumber) -> Disposition {
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
        } else if text.is_empty() || is_ignored || harmless.iter().any(|one| signal == *one) {
            Disposition::Harmless
        } else {
            Disposition::Fatal
        }
    }

    /// Lets a thread that is about to get a signal make its call again without one that filters may forbid, unless
    /// the signal has a handler: then the call ends.
    pub(crate) fn spare(
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
        seccomp::spare_restart(thread, self.treatment.known_filters)
    }
}

/// What has come of a delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Delivery {
    /// The thread is stopped before its handler's first instruction; its stack pointer is the signal frame.
    Entered,
    /// The thread is stopped; the signal has no handler any more.
    NotEntered,
    /// Something else has happened to the thread before.
    Heard(Status),
    /// The thread has ended, which is heard elsewhere.
    Ended,
}

/// Delivers a signal that a thread is about to get, and that is caught.
pub(crate) fn enter_handler(thread: Pid, signal: SignalNumber) -> Result<Delivery, PtraceError> {
    let failed = PtraceError::new(thread, "deliver a signal");
    match resume(libc::PTRACE_SINGLESTEP, thread, Some(signal)) {
        Err(Errno::ESRCH) => return Ok(Delivery::Ended),
        other => other.map_err(&failed)?,
    }
    let status = loop {
        match wait_unless_dead(thread) {
            Err(Errno::EINTR) => {}
            Err(Errno::ECHILD | Errno::ESRCH) => return Ok(Delivery::Ended),
            status => break status.map_err(&failed)?,
        }
    };
    Ok(match status {
        None => Delivery::Ended,
        Some(status @ Status::Stopped(_, stopped)) if stopped == Signal::SIGTRAP => {
            match ptrace::getsiginfo(thread).map_err(&failed)?.si_code {
                FRAME_WRITTEN => Delivery::Entered,
                libc::TRAP_TRACE => Delivery::NotEntered,
                _ => Delivery::Heard(status),
            }
        }
        Some(status) => Delivery::Heard(status),
    })
}

/// Replaces the address that a fault's siginfo names, of a signal that a thread is about to get. Whether the
/// signal is one that an instruction has raised.
pub(crate) fn replace_fault_address(
    thread: Pid,
    signal: SignalNumber,
    replacement: impl Fn(u64) -> Option<u64>,
) -> Result<bool, PtraceError> {
    let faults =
        [libc::SIGSEGV, libc::SIGBUS, libc::SIGILL, libc::SIGFPE, libc::SIGTRAP, libc::SIGSYS];
    if !faults.contains(&signal.0) {
        return Ok(false);
    }
    let failed = PtraceError::new(thread, "read what a signal says");
    let mut info = ptrace::getsiginfo(thread).map_err(&failed)?;
    // What others have sent has another meaning there.
    if info.si_code <= 0 || info.si_signo != signal.0 {
        return Ok(false);
    }
    let place = (&raw mut info).cast::<u8>();
    // SAFETY: a siginfo_t has 128 bytes, and an address there for these signals.
    let address = unsafe { place.add(ADDRESS_AT).cast::<u64>().read_unaligned() };
    if let Some(new) = replacement(address) {
        // SAFETY: the same place.
        unsafe { place.add(ADDRESS_AT).cast::<u64>().write_unaligned(new) };
        ptrace::setsiginfo(thread, &info).map_err(&failed)?;
    }
    Ok(true)
}
