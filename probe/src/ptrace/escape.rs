//! Ends this program's waits for threads that do not stop, when signals ask the program to end.
//!
//! Some threads cannot be stopped, because they wait in the kernel where no signal interrupts them:
//! for a file system that does not answer, or for a child that vfork(2) has started. Signals that
//! ask this program to end are blocked, and handled between events. So without further measures
//! such a wait would go on whatever signals arrive.
//!
//! | state | what ends |
//! |---|---|
//! | a thread is waited for longer than [`LEAST`], and a signal is pending | that wait, and after it each wait that lasts longer than [`SHORT`] |
//! | [`LEAST`] after a first signal was handled, another signal is pending | the same |
//! | [`REST`] after that | this program, whatever it waits for |
//!
//! Invariant: a traced program continues correctly when this program ends at any moment, in the
//! same way as when this program is killed.

use std::io::Write;
use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use nix::sys::signal::{SigSet, Signal};

/// Minimum time for which a thread that does not stop is waited for. Also the time between two
/// signals that end this program.
pub(super) const LEAST: Duration = Duration::from_secs(2);
/// Time for which a thread is waited for after waits were given up.
const SHORT: Duration = Duration::from_millis(20);
/// Time that this program has to end by itself after waits were given up.
const REST: Duration = Duration::from_secs(3);
/// Interval between checks whether a signal is pending.
const PAUSE: Duration = Duration::from_millis(20);
/// Exit status of a command whose results are not complete.
const INCOMPLETE: i32 = 3;

/// Whether waits are given up: then no wait is longer than [`SHORT`].
static IS_GIVEN_UP: AtomicBool = AtomicBool::new(false);

/// Whether a signal that asks this program to end has arrived. The signal stays pending, because it
/// is blocked, and is handled later in order.
pub fn is_asked_to_end() -> bool {
    let mut pending = SigSet::empty();
    // SAFETY: the kernel writes a set, and nothing else.
    let is_known = unsafe { libc::sigpending((&raw mut pending).cast()) } == 0;
    let ends = [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP];
    is_known && ends.into_iter().any(|signal| pending.contains(signal))
}

/// Whether a wait for a thread that has lasted for the time `waited` is to end.
pub fn is_given_up(waited: Duration) -> bool {
    if waited >= LEAST && is_asked_to_end() {
        IS_GIVEN_UP.store(true, Ordering::SeqCst);
    }
    waited >= SHORT && IS_GIVEN_UP.load(Ordering::SeqCst)
}

/// Records that a signal has asked this program to end. From now on, another signal ends its waits.
pub(super) fn begin() {
    static STARTED: Once = Once::new();
    // If the thread cannot be started, only long waits for threads end.
    STARTED.call_once(|| drop(std::thread::Builder::new().name("escape".to_owned()).spawn(watch)));
}

/// Waits for another signal, which stays pending. Then ends this program if it does not end by
/// itself in time.
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
