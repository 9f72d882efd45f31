//! Ends this command in the same way as the traced program, so that the caller sees the program's
//! own status.

use anyhow::Result;
use hmtt_probe::control::{Ending, Tagged};
use hmtt_probe::ptrace::{SignalNumber, end_by, wait_for_end};

use super::warnings;

/// The end of a traced program. A program that continues counts as a success.
pub enum End {
    Status(i32),
    Signal(SignalNumber),
}

/// Removes the tags and detaches from the program.
pub fn leave(tagged: Tagged, ending: Ending) -> Result<End> {
    match ending {
        Ending::Detached => warnings::print_restored(&tagged.restore()?, ""),
        Ending::Replaced => return wait_for_replacement(tagged),
        Ending::Exited(_) | Ending::Signaled(_) => {}
    }
    Ok(End::from_ending(ending))
}

/// Releases a process that has executed another program. If the process is a child of this process,
/// waits until the other program has ended.
pub fn wait_for_replacement(tagged: Tagged) -> Result<End> {
    Ok(match wait_for_end(tagged.release()?) {
        Some(Ok(code)) => End::Status(code),
        Some(Err(signal)) => End::Signal(signal),
        None => End::Status(0),
    })
}

impl End {
    /// Converts the end of tagging to the end of the program.
    pub fn from_ending(ending: Ending) -> Self {
        match ending {
            Ending::Exited(code) => End::Status(code),
            Ending::Signaled(signal) => End::Signal(signal),
            Ending::Detached | Ending::Replaced => End::Status(0),
        }
    }

    /// Ends this process with the program's exit status or signal. Returns if neither the program
    /// nor this command has failed. `has_failed`: whether this command has failed.
    pub fn exit_if_failed(self, has_failed: bool) {
        match self {
            End::Status(0) if has_failed => std::process::exit(1),
            End::Status(0) => {}
            End::Status(code) => std::process::exit(code),
            End::Signal(signal) => {
                report!("hmtt: the program was ended by {signal}");
                end_by(signal)
            }
        }
    }
}
