//! Prints what a query has read.

use std::io::{self, Write};
use std::time::Duration;

use crate::{Counts, Query};

/// Writes the metrics of a query that has ended.
pub fn write(
    output: &mut impl Write,
    query: &Query,
    counts: &Counts,
    rows: usize,
    time: Duration,
) -> io::Result<()> {
    let mut line = |name: &str, value: String| writeln!(output, "{name:<22} {value}");
    let share = 100.0 * counts.bytes_read as f64 / counts.bytes_total.max(1) as f64;
    line("rows", rows.to_string())?;
    line("seconds", format!("{:.3}", time.as_secs_f64()))?;
    line("bytes read", format!("{} of {} ({share:.3} %)", counts.bytes_read, counts.bytes_total))?;
    line("parts read", format!("{} of {}", counts.parts_chosen, counts.parts_total))?;
    for (name, metric) in [
        ("row groups skipped", ["row_groups_pruned_statistics", "row_groups_pruned_bloom_filter"]),
        ("rows skipped by pages", ["page_index_rows_pruned", ""]),
        ("bytes on disk", ["spilled_bytes", ""]),
    ] {
        let sum: usize = metric.iter().map(|metric| query.metric(metric)).sum();
        line(name, sum.to_string())?;
    }
    Ok(())
}
