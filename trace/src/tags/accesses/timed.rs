//! Attributes accesses, which have times of the card's clock, to the calls of a log, which have
//! times of the log's clock.
//!
//! The converted time of an entry or exit has an error. An access is uncertain if its distance to
//! an entry or exit is less than this error. An uncertain access is counted for the more probable
//! owner. For both owners, it counts as a possible access and not as a certain one.

use std::collections::VecDeque;

use super::ledger::{Ledger, Moment};
use super::log_calls::{CallEvent, CallEventKind, LogCalls};
use super::owners::{Change, Owner, Owners};
use super::regions::Regions;
use super::steps::Step;
use super::sync::LogSync;
use crate::tags::log_reader::TagLogError;

/// Changes that wait for their likeliest or their latest time, each with its likeliest clock.
type Waiting = VecDeque<(f64, Change)>;

/// Attributes the accesses of a trace to the calls of a log.
#[derive(Debug)]
pub struct TimedSplit {
    calls: LogCalls,
    sync: LogSync,
    owners: Owners,
    /// Next event of the log, and its likeliest clock. Its earliest time is still to come.
    next: Option<(f64, CallEvent)>,
    /// Changes whose likeliest time is still to come.
    likely: Waiting,
    /// Changes whose latest time is still to come.
    late: Waiting,
    /// Clock at which the current session began.
    before: u64,
    /// Index of the current session.
    session: usize,
    /// Accesses of each owner so far.
    pub ledger: Ledger,
    /// Number of accesses before the first or after the last shared mark.
    pub beyond_marks: u64,
    /// Number of accesses that are nearer to an entry or exit of a function than the error.
    pub uncertain: u64,
    /// Number of accesses that are nearer to an entry or exit of a function, or to an entry of a
    /// block, than the error.
    pub uncertain_blocks: u64,
    /// Number of changes in `likely` and `late` that are no changes of blocks or loops.
    near_calls: u64,
    /// Number of accesses in other sessions of the card, whose clocks are not related to the log.
    pub other_sessions: u64,
    /// Error that ended the reading of calls.
    failed: Option<TagLogError>,
}

impl TimedSplit {
    /// Starts with the first call of the log.
    ///
    /// # Errors
    /// [`TagLogError`]: the log cannot be read up to its first call.
    pub fn new(mut calls: LogCalls, sync: LogSync, regions: Regions) -> Result<Self, TagLogError> {
        let (owners, mut ledger) = (Owners::new(regions), Ledger::default());
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
            uncertain_blocks: 0,
            near_calls: 0,
            other_sessions: 0,
            failed: None,
        })
    }

    /// Processes the next step of the trace, at a clock that continues across restarts.
    pub fn step(&mut self, clock: u64, step: Step) {
        match step {
            Step::Restart => (self.session, self.before) = (self.session + 1, clock),
            Step::Accesses { address, traffic } if self.session == self.sync.session => {
                let clock = clock.saturating_sub(self.before);
                if self.ledger.total.accesses() == 0 {
                    // The time of the trace begins here, so calls that ended before get no clocks.
                    self.ledger.advance(clock);
                }
                self.reach(clock as f64);
                self.ledger.advance(clock);
                self.ledger.access(address, traffic);
                let beyond = !(self.sync.marks.0..=self.sync.marks.1).contains(&(clock as f64));
                self.beyond_marks += if beyond { traffic.accesses() } else { 0 };
                let is_near = !self.late.is_empty() || !self.likely.is_empty();
                self.uncertain_blocks += if is_near { traffic.accesses() } else { 0 };
                self.uncertain += if self.near_calls != 0 { traffic.accesses() } else { 0 };
            }
            Step::Accesses { traffic, .. } => self.other_sessions += traffic.accesses(),
            Step::Tag(_) | Step::Mark(_) | Step::Gap => {}
        }
    }

    /// Advances to a clock: applies the earliest, likeliest and latest times of changes up to it.
    fn reach(&mut self, clock: f64) {
        let error = self.sync.error;
        while let Some((at, call)) = self.next.filter(|(at, _)| at - error <= clock) {
            let TimedSplit { owners, ledger, likely, near_calls, .. } = self;
            let to = &mut |change| {
                ledger.change_at(change, Moment::Earliest);
                likely.push_back((at, change));
                *near_calls += is_of_call(change);
            };
            let CallEvent { thread, number, kind, .. } = call;
            match kind {
                CallEventKind::Block => owners.block(thread, number, to),
                _ => owners.call(thread, number, kind == CallEventKind::Entry, to),
            }
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
            self.near_calls -= is_of_call(change);
        }
    }

    /// Ends the trace at a clock that continues across restarts.
    ///
    /// # Errors
    /// The error that ended the reading of the log.
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

/// 1 if the owner of a change is a function, [`Owner::Outside`] or [`Owner::SeveralThreads`]. 0 if
/// it is a block, a loop, or the part of a function outside of its blocks.
fn is_of_call(change: Change) -> u64 {
    let Change { owner, .. } = change;
    !matches!(owner, Owner::Block(_) | Owner::OutsideBlocks(_) | Owner::Loop(_)) as u64
}

/// Removes and returns the first change, if it is due.
fn first_if(waiting: &mut Waiting, is_due: impl FnOnce(f64) -> bool) -> Option<(f64, Change)> {
    if is_due(waiting.front()?.0) { waiting.pop_front() } else { None }
}
