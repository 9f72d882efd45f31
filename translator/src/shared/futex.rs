//! Waits for threads, and wakes them, through words of shared memory (futex(2)).

use std::sync::atomic::AtomicU32;
use std::time::Duration;

/// Waits while a word has a value, until the thread is woken or the time is over. May also return
/// early.
pub fn wait(word: &AtomicU32, value: u32, at_most: Duration) {
    let timeout = libc::timespec {
        tv_sec: at_most.as_secs() as i64,
        tv_nsec: i64::from(at_most.subsec_nanos()),
    };
    // SAFETY: the kernel reads a word and a time that outlive the call.
    unsafe {
        let (word, timeout) = (word.as_ptr(), &raw const timeout);
        libc::syscall(libc::SYS_futex, word, libc::FUTEX_WAIT, value, timeout, 0, 0);
    }
}

/// Wakes all threads that wait for a word, of all processes that map it.
pub fn wake(word: &AtomicU32) {
    // SAFETY: the kernel uses the address of the word only.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAKE, i32::MAX, 0, 0, 0) };
}
