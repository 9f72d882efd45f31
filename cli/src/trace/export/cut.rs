//! Writes regions of a thread's instructions, each region to a file of its own.
//!
//! Instructions are counted from the beginning of the trace. A repeated string instruction counts
//! as one. An interrupted instruction counts when it is executed to its end. The accesses before
//! the interruption belong to the region that would contain the instruction if it had been executed
//! to its end.

use std::collections::VecDeque;
use std::io;
use std::ops::Range;

use hmtt::table::requests::RequestSums;

use super::rounds::Rounds;
use super::steps::{Exporter, LeftOut, Step};

/// The numbers of a region's instructions, and the writer of the region.
pub type Region<'w> = (Range<u64>, Box<dyn Exporter + 'w>);

/// Passes the instructions of each region on to the region's writer.
pub struct Cut<'w> {
    /// The only thread that is written: the thread of the first instruction. `None` before it.
    thread: Option<u32>,
    executed: u64,
    /// Regions that have not ended, in ascending order.
    regions: VecDeque<Region<'w>>,
    left_out: LeftOut,
    /// Sums of the regions that have ended.
    sums: Vec<RequestSums>,
    /// Number of instructions of other threads, which are left out.
    others: u64,
    /// Number of instructions of regions that lie behind the end of the trace.
    missing: u64,
}

impl<'w> Cut<'w> {
    /// Starts cutting. `regions` must be ascending and must not overlap.
    pub fn new(regions: Vec<Region<'w>>) -> Self {
        let (thread, left_out, sums) = (None, Vec::new(), Vec::new());
        let (executed, others, missing) = (0, 0, 0);
        Cut { thread, executed, regions: regions.into(), left_out, sums, others, missing }
    }

    /// Whether the trace ends before the end of a region.
    pub fn is_short(&self) -> bool {
        self.missing > 0
    }

    /// Sums of each region, in the order of the regions.
    pub fn sums_of_regions(&self) -> &[RequestSums] {
        &self.sums
    }

    fn end_region(&mut self, next: Option<u64>) -> io::Result<()> {
        let Some((range, mut exporter)) = self.regions.pop_front() else { return Ok(()) };
        // A region without an end takes all instructions up to the end of the trace, but must have
        // at least one.
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
