//! Prints reads, writes and losses about once for a million clocks while a capture arrives:
//! `hmtt-recv eth1 -w - | live_statistics`.

use hmtt::Trace;

/// Clocks between two lines: 10 ms of a DDR-200 bus.
const CLOCKS: u64 = 1_000_000;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut trace = Trace::from_reader(std::io::stdin().lock())?;
    let (mut reads, mut writes, mut gaps, mut due) = (0, 0, 0, CLOCKS);
    while let Some(batch) = trace.next_batch()? {
        let written = batch.accesses.writes.iter().filter(|write| **write).count();
        writes += written;
        reads += batch.accesses.writes.len() - written;
        gaps += usize::from(matches!(batch.item, Some(hmtt::decode::Item::Gap(_))));
        if let Some(clock) = batch.accesses.clocks.last().filter(|clock| **clock >= due) {
            println!("clock {clock}: {reads} reads, {writes} writes, {gaps} gaps");
            due = clock + CLOCKS;
        }
    }
    println!("end: {reads} reads, {writes} writes, {gaps} gaps");
    Ok(())
}
