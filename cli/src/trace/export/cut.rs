//! Writes regions of the instructions of a thread, each in a file of its own.
//!
//! Instructions are counted from the beginning of the trace on. A repeated string instruction is
//! one. One that was interrupted counts when it is executed to its end; what it has accessed before
//! that is in the region in which it would have been the next instruction.

use std::collections::VecDeque;
use std::io;
use std::ops::Range;

use hmtt::table::requests::RequestSums;

use super::rounds::Rounds;
use super::steps::{Exporter, LeftOut, Step};

/// Numbers of the instructions of a region, and what writes it.
pub type Region<'w> = (Range<u64>, Box<dyn Exporter + 'w>);

/// Passes the instructions of regions on.
pub struct Cut<'w> {
    /// The only thread that is written; the first one if there is none yet.
    thread: Option<u32>,
    executed: u64,
    /// Regions that have not ended, by their numbers.
    regions: VecDeque<Region<'w>>,
    left_out: LeftOut,
    /// Sums of the regions that have ended.
    sums: Vec<RequestSums>,
    /// Instructions of other threads.
    others: u64,
    /// Instructions of regions behind the end of the trace.
    missing: u64,
}

impl<'w> Cut<'w> {
    /// Cuts regions out, which are ascending and do not overlap.
    pub fn new(regions: Vec<Region<'w>>) -> Self {
        let (thread, left_out, sums) = (None, Vec::new(), Vec::new());
        let (executed, others, missing) = (0, 0, 0);
        Cut { thread, executed, regions: regions.into(), left_out, sums, others, missing }
    }

    /// Whether the trace ends before the end of a region.
    pub fn is_short(&self) -> bool {
        self.missing > 0
    }

    /// Sums of the regions, in their order.
    pub fn sums_of_regions(&self) -> &[RequestSums] {
        &self.sums
    }

    fn end_region(&mut self, next: Option<u64>) -> io::Result<()> {
        let Some((range, mut exporter)) = self.regions.pop_front() else { return Ok(()) };
        // A region without an end has what there is, but at least one instruction.
        let end = if range.end == u64::MAX { range.start.saturating_add(1) } else { range.end };
        let missing = end.saturating_sub(self.executed.max(range.start));
        self.missing = self.missing.saturating_add(missing);
        exporter.finish(next)?;
        self.sums.push(exporter.sums());
        for (what, count) in exporter.left_out() {
            match self.left_out.iter_mut().find(|(other, _)| *other == what) {
                Some((_, sum)) => *sum += count,
                None => self.left_out.push((what, count)),
            }
        }
        Ok(())
    }
}

impl Exporter for Cut<'_> {
    fn step(&mut self, step: &Step<'_>, rounds: &mut Rounds) -> io::Result<()> {
        if *self.thread.get_or_insert(step.thread) != step.thread {
            self.others += 1;
            return Ok(());
        }
        let number = self.executed;
        if self.regions.front().is_some_and(|(range, _)| range.end <= number) {
            self.end_region(Some(step.pc))?;
        }
        self.executed += u64::from(step.is_complete);
        match self.regions.front_mut() {
            Some((range, exporter)) if range.contains(&number) => exporter.step(step, rounds),
            _ => Ok(()),
        }
    }

    fn finish(&mut self, next: Option<u64>) -> io::Result<()> {
        while !self.regions.is_empty() {
            self.end_region(next)?;
        }
        Ok(())
    }

    fn sums(&self) -> RequestSums {
        self.sums.last().copied().unwrap_or_default()
    }

    fn left_out(&self) -> LeftOut {
        let own = [
            ("instructions of other threads", self.others),
            ("instructions of regions behind the end of the trace", self.missing),
        ];
        self.left_out.iter().copied().chain(own).collect()
    }
}
