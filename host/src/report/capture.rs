//! What a capture brought, and what it did not, to the summary people read.

use std::io::{self, Write};

use super::summary::write_counts;
use crate::receive::{Link, Outcome};

/// Writes what a receiver got and did not get, interface by interface.
pub fn write_outcome(outcome: &Outcome, output: &mut dyn Write) -> io::Result<()> {
    let Outcome { total, seconds, .. } = outcome;
    writeln!(output, "{} frames captured in {seconds:.1} s", total.captured)?;
    if outcome.files != 0 {
        let plural = if outcome.files == 1 { "" } else { "s" };
        let Outcome { written_bytes, files, .. } = outcome;
        writeln!(output, "{written_bytes} bytes in {files} file{plural}")?;
    }
    if outcome.unwritten_frames != 0 {
        writeln!(output, "{:<25} {}", "captured, NOT written", outcome.unwritten_frames)?;
    }
    if outcome.skipped_frames != 0 {
        writeln!(output, "{:<25} {} frames", "online statistics skipped", outcome.skipped_frames)?;
    }
    for link in &outcome.links {
        if outcome.links.len() > 1 {
            writeln!(output, "interface {}: {} frames", link.interface, link.captured)?;
        }
        write_link(link, output)?;
    }
    for Link { interface, same_frames_as, .. } in &outcome.links {
        if let Some(other) = same_frames_as {
            writeln!(output, "{interface} carries the same frames as {other}: a mirror port?")?;
        }
    }
    Ok(())
}

fn write_link(link: &Link, output: &mut dyn Write) -> io::Result<()> {
    let known =
        |count: Option<u64>| count.map_or("not known".to_owned(), |count| count.to_string());
    let statistics = &link.statistics;
    if let Some(reason) = &link.failed {
        writeln!(output, "FAILED                    {reason}")?;
    }
    writeln!(output, "dropped by the kernel     {}", known(statistics.kernel_drops))?;
    writeln!(output, "dropped by the interface  {}", known(statistics.interface_drops))?;
    if let Some(missed @ 1..) = statistics.interface_missed {
        writeln!(output, "of these, without buffer  {missed}")?;
    }
    writeln!(output, "missing, lost on the wire {}", link.missing_on_wire)?;
    write_counts(&link.counts, output)
}
