//! Counts runs by length. A run is a series of consecutive touches of lines in one page. For
//! example, touches of the lines 0, 5, 64, 65, 1 are in the pages 0, 0, 1, 1, 0, and are runs of 2,
//! 2 and 1 touches.
//!
//! Some hundred touches are divided at once and without branches, so that the processor need not
//! predict where runs end.

use super::histogram::{Histogram, bucket};
use super::{Batch, LINE_LOG2, PAGE_LOG2};

/// Number of touches that are divided at once.
pub const TOGETHER: usize = 256;
/// Buckets for the lengths of runs that begin and end within [`TOGETHER`] touches: at most 2^8
/// touches.
const BUCKETS: usize = 16;
/// Number of copies of the counts of runs. The copies are used in turn, so that an addition need
/// not wait for the addition before.
const TURNS: usize = 4;

/// The last touched page, and the number of consecutive touches of this page; 0 touches if there is
/// no page.
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

/// Adds the lengths of the runs that end within `lines`, which has at most [`TOGETHER`] touches.
/// `last`: the unfinished run before `lines`; on return the unfinished run at the end of `lines`.
pub fn add(lines: &[u64], last: &mut Run, lengths: &mut Histogram) {
    // The index at which each run begins, without the run that continues from before.
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
