//! What this process was started with, before Rust's runtime and we have changed it.
//!
//! A program that we start is to find what it would find without us: the signal mask, which signals are ignored, and
//! which standard streams are closed. The runtime ignores `SIGPIPE` and opens `/dev/null` for closed streams before
//! `main`, so all of it is recorded earlier, by a function that the dynamic linker calls.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use nix::errno::Errno;

/// Signals that we, or the runtime, ignore for ourselves.
const CHANGED: [libc::c_int; 2] = [libc::SIGPIPE, libc::SIGXFSZ];
/// Bytes of a set of signals, as the kernel has them.
const SIGNAL_SET_BYTES: usize = 8;

static IS_RECORDED: AtomicBool = AtomicBool::new(false);
static MASK: AtomicU64 = AtomicU64::new(0);
/// A bit for each signal number that was ignored.
static IGNORED: AtomicU64 = AtomicU64::new(0);
/// A bit for each standard stream that was closed.
static CLOSED: AtomicU32 = AtomicU32::new(0);

#[used]
// SAFETY: functions there are called once, before `main`, with nothing but the C library ready; this one makes system
// calls and stores numbers.
#[unsafe(link_section = ".init_array")]
static RECORD: extern "C" fn() = record;

extern "C" fn record() {
    let mut mask = 0u64;
    // SAFETY: the kernel writes a set of this size, and changes nothing without a new one.
    unsafe {
        let (how, none) = (libc::SIG_SETMASK, std::ptr::null::<u64>());
        libc::syscall(libc::SYS_rt_sigprocmask, how, none, &raw mut mask, SIGNAL_SET_BYTES);
    }
    MASK.store(mask, Ordering::Relaxed);
    for signal in CHANGED {
        // SAFETY: the library writes to a structure that outlives the call.
        let is_ignored = unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            libc::sigaction(signal, std::ptr::null(), &raw mut action) == 0
                && action.sa_sigaction == libc::SIG_IGN
        };
        if is_ignored {
            IGNORED.fetch_or(1 << signal, Ordering::Relaxed);
        }
    }
    for stream in 0..3 {
        // SAFETY: asks for a number.
        if unsafe { libc::fcntl(stream, libc::F_GETFD) } == -1 {
            CLOSED.fetch_or(1 << stream, Ordering::Relaxed);
        }
    }
    IS_RECORDED.store(true, Ordering::Relaxed);
}

/// Lets a file that is too long for a limit (`ulimit -f`) be an error of writing, not our death.
pub fn ignore_file_size_signal() {
    // SAFETY: no handler is set.
    unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
}

/// Gives a new process, which is about to become a program, what it would have without us. To be called between `fork`
/// and `exec`: it makes system calls only.
pub(super) fn restore() -> Result<(), Errno> {
    let ignored = IGNORED.load(Ordering::Relaxed);
    for signal in CHANGED {
        let action = if ignored >> signal & 1 == 1 { libc::SIG_IGN } else { libc::SIG_DFL };
        // SAFETY: no handler is set.
        unsafe { libc::signal(signal, action) };
    }
    let closed = CLOSED.load(Ordering::Relaxed);
    for stream in (0..3).filter(|stream| closed >> stream & 1 == 1) {
        // SAFETY: what the runtime has opened there is used by nobody in this process any more.
        unsafe { libc::close(stream) };
    }
    let mask = MASK.load(Ordering::Relaxed);
    // SAFETY: the kernel reads a set of this size.
    let set = unsafe {
        let (how, none) = (libc::SIG_SETMASK, std::ptr::null_mut::<u64>());
        libc::syscall(libc::SYS_rt_sigprocmask, how, &raw const mask, none, SIGNAL_SET_BYTES)
    };
    Errno::result(set).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_recorded_before_main() {
        assert!(IS_RECORDED.load(Ordering::Relaxed));
        // The runtime has ignored it since.
        assert_eq!(IGNORED.load(Ordering::Relaxed) >> libc::SIGXFSZ & 1, 0);
    }
}
