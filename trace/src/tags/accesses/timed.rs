//! Accesses with the card's clock, and calls with the log's, to the accesses of each function.
//!
//! A call begins or ends at some clock within the error of the map: an access nearer to it than that is
//! counted for whose it probably is, and as possible, but not as certain, for either.

use std::collections::VecDeque;

use super::ledger::{Ledger, Moment};
use super::log_calls::LogCalls;
use super::owners::{Change, Owners};
use super::steps::Step;
use super::sync::LogSync;
use crate::tags::log_reader::TagLogError;

/// Changes that may have been, and may not.
type Waiting = VecDeque<(f64, Change)>;

/// Splits the accesses of a trace by the calls of a log.
#[derive(Debug)]
pub struct TimedSplit {
    calls: LogCalls,
    sync: LogSync,
    owners: Owners,
    /// The call that has been read and cannot have been yet.
    next: Option<(f64, super::log_calls::Boundary)>,
    likely: Waiting,
    late: Waiting,
    /// Clocks before the session that the log is of.
    before: u64,
    session: usize,
    /// What was split.
    pub ledger: Ledger,
    /// Accesses before the first mark or behind the last.
    pub beyond_marks: u64,
    /// Accesses within the error of a call's begin or end.
    pub uncertain: u64,
    /// Accesses of other sessions of the card, which no time of the log is in.
    pub other_sessions: u64,
    /// Why calls could not be read on.
    failed: Option<TagLogError>,
}

impl TimedSplit {
    /// Nothing read yet.
    ///
    /// # Errors
    /// [`TagLogError`]
    pub fn new(mut calls: LogCalls, sync: LogSync) -> Result<Self, TagLogError> {
        let (owners, mut ledger) = (Owners::default(), Ledger::default());
        owners.begin(&mut |change| ledger.change(change));
        let next = calls.next_call()?.map(|call| (sync.clock(call.tsc), call));
        Ok(TimedSplit {
            calls,
            sync,
            owners,
            next,
            likely: Waiting::new(),
            late: Waiting::new(),
            before: 0,
            session: 0,
            ledger,
            beyond_marks: 0,
            uncertain: 0,
            other_sessions: 0,
            failed: None,
        })
    }

    /// Takes what the trace has next.
    pub fn step(&mut self, clock: u64, step: Step) {
        match step {
            Step::Restart => (self.session, self.before) = (self.session + 1, clock),
            Step::Accesses { address, traffic } if self.session == self.sync.session => {
                let clock = clock.saturating_sub(self.before);
                if self.ledger.total.accesses() == 0 {
                    // Calls of before the trace have no time in it.
                    self.ledger.advance(clock);
                }
                self.reach(clock as f64);
                self.ledger.advance(clock);
                self.ledger.access(address, traffic);
                let beyond = !(self.sync.marks.0..=self.sync.marks.1).contains(&(clock as f64));
                self.beyond_marks += if beyond { traffic.accesses() } else { 0 };
                let is_near = !self.late.is_empty() || !self.likely.is_empty();
                self.uncertain += if is_near { traffic.accesses() } else { 0 };
            }
            Step::Accesses { traffic, .. } => self.other_sessions += traffic.accesses(),
            Step::Tag(_) | Step::Mark(_) | Step::Gap => {}
        }
    }

    /// Goes on to a clock: what may have been by then may have been, what has been has.
    fn reach(&mut self, clock: f64) {
        let error = self.sync.error;
        while let Some((at, call)) = self.next.filter(|(at, _)| at - error <= clock) {
            let TimedSplit { owners, ledger, likely, .. } = self;
            owners.call(call.thread, call.number, call.is_entry, &mut |change| {
                ledger.change_at(change, Moment::Earliest);
                likely.push_back((at, change));
            });
            self.next = match self.calls.next_call() {
                Ok(call) => call.map(|call| (self.sync.clock(call.tsc).max(at), call)),
                Err(error) => {
                    self.failed = Some(error);
                    None
                }
            };
        }
        while let Some((at, change)) = first_if(&mut self.likely, |at| at <= clock) {
            self.ledger.advance(at.max(0.0) as u64);
            self.ledger.change_at(change, Moment::Likeliest);
            self.late.push_back((at, change));
        }
        while let Some((_, change)) = first_if(&mut self.late, |at| at + error <= clock) {
            self.ledger.change_at(change, Moment::Latest);
        }
    }

    /// The trace is over, at a clock.
    ///
    /// # Errors
    /// What was wrong with the log.
    pub fn finish(&mut self, clock: u64) -> Result<(), TagLogError> {
        if self.session == self.sync.session {
            let last = clock.saturating_sub(self.before);
            self.reach(last as f64);
            self.ledger.advance(last);
        }
        self.ledger.finish();
        self.failed.take().map_or(Ok(()), Err)
    }
}

/// Takes the first, if it is time.
fn first_if(waiting: &mut Waiting, is_due: impl FnOnce(f64) -> bool) -> Option<(f64, Change)> {
    if is_due(waiting.front()?.0) { waiting.pop_front() } else { None }
}
