//! Blocks signals for a command that runs a program, and ends the command as the program has ended.

use nix::errno::Errno;
use nix::sys::signal::{SigSet, Signal};

use super::SignalNumber;

/// Offset that a shell adds to a signal's number to form an exit status.
const BY_SIGNAL: i32 = 128;

/// Blocks the signals that end following a program, and the signals of the program itself; both are
/// waited for instead. Returns the former signals. Programs that [`launch`](super::launch()) starts
/// do not inherit this mask.
///
/// # Errors
/// The error of setting the signal mask.
pub fn block_signals() -> Result<SigSet, Errno> {
    let mut signals = SigSet::empty();
    [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP]
        .into_iter()
        .for_each(|signal| signals.add(signal));
    let mut blocked = signals;
    blocked.add(Signal::SIGCHLD);
    blocked.thread_block()?;
    Ok(signals)
}

/// Ends this process by the signal that has ended the program. No core dump is written, because the
/// program has written its own.
pub fn end_by(SignalNumber(signal): SignalNumber) -> ! {
    let none = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the limit outlives the call; the other arguments are numbers, and a set that is
    // initialised before it is read. No handler of this process is installed.
    unsafe {
        libc::setrlimit(libc::RLIMIT_CORE, &raw const none);
        libc::prctl(libc::PR_SET_DUMPABLE, 0);
        libc::signal(signal, libc::SIG_DFL);
        let mut set = std::mem::zeroed();
        libc::sigemptyset(&raw mut set);
        libc::sigaddset(&raw mut set, signal);
        libc::pthread_sigmask(libc::SIG_UNBLOCK, &raw const set, std::ptr::null_mut());
        libc::raise(signal);
    }
    std::process::exit(BY_SIGNAL + signal)
}
