//! Notes when an interface was down during a capture.

use std::time::{Duration, Instant, SystemTime};

use serde::Serialize;

/// Number of outages that are listed individually.
const LISTED_OUTAGES: usize = 100;

/// A time in which an interface was down.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Outage {
    /// When it was noticed that the interface was down, in seconds since the Unix epoch.
    pub time_seconds: f64,
    /// For how long the interface was down; `None` if it still is.
    pub duration_seconds: Option<f64>,
}

/// The outages of an interface.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Outages {
    /// Number of outages.
    pub count: u64,
    /// The first 100 outages.
    pub listed: Vec<Outage>,
    /// Since when the interface is down; `None` if it is up.
    since: Option<Instant>,
}

impl Outages {
    /// Whether the interface is down.
    pub fn is_down(&self) -> bool {
        self.since.is_some()
    }

    /// Notes that the interface is down. Does nothing if an outage has begun and not ended.
    pub(super) fn begin(&mut self) {
        if self.is_down() {
            return;
        }
        self.since = Some(Instant::now());
        self.count += 1;
        if self.listed.len() < LISTED_OUTAGES {
            let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
            let time_seconds = now.as_ref().map_or(0.0, Duration::as_secs_f64);
            self.listed.push(Outage { time_seconds, duration_seconds: None });
        }
    }

    /// Notes that the interface is up, which ends an outage. Does nothing without an outage.
    pub(super) fn end(&mut self) {
        let Some(since) = self.since.take() else { return };
        let is_listed = self.count <= LISTED_OUTAGES as u64;
        if let Some(last) = self.listed.last_mut().filter(|_| is_listed) {
            last.duration_seconds = Some(since.elapsed().as_secs_f64());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_outage_is_counted_once_and_the_first_are_listed() {
        let mut outages = Outages::default();
        for _ in 0..LISTED_OUTAGES + 1 {
            outages.begin();
            outages.begin();
            assert!(outages.is_down());
            outages.end();
            outages.end();
            assert!(!outages.is_down());
        }
        assert_eq!(outages.count, LISTED_OUTAGES as u64 + 1);
        assert_eq!(outages.listed.len(), LISTED_OUTAGES);
        assert!(outages.listed.iter().all(|outage| outage.duration_seconds.is_some()));
        outages.begin();
        assert_eq!(outages.listed.len(), LISTED_OUTAGES);
        assert!(outages.listed.iter().all(|outage| outage.duration_seconds.is_some()));
    }

    #[test]
    fn an_outage_that_is_not_over_has_no_duration() {
        let mut outages = Outages::default();
        outages.begin();
        assert_eq!(outages.listed[0].duration_seconds, None);
    }
}
