//! What a source counts, and why it failed, to whoever watches it from another thread.

use std::error::Error;
use std::sync::{Mutex, MutexGuard, PoisonError};

use hmtt::pcapng::InterfaceStatistics;

use super::CaptureError;

/// How a source is doing.
#[derive(Debug, Default)]
pub struct Standing(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    statistics: InterfaceStatistics,
    failure: Option<String>,
}

impl Standing {
    /// What it has counted, a moment ago.
    pub fn statistics(&self) -> InterfaceStatistics {
        self.state().statistics
    }

    /// Why it failed, if it did.
    pub fn failure(&self) -> Option<String> {
        self.state().failure.clone()
    }

    /// Whether it failed.
    pub fn has_failed(&self) -> bool {
        self.state().failure.is_some()
    }

    pub(super) fn count(&self, statistics: InterfaceStatistics) {
        self.state().statistics = statistics;
    }

    pub(super) fn fail(&self, error: &CaptureError) {
        self.state().failure = Some(said(error));
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// An error and what caused it, on one line.
fn said(error: &dyn Error) -> String {
    match error.source() {
        Some(cause) => format!("{error}: {}", said(cause)),
        None => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_is_told_with_its_cause() {
        let standing = Standing::default();
        assert!(!standing.has_failed());
        standing.fail(&CaptureError::System {
            operation: "wait for frames",
            interface: "eth1".into(),
            source: std::io::Error::other("it is gone"),
        });
        let told = "cannot wait for frames on interface eth1: it is gone";
        assert_eq!(standing.failure().as_deref(), Some(told));
    }
}
