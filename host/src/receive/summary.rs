//! Prints the summary of a capture: what was captured and what was lost.

use std::io::{self, Write};

use hmtt::report::summary::{utc, write_counts};
use hmtt_format::escape;

use super::{ClockStep, Link, Outcome};
use crate::files::Fate;

/// Number of lost files, and of clock steps, that the summary lists individually.
const LISTED: usize = 20;

/// Writes the summary, interface by interface.
///
/// # Errors
/// If the output cannot be written.
pub fn write_outcome(outcome: &Outcome, output: &mut dyn Write) -> io::Result<()> {
    let Outcome { total, seconds, .. } = outcome;
    writeln!(output, "{} frames captured in {seconds:.1} s", total.captured_frames)?;
    if outcome.files != 0 {
        let plural = if outcome.files == 1 { "" } else { "s" };
        let Outcome { written_bytes, files, .. } = outcome;
        writeln!(output, "{written_bytes} bytes in {files} file{plural}")?;
    }
    if outcome.unwritten_frames != 0 {
        writeln!(output, "{:<25} {}", "captured, NOT written", outcome.unwritten_frames)?;
    }
    write_lost_files(outcome, output)?;
    write_clock_steps(outcome, output)?;
    if outcome.skipped_frames != 0 {
        writeln!(output, "{:<25} {} frames", "online statistics skipped", outcome.skipped_frames)?;
    }
    for link in &outcome.links {
        if outcome.links.len() > 1 {
            let interface = escape::name(&link.interface);
            writeln!(output, "interface {interface}: {} frames", link.captured_frames)?;
        }
        write_link(link, output)?;
    }
    for Link { interface, same_frames_as, .. } in &outcome.links {
        if let Some(other) = same_frames_as {
            let (interface, other) = (escape::name(interface), escape::name(other));
            writeln!(output, "{interface} carries the same frames as {other}: a mirror port?")?;
        }
    }
    Ok(())
}

fn write_lost_files(outcome: &Outcome, output: &mut dyn Write) -> io::Result<()> {
    if outcome.lost_file_count == 0 {
        return Ok(());
    }
    writeln!(output, "{:<25} {}", "files LOST under us", outcome.lost_file_count)?;
    for file in outcome.lost_files.iter().take(LISTED) {
        let fate = match file.fate {
            Fate::Removed => "was removed while it was written",
            Fate::Replaced => {
                "was replaced while it was written; what has its name now is not ours"
            }
            Fate::Renamed => "was renamed while it was written",
        };
        writeln!(output, "{} {fate}", file.path.display())?;
    }
    write_unlisted(outcome.lost_file_count, "files", output)
}

fn write_clock_steps(outcome: &Outcome, output: &mut dyn Write) -> io::Result<()> {
    for step in outcome.clock_steps.iter().take(LISTED) {
        let ClockStep { step_seconds, time_seconds, captured_frames, first_frame } = step;
        let way = if *step_seconds < 0.0 { "back" } else { "forward" };
        write!(output, "clock SET {way} by {:.3} s", step_seconds.abs())?;
        let time = std::time::Duration::try_from_secs_f64(*time_seconds).ok().and_then(utc);
        if let Some(time) = time {
            write!(output, " after {time}")?;
        }
        match first_frame {
            Some(frame) => writeln!(output, ", seen first at captured frame {frame}")?,
            None => writeln!(output, ", when {captured_frames} frames were captured")?,
        }
    }
    write_unlisted(outcome.clock_step_count, "steps of the clock", output)
}

fn write_outages(link: &Link, output: &mut dyn Write) -> io::Result<()> {
    for outage in link.outages.iter().take(LISTED) {
        match outage.duration_seconds {
            Some(seconds) => write!(output, "{:<25} for {seconds:.3} s", "the interface was DOWN")?,
            None => write!(output, "{:<25} to the end", "the interface was DOWN")?,
        }
        let time = std::time::Duration::try_from_secs_f64(outage.time_seconds).ok().and_then(utc);
        match time {
            Some(time) => writeln!(output, ", from {time}")?,
            None => writeln!(output)?,
        }
    }
    match link.outage_count.saturating_sub(LISTED as u64) {
        0 => Ok(()),
        more => writeln!(output, "and {more} times more"),
    }
}

fn write_unlisted(count: u64, what: &str, output: &mut dyn Write) -> io::Result<()> {
    match count.saturating_sub(LISTED as u64) {
        0 => Ok(()),
        more => writeln!(output, "and {more} more {what}"),
    }
}

fn write_link(link: &Link, output: &mut dyn Write) -> io::Result<()> {
    let known =
        |count: Option<u64>| count.map_or("not known".to_owned(), |count| count.to_string());
    let statistics = &link.statistics;
    if let Some(reason) = &link.failed {
        writeln!(output, "FAILED                    {}", escape::message(reason))?;
    }
    write_outages(link, output)?;
    writeln!(output, "dropped by the kernel     {}", known(statistics.kernel_dropped_frames))?;
    writeln!(output, "dropped by the interface  {}", known(statistics.interface_dropped_frames))?;
    if let Some(missed @ 1..) = statistics.interface_missed_frames {
        writeln!(output, "of these, without buffer  {missed}")?;
    }
    writeln!(output, "missing, lost on the wire {}", link.wire_lost_frames)?;
    write_counts(&link.counts, output)
}
