//! Counts runs: touches in a row of lines of one page.
//!
//! Some hundred touches are divided at once and without branches, so that the processor need not
//! predict where runs end.

use super::histogram::{Histogram, bucket};
use super::{Batch, LINE_LOG2, PAGE_LOG2};

/// Touches that are divided at once.
pub const TOGETHER: usize = 256;
/// Runs that end within these have fewer touches than 2^8 and one.
const BUCKETS: usize = 16;
/// Counts of runs are in turn in different places: an addition need not wait for the one before.
const TURNS: usize = 4;

/// The last page, and the touches of it in a row; no touches if there is no page.
pub type Run = (u64, u64);

/// Calls `add` for the lines that a batch touches, in order and in pieces of at most [`TOGETHER`].
#[inline]
pub fn pieces(batch: &Batch<'_>, mut add: impl FnMut(&[u64])) {
    let mut lines = [0; TOGETHER];
    if batch.sizes().is_none() {
        for addresses in batch.addresses().chunks(TOGETHER) {
            let of_addresses = lines.iter_mut().zip(addresses);
            of_addresses.for_each(|(line, address)| *line = address >> LINE_LOG2);
            add(&lines[..addresses.len()]);
        }
        return;
    }
    let mut count = 0;
    batch.each_unit(LINE_LOG2, |line| {
        lines[count] = line;
        count += 1;
        if count == TOGETHER {
            add(&lines);
            count = 0;
        }
    });
    add(&lines[..count]);
}

/// Adds the lengths of the runs that touches of at most [`TOGETHER`] lines end. `last`: the run
/// before, then that which may go on.
pub fn add(lines: &[u64], last: &mut Run, lengths: &mut Histogram) {
    // Where each run begins but that which goes on from before.
    let (mut begins, mut count) = ([0u16; TOGETHER], 0);
    let mut before = last.0;
    for (line, at) in lines.iter().zip(0..) {
        let page = line >> (PAGE_LOG2 - LINE_LOG2);
        begins[count % TOGETHER] = at;
        count += usize::from(page != before);
        before = page;
    }
    let begins = &begins[..count];
    let (Some(first), Some(end)) = (begins.first(), begins.last()) else {
        last.1 = last.1.saturating_add(lines.len() as u64);
        return;
    };
    last.1 = last.1.saturating_add((*first).into());
    if last.1 > 0 {
        lengths.add(last.1);
    }
    let mut counts = [[0u64; BUCKETS]; TURNS];
    for (run, turn) in begins.windows(2).zip((0..TURNS).cycle()) {
        counts[turn][bucket(u64::from(run[1] - run[0])) % BUCKETS] += 1;
    }
    for (of_bucket, length) in (0..BUCKETS).zip((0..).map(|log2| (1u64 << log2) >> 1)) {
        lengths.add_many(length, counts.iter().map(|turn| turn[of_bucket]).sum());
    }
    *last = (before, (lines.len() - usize::from(*end)) as u64);
}
