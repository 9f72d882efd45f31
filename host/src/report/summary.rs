//! Counts to the summary people read when a capture or a decoding ends.

use std::io::{self, Write};

use hmtt_format::frame::COUNTER_MASK;

use super::gap::Place;
use crate::decode::{Counts, Gap};

/// Gaps that a summary lists one by one.
const LISTED_GAPS: usize = 20;

/// Writes what a trace holds and what it does not hold.
pub fn write_counts(counts: &Counts, output: &mut dyn Write) -> io::Result<()> {
    let order = &counts.order;
    let rows = [
        ("frames", counts.frames),
        ("bytes", counts.bytes),
        ("words", counts.words),
        ("records", counts.records),
        ("accesses", counts.accesses),
        ("reads", counts.reads),
        ("writes", counts.writes),
        ("bytes accessed", counts.access_bytes),
        ("missing frames", order.missing),
        ("records lost on the card", counts.card_lost_records),
        ("accesses lost", counts.lost_accesses),
        ("duplicate frames", order.duplicates),
        ("reordered frames", order.reordered),
        ("frames too late to order", order.late),
        ("card restarts", order.restarts),
        ("heartbeats", counts.heartbeats),
        ("DDR clock losses", counts.ddr_clock_losses),
        ("foreign frames", counts.foreign),
        ("malformed frames", counts.malformed),
    ];
    for (name, count) in rows {
        writeln!(output, "{name:<25} {count}")?;
    }
    for (name, count) in &counts.faults {
        writeln!(output, "fault {name:<19} {count}")?;
    }
    counts.gaps.iter().take(LISTED_GAPS).try_for_each(|gap| write_gap(gap, output))?;
    let unlisted = counts.gap_count - counts.gaps.len().min(LISTED_GAPS) as u64;
    if unlisted != 0 {
        writeln!(output, "and {unlisted} more gaps")?;
    }
    if counts.frames != 0 && !counts.complete_tail {
        writeln!(output, "no end frame: the tail may be missing")?;
    }
    Ok(())
}

fn write_gap(gap: &Gap, output: &mut dyn Write) -> io::Result<()> {
    write!(output, "{gap}")?;
    if let Some(first) = gap.first_frame {
        match gap.frames {
            0 | 1 => write!(output, " (frame {first})")?,
            more => write!(output, " (frames {first} to {})", (first + more - 1) & COUNTER_MASK)?,
        }
    }
    match Place(gap).to_string().as_str() {
        "" => writeln!(output),
        place => writeln!(output, ", {place}"),
    }
}
