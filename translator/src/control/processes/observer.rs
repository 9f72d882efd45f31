//! What the caller is told of processes while they are followed, and when the first one ends.

use std::path::Path;
use std::time::{Duration, Instant};

use hmtt_probe::control::{Ending, TagError};
use nix::unistd::Pid;

use crate::control::Outcome;
use crate::control::error::ControlError;
use crate::monitor::accesses::AccessSink;

/// Receives the result of one program of a process, on another thread than the tracer's. It is
/// dropped without a call if the program is not followed after all.
pub type Output = Box<dyn FnOnce(Outcome) + Send>;

/// Decides where the results of processes are written.
pub trait Observer {
    /// Called before a program of a process is followed. Returns the receiver of its result.
    ///
    /// # Errors
    /// [`TagError::Output`] if there is no place for the output; the program is not followed then.
    fn begin(&mut self, pid: Pid, program: &Path) -> Result<Output, TagError>;

    /// Called after [`begin`](Self::begin). Returns the receiver of records of accesses, if
    /// accesses are recorded.
    fn accesses(&mut self, _pid: Pid) -> Option<Box<dyn AccessSink>> {
        None
    }

    /// Called if a process that should be followed continues natively.
    fn not_followed(&mut self, pid: Pid, program: &Path, error: &ControlError);
}

/// How following the first process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FirstEnd {
    /// Ending of the process.
    pub ending: Ending,
    /// Whether the process continues natively although the controller was not asked to detach.
    pub goes_on: bool,
    /// Whether the process continues natively because the requested time is over, or because
    /// everything that was to be recorded is recorded.
    pub is_time_over: bool,
    /// When the process was left, if it was.
    pub left: Option<Left>,
}

/// Time at which a process was left. It runs natively since then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Left {
    /// Time of leaving.
    pub at: Instant,
    /// Processor time that the process had used by then.
    pub used: Duration,
}
