//! Describes how following a process has ended.

use crate::ptrace::SignalNumber;

/// How following a process has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// The process has ended with this status.
    Exited(i32),
    /// The process was ended by a signal.
    Signaled(SignalNumber),
    /// The process has executed another program.
    Replaced,
    /// The controller was asked to detach; the process continues by itself.
    Detached,
}

impl From<Ending> for hmtt_files::tag_log::Ending {
    fn from(ending: Ending) -> Self {
        match ending {
            Ending::Exited(status) => Self::Exited(status),
            Ending::Signaled(signal) => Self::Signaled(signal.0),
            Ending::Replaced => Self::Replaced,
            Ending::Detached => Self::Detached,
        }
    }
}
