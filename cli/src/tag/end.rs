//! How a program ends to how we end: the same way, so that whoever started us sees what he would without us.

use anyhow::Result;
use hmtt_probe::control::{Ending, Tagged};
use hmtt_probe::ptrace::{SignalNumber, wait_for_end};

/// What a shell adds to the number of a signal.
const BY_SIGNAL: i32 = 128;

/// How the program has ended; one that goes on has not failed.
pub enum End {
    Status(i32),
    Signal(SignalNumber),
}

/// Leaves the program.
pub fn leave(tagged: Tagged, ending: Ending) -> Result<End> {
    Ok(match ending {
        Ending::Detached => {
            super::tell_restored(&tagged.restore()?, "");
            End::Status(0)
        }
        // One that it has become is waited for, if it is our child.
        Ending::Replaced => match wait_for_end(tagged.release()?) {
            Some(Ok(code)) => End::Status(code),
            Some(Err(signal)) => End::Signal(signal),
            None => End::Status(0),
        },
        Ending::Exited(code) => End::Status(code),
        Ending::Signaled(signal) => End::Signal(signal),
    })
}

impl End {
    /// Ends as the program did. Comes back if it has not failed, and we have not either.
    pub fn follow(self, has_failed: bool) {
        match self {
            End::Status(0) if has_failed => std::process::exit(1),
            End::Status(0) => {}
            End::Status(code) => std::process::exit(code),
            End::Signal(signal) => {
                eprintln!("hmtt: the program was ended by {signal}");
                end_by(signal.0);
                std::process::exit(BY_SIGNAL + signal.0)
            }
        }
    }
}

/// Ends us by a signal, without a core dump: that of the program is there.
fn end_by(signal: i32) {
    let none = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: a limit that outlives the call; numbers, and a set that is filled before it is read. No handler of
    // ours is set.
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
}
