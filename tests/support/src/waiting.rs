//! Waits for events in other processes. The time is limited, because a test that waits for ever
//! prints no message.

use std::io::Read as _;
use std::process::Child;
use std::time::{Duration, Instant};

/// Longest time to wait: far more than any test needs, however busy the machine is.
const PATIENCE: Duration = Duration::from_secs(300);
/// Time between two checks.
const PAUSE: Duration = Duration::from_micros(100);

/// Waits until a condition holds. `what`: the condition, in words.
///
/// # Panics
/// If the condition still does not hold after some minutes.
#[track_caller]
pub fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !holds() {
        assert!(begin.elapsed() < PATIENCE, "waited in vain until {what}");
        std::thread::sleep(PAUSE);
    }
}

/// Waits for a condition that a running child makes true. `what`: the condition, in words.
///
/// # Panics
/// If the child ends and the condition does not hold. The message has the child's standard error,
/// if standard error is a pipe. Also panics as [`wait_until`] does.
#[track_caller]
pub fn wait_for(child: &mut Child, what: &str, mut holds: impl FnMut() -> bool) {
    wait_until(what, || {
        let ended = child.try_wait().expect("a child can be waited for");
        // The child may have made the condition true just before its end.
        let holds = holds();
        if let (false, Some(status)) = (holds, ended) {
            let mut error = String::new();
            let _ = child.stderr.as_mut().map(|stderr| stderr.read_to_string(&mut error));
            panic!("it has ended ({status}), and not {what}: {error}");
        }
        holds
    });
}
