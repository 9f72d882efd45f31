//! Publishes the counts of a source, and why it failed, to other threads.

use std::error::Error;
use std::sync::{Mutex, MutexGuard, PoisonError};

use hmtt::pcapng::InterfaceStatistics;

use super::{CaptureError, Outages};

/// Current counts of a source, and its failure if it failed.
#[derive(Debug, Default)]
pub struct SourceStatus(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    statistics: InterfaceStatistics,
    failure: Option<String>,
    outages: Outages,
}

impl SourceStatus {
    /// Counts of the source, as of its last batch.
    pub fn statistics(&self) -> InterfaceStatistics {
        self.state().statistics
    }

    /// Why the source failed; `None` if it did not.
    pub fn failure(&self) -> Option<String> {
        self.state().failure.clone()
    }

    /// Whether the source has failed.
    pub fn has_failed(&self) -> bool {
        self.state().failure.is_some()
    }

    /// When the interface was down.
    pub fn outages(&self) -> Outages {
        self.state().outages.clone()
    }

    pub(super) fn set_outages(&self, outages: &Outages) {
        let mut state = self.state();
        if state.outages != *outages {
            state.outages = outages.clone();
        }
    }

    pub(super) fn count(&self, statistics: InterfaceStatistics) {
        self.state().statistics = statistics;
    }

    pub(super) fn fail(&self, error: &CaptureError) {
        self.state().failure = Some(error_chain(error));
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Formats an error and its causes on one line.
fn error_chain(error: &dyn Error) -> String {
    match error.source() {
        Some(cause) => format!("{error}: {}", error_chain(cause)),
        None => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_is_reported_with_its_cause() {
        let status = SourceStatus::default();
        assert!(!status.has_failed());
        status.fail(&CaptureError::System {
            operation: "wait for frames",
            interface: "eth1".into(),
            source: std::io::Error::other("it is gone"),
        });
        let expected = "cannot wait for frames on interface eth1: it is gone";
        assert_eq!(status.failure().as_deref(), Some(expected));
    }
}
