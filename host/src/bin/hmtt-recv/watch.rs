//! A running capture to what is shown of it, until it ends.

use std::time::Duration;

use anyhow::Result;
use hmtt_host::receive::{Capture, Outcome};
use hmtt_host::report::capture::write_outcome;

use super::signals::Signals;

/// How long a signal may wait.
const TICK: Duration = Duration::from_millis(20);

/// Comes back when the capture has ended.
pub fn watch(capture: &Capture, signals: &Signals) -> Result<()> {
    while !capture.is_finished() {
        if signals.interrupted() {
            capture.stop();
        }
        if signals.asked()
            && let Some(snapshot) = capture.snapshot()
        {
            let outcome = Outcome::new(snapshot, None);
            write_outcome(&outcome, &mut std::io::stderr().lock())?;
        }
        std::thread::sleep(TICK);
    }
    Ok(())
}
