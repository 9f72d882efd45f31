//! Ends this program's waits for threads that do not stop, when signals ask for that.
//!
//! A thread that waits in the kernel where no signal interrupts it cannot be stopped: for a file
//! system that does not answer, or for a child that vfork(2) has started. Signals that ask this
//! program to end are blocked, and handled between events, so such a wait would outlast them all.
//!
//! | state | what ends |
//! |---|---|
//! | a thread is waited for longer than [`LEAST`], and a signal is pending | that wait, and after it each wait that lasts longer than [`SHORT`] |
//! | [`LEAST`] after a first signal was handled, another one is pending | the same |
//! | [`REST`] after that | this program, whatever it waits for |
//!
//! Invariant: a traced program goes on correctly when this program ends at any moment, as when it
//! is killed.

use std::io::Write;
use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use nix::sys::signal::{SigSet, Signal};

/// How long a thread that does not stop is waited for in any case, and the time between two signals
/// that end this program.
pub(super) const LEAST: Duration = Duration::from_secs(2);
/// How long a thread is waited for once waits are given up.
const SHORT: Duration = Duration::from_millis(20);
/// Time in which this program ends by itself once waits are given up.
const REST: Duration = Duration::from_secs(3);
/// How often is checked whether a signal is pending.
const PAUSE: Duration = Duration::from_millis(20);
/// Exit status of a command whose results are not complete.
const INCOMPLETE: i32 = 3;

/// Whether waits are given up.
static IS_GIVEN_UP: AtomicBool = AtomicBool::new(false);

/// Whether a signal that asks this program to end has arrived; it is blocked, so that it is handled
/// in order later.
pub fn is_asked_to_end() -> bool {
    let mut pending = SigSet::empty();
    // SAFETY: the kernel writes a set, and nothing else.
    let is_known = unsafe { libc::sigpending((&raw mut pending).cast()) } == 0;
    let ends = [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP];
    is_known && ends.into_iter().any(|signal| pending.contains(signal))
}

/// Whether a wait for a thread that has lasted so long is to end.
pub fn is_given_up(waited: Duration) -> bool {
    if waited >= LEAST && is_asked_to_end() {
        IS_GIVEN_UP.store(true, Ordering::SeqCst);
    }
    waited >= SHORT && IS_GIVEN_UP.load(Ordering::SeqCst)
}

/// A signal has asked this program to end: from now on another one ends its waits.
pub(super) fn begin() {
    static STARTED: Once = Once::new();
    // Without the thread, only long waits for threads end.
    STARTED.call_once(|| drop(std::thread::Builder::new().name("escape".to_owned()).spawn(watch)));
}

/// Waits for another signal, which stays pending, and ends this program if it does not end by
/// itself.
fn watch() {
    let begin = Instant::now();
    while begin.elapsed() < LEAST || !is_asked_to_end() {
        std::thread::sleep(PAUSE);
    }
    IS_GIVEN_UP.store(true, Ordering::SeqCst);
    std::thread::sleep(REST);
    let text = "hmtt: a second signal ends this command before it is done: the program goes on, the results are not \
                complete\n";
    let _ = std::io::stderr().write_all(text.as_bytes());
    // SAFETY: ends this process without exit handlers, which might wait for other threads.
    unsafe { libc::_exit(INCOMPLETE) }
}
