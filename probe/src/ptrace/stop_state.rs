//! Describes how a thread is stopped.

use nix::sys::signal::Signal;

use super::{SignalNumber, Status};

/// The state in which a thread is stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StopState {
    /// Between two instructions.
    AtInstruction,
    /// Between two instructions; this signal is to be delivered when the thread is resumed.
    PendingSignal(SignalNumber),
    /// In a group-stop (ptrace(2)): between two instructions, until its process gets `SIGCONT`.
    GroupStop,
    /// Within a system call that has not returned.
    InSyscall,
}

impl StopState {
    /// The state of a thread that has reported this event.
    pub fn reported(event: Status) -> Self {
        match event {
            Status::Stopped(_, signal) => StopState::PendingSignal(signal),
            // A group-stop is reported with the signal that has stopped the process (ptrace(2)).
            Status::Event(_, signal, libc::PTRACE_EVENT_STOP) if signal != Signal::SIGTRAP => {
                StopState::GroupStop
            }
            _ => StopState::AtInstruction,
        }
    }

    /// The signal that is to be delivered when the thread is resumed.
    pub fn signal(self) -> Option<SignalNumber> {
        match self {
            StopState::PendingSignal(signal) => Some(signal),
            _ => None,
        }
    }
}
