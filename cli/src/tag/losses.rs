//! Adds up the losses of all tagged processes, and reports them.

use hmtt_probe::control::LogSummary;

/// Losses in all processes.
#[derive(Default)]
pub struct Losses {
    /// Sums of the losses over all logs.
    logs: LogSummary,
    /// Number of counts that the programs have overwritten.
    counts: u64,
    /// Whether tags had to be removed from a process before its end.
    pub had_conflict: bool,
}

impl Losses {
    /// Adds the losses of a log.
    pub fn add_log(&mut self, summary: &LogSummary) {
        let LogSummary { dropped, interrupted, damaged, events, .. } = summary;
        let logs = &mut self.logs;
        logs.dropped = logs.dropped.saturating_add(*dropped);
        logs.interrupted = logs.interrupted.saturating_add(*interrupted);
        logs.damaged = logs.damaged.saturating_add(*damaged);
        logs.events = logs.events.saturating_add(*events);
    }

    /// Adds a number of counts that the program overwrote.
    pub fn add_damaged_counts(&mut self, damaged: u64) {
        self.counts += damaged;
    }

    /// Prints the losses. Returns whether there are any.
    pub fn print(&self) -> bool {
        let LogSummary { events, dropped, interrupted, damaged: records, .. } = self.logs;
        let damaged = self.counts;
        if damaged != 0 {
            report!(
                "hmtt: warning: {damaged} counts are invalid: the program overwrote them; they are set to 0"
            );
        }
        if records != 0 {
            report!("hmtt: warning: {records} records are invalid: the program overwrote them");
        }
        if dropped != 0 {
            report!(
                "hmtt: warning: {dropped} of {} events were dropped: buffers were full",
                events + dropped
            );
        }
        if interrupted != 0 {
            report!(
                "hmtt: warning: {interrupted} events were interrupted while their records were written"
            );
        }
        self.had_conflict || [dropped, interrupted, records, damaged].iter().any(|lost| *lost != 0)
    }
}
