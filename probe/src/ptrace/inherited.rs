//! Records the signal and stream settings that this process was started with, and restores them in
//! children.
//!
//! A program that is started gets the same signal mask, ignored signals and closed standard streams
//! as if this process were not in between. Rust's runtime ignores `SIGPIPE` and opens `/dev/null`
//! for closed streams before `main`. Therefore the settings are recorded earlier, by a function
//! that the dynamic linker calls.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use nix::errno::Errno;

/// Signals whose disposition this process or the Rust runtime changes to ignored.
const CHANGED: [libc::c_int; 2] = [libc::SIGPIPE, libc::SIGXFSZ];
/// Bytes of a signal set, as the kernel defines it.
const SIGNAL_SET_BYTES: usize = 8;

/// Whether the settings have been recorded.
static IS_RECORDED: AtomicBool = AtomicBool::new(false);
/// The signal mask that this process was started with.
static MASK: AtomicU64 = AtomicU64::new(0);
/// Signals that were ignored: one bit for each signal number.
static IGNORED: AtomicU64 = AtomicU64::new(0);
/// Standard streams that were closed: one bit for each descriptor.
static CLOSED: AtomicU32 = AtomicU32::new(0);

#[used]
// SAFETY: functions in this section are called once, before `main`, when only the C library is
// initialized. This one makes system calls and stores numbers.
#[unsafe(link_section = ".init_array")]
static RECORD: extern "C" fn() = record;

extern "C" fn record() {
    let mut mask = 0u64;
    // SAFETY: the kernel writes a set of this size, and changes nothing without a new set.
    unsafe {
        let (how, none) = (libc::SIG_SETMASK, std::ptr::null::<u64>());
        libc::syscall(libc::SYS_rt_sigprocmask, how, none, &raw mut mask, SIGNAL_SET_BYTES);
    }
    MASK.store(mask, Ordering::Relaxed);
    for signal in CHANGED {
        // SAFETY: the C library writes to a structure that outlives the call.
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
        // SAFETY: only reads the flags of a descriptor.
        if unsafe { libc::fcntl(stream, libc::F_GETFD) } == -1 {
            CLOSED.fetch_or(1 << stream, Ordering::Relaxed);
        }
    }
    IS_RECORDED.store(true, Ordering::Relaxed);
}

/// Makes writes beyond the file size limit (`ulimit -f`) fail with an error instead of ending the
/// process.
pub fn ignore_file_size_signal() {
    // SAFETY: no handler is set.
    unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
}

/// Restores the recorded settings in a new process. The caller is between `fork` and `exec`, so
/// this function makes system calls only.
///
/// # Errors
/// The error of setting the signal mask.
pub(super) fn restore() -> Result<(), Errno> {
    let ignored = IGNORED.load(Ordering::Relaxed);
    for signal in CHANGED {
        let action = if ignored >> signal & 1 == 1 { libc::SIG_IGN } else { libc::SIG_DFL };
        // SAFETY: no handler is set.
        unsafe { libc::signal(signal, action) };
    }
    let closed = CLOSED.load(Ordering::Relaxed);
    for stream in (0..3).filter(|stream| closed >> stream & 1 == 1) {
        // SAFETY: the runtime has opened this stream, and nothing in this process uses it.
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
    fn settings_are_recorded_before_main() {
        assert!(IS_RECORDED.load(Ordering::Relaxed));
        // The runtime has ignored the signal only after that.
        assert_eq!(IGNORED.load(Ordering::Relaxed) >> libc::SIGXFSZ & 1, 0);
    }
}
