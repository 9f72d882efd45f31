//! Writes counts as the summary that is printed at the end of a capture or a decoding.

use std::io::{self, Write};
use std::time::Duration;

use hmtt_format::frame::COUNTER_MASK;
use time::OffsetDateTime;

use crate::decode::{BurstMismatch, Counts, Gap, GapLocation};

/// Maximum number of gaps that a summary lists one by one.
const LISTED_GAPS: usize = 20;

/// Writes counts of a trace's contents and losses.
///
/// # Errors
/// The output cannot be written.
pub fn write_counts(counts: &Counts, output: &mut dyn Write) -> io::Result<()> {
    let order = &counts.order;
    let rows = [
        ("frames", counts.frames),
        ("bytes", counts.frame_bytes),
        ("words", counts.words),
        ("records", counts.records),
        ("accesses", counts.accesses),
        ("reads", counts.reads),
        ("writes", counts.writes),
        ("bytes accessed", counts.access_bytes),
        ("missing frames", order.missing_frames),
        ("records lost on the card", counts.card_lost_records),
        ("accesses lost", counts.lost_accesses),
        ("duplicate frames", order.duplicate_frames),
        ("reordered frames", order.reordered_frames),
        ("frames too late to order", order.late_frames),
        ("card restarts", order.restarts),
        ("heartbeats", counts.heartbeats),
        ("DDR clock losses", counts.ddr_clock_losses),
        ("foreign frames", counts.foreign_frames),
        ("malformed frames", counts.malformed_frames),
    ];
    for (name, count) in rows {
        writeln!(output, "{name:<25} {count}")?;
    }
    if counts.stray_frames != 0 {
        writeln!(output, "{:<25} {}", "stray frames", counts.stray_frames)?;
    }
    for (name, count) in &counts.faults {
        writeln!(output, "fault {name:<19} {count}")?;
    }
    counts.burst_mismatches.iter().try_for_each(|mismatch| write_mismatch(mismatch, output))?;
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

/// Writes a warning that the records of a card stand for another number of bursts than the card
/// counted; the card or a frame is faulty.
fn write_mismatch(mismatch: &BurstMismatch, output: &mut dyn Write) -> io::Result<()> {
    let BurstMismatch { card_bursts, at_least, at_most, slice_bursts } = mismatch;
    write!(output, "warning: {card_bursts} bursts on the card, its records stand for {at_least}")?;
    if at_most != at_least {
        write!(output, " to {at_most}")?;
    }
    match slice_bursts {
        Some(sliced) => writeln!(output, ", its slices and tags for {sliced}"),
        None => writeln!(output),
    }
}

fn write_gap(gap: &Gap, output: &mut dyn Write) -> io::Result<()> {
    write!(output, "{gap}")?;
    if let Some(first) = gap.first_frame {
        match gap.frames {
            0 | 1 => write!(output, " (frame {first})")?,
            more => write!(output, " (frames {first} to {})", (first + more - 1) & COUNTER_MASK)?,
        }
    }
    match GapLocation(gap).to_string().as_str() {
        "" => {}
        place => write!(output, ", {place}")?,
    }
    match gap.after_time.or(gap.before_time).and_then(utc) {
        Some(time) => writeln!(output, ", {time}"),
        None => writeln!(output),
    }
}

/// Formats a time as `2026-11-22 08:15:00 UTC`; `None` if it is out of the calendar's range.
pub fn utc(time: Duration) -> Option<String> {
    let time = OffsetDateTime::from_unix_timestamp(time.as_secs().try_into().ok()?).ok()?;
    let (hours, minutes, seconds) = time.to_hms();
    Some(format!("{} {hours:02}:{minutes:02}:{seconds:02} UTC", time.date()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_in_the_calendars_range_is_formatted() {
        let printed = utc(Duration::from_secs(1_700_000_000));
        assert_eq!(printed.as_deref(), Some("2023-11-14 22:13:20 UTC"));
        assert_eq!(utc(Duration::MAX), None);
    }
}
