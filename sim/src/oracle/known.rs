//! What cards are known to do wrong and is not repaired: each tolerance goes with its defect.
//!
//! 1. With a full event queue, the access that completes a command, or comes at the clock of the run
//!    switch, is counted after it. Beside a stop or start it is counted as lost though the capture was
//!    stopped, or not at all. A loss is wrong by one for each command, start and stop within it.
//! 2. If the analysis is turned off while an earlier stop's dump is being made, no other dump follows, and
//!    what was skipped meanwhile is never told.

use std::ops::RangeInclusive;

use super::due::Due;

/// Accesses by which a loss within these clocks may be wrong.
pub fn miscounted(due: &Due, clocks: RangeInclusive<u64>) -> u64 {
    let reports = due.reports.iter().map(|report| report.clock);
    let commands = due.commands.iter().map(|(clock, _)| *clock);
    reports.chain(commands).filter(|clock| clocks.contains(clock)).count() as u64
}

/// Whether skipped accesses may never be told.
pub fn untold(due: &Due, dump_clocks: u64) -> bool {
    let asks: Vec<(u64, bool)> = due
        .epochs
        .iter()
        .enumerate()
        .filter(|(_, epoch)| epoch.chosen.analysed())
        .filter_map(|(at, epoch)| {
            let next = due.epochs.get(at + 1)?;
            let off = !next.chosen.analysed();
            (off || next.from > epoch.to).then_some((epoch.to, off))
        })
        .collect();
    asks.windows(2).any(|pair| pair[1].1 && pair[1].0 - pair[0].0 < dump_clocks)
}
