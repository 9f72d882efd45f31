//! Divides touches of lines into runs: touches in a row of lines of one page.
//!
//! Some hundred touches are divided at once and without branches, and only then are their pages looked up. So the processor
//! waits for several pages at once, and need not predict where runs end.

use super::{Batch, LINE_LOG2, PAGE_LOG2};

/// Touches that are divided at once.
pub const TOGETHER: usize = 256;
/// log2 of the lines of a page.
pub const PAGE_LINES_LOG2: u32 = PAGE_LOG2 - LINE_LOG2;

/// Runs of some touches.
#[derive(Debug)]
pub struct Runs<'a> {
    /// The lines that were touched, and the run of each.
    pub lines: &'a [u64],
    pub run_of: &'a [u8],
    /// The page of each run, and the place behind its last touch.
    pub pages: &'a [u64],
    pub ends: &'a [u16],
}

impl Runs<'_> {
    /// Number of touches of each run.
    pub fn lengths(&self) -> impl Iterator<Item = u64> {
        let begins = [0].into_iter().chain(self.ends.iter().copied());
        self.ends.iter().zip(begins).map(|(end, begin)| u64::from(end - begin))
    }
}

/// Divides at most [`TOGETHER`] touches of lines.
fn divide(lines: &[u64], add: &mut impl FnMut(&Runs<'_>)) {
    let Some(first) = lines.first() else { return };
    let (mut pages, mut ends) = ([0; TOGETHER], [0; TOGETHER]);
    let mut run_of = [0; TOGETHER];
    let (mut run, mut last) = (0, first >> PAGE_LINES_LOG2);
    for ((line, of), end) in lines.iter().zip(&mut run_of).zip(1..) {
        let page = line >> PAGE_LINES_LOG2;
        run += usize::from(page != last);
        last = page;
        pages[run % TOGETHER] = page;
        ends[run % TOGETHER] = end;
        *of = run as u8;
    }
    let (pages, ends) = (&pages[..=run], &ends[..=run]);
    add(&Runs { lines, run_of: &run_of[..lines.len()], pages, ends });
}

/// Calls `add` for the runs of all lines that a batch touches, in order. A run may go on in the next call.
pub fn each(batch: &Batch<'_>, mut add: impl FnMut(&Runs<'_>)) {
    let mut lines = [0; TOGETHER];
    if batch.sizes().is_none() {
        for addresses in batch.addresses().chunks(TOGETHER) {
            lines
                .iter_mut()
                .zip(addresses)
                .for_each(|(line, address)| *line = address >> LINE_LOG2);
            divide(&lines[..addresses.len()], &mut add);
        }
        return;
    }
    let mut count = 0;
    batch.each_unit(LINE_LOG2, |line| {
        lines[count % TOGETHER] = line;
        count += 1;
        if count == TOGETHER {
            divide(&lines, &mut add);
            count = 0;
        }
    });
    divide(&lines[..count], &mut add);
}
