//! How a tagged process has ended.

use crate::ptrace::SignalNumber;

/// How it ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// With this status.
    Exited(i32),
    /// By a signal.
    Signaled(SignalNumber),
    /// It has become another program.
    Replaced,
    /// We were asked to leave it; it goes on without tags.
    Detached,
}

impl From<Ending> for hmtt_format::tag_log::Ending {
    fn from(ending: Ending) -> Self {
        match ending {
            Ending::Exited(status) => Self::Exited(status),
            Ending::Signaled(signal) => Self::Signaled(signal.0),
            Ending::Replaced => Self::Replaced,
            Ending::Detached => Self::Detached,
        }
    }
}
