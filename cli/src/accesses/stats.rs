//! `hmtt stats`: sums, time, bandwidth, distinct pages and lines, and the busiest slices.

use std::io::{self, Write};

use anyhow::Result;
use hmtt::analysis::Analysis;
use hmtt::analysis::frequency::{Frequency, Rate, Rates};
use hmtt::analysis::slices::SliceUnit;
use hmtt::analysis::summary::{Summary, Sums};
use serde_json::{Value, json};

use super::figures::{counted, per_second, seconds, share, with_bytes};
use super::input::analyse;
use super::options::{Options, Slicing};
use super::output::{Forms, line, optional, write};

/// Sum up accesses: reads, writes, bytes, time, bandwidth, distinct pages and lines
#[derive(clap::Args)]
#[command(
    after_help = "With --slice or --slice-accesses, CSV has a row for each slice, and JSON a list of them."
)]
pub struct Arguments {
    #[command(flatten)]
    options: Options,
    #[command(flatten)]
    slicing: Slicing,
}

/// Processes, and mappings, that are listed with a map of pages.
const LISTED: usize = 10;

const SUMS: &str = "accesses,reads,writes,access_bytes,pages,lines,thread_count,duration_clocks,\
     duration_seconds,accesses_per_second,bytes_per_second,gap_count,lost_accesses";
const SLICES: &str = "source,slice,reads,writes";

/// Runs the command. Returns whether something is missing.
pub fn run(arguments: &Arguments) -> Result<bool> {
    let Arguments { options, slicing } = arguments;
    let frequency = slicing.is_given().then(|| Frequency::new(slicing.length()));
    let (found, files) = analyse(options, (Summary::default(), frequency))?;
    let owners = files.resolution.clone();
    let (sums, rates) = found.result();
    let mut json = json!(sums);
    if let (Value::Object(json), Some(rates)) = (&mut json, &rates) {
        json.insert("frequency".to_owned(), json!(rates));
    }
    let rows = |output: &mut dyn Write| match &rates {
        Some(rates) => rates.iter().try_for_each(|of| write_slices(of, output)),
        None => write_row(&sums, output),
    };
    let text = |output: &mut dyn Write| {
        write_sums(&sums, output)?;
        rates.iter().flatten().try_for_each(|of| write_rates(of, output))?;
        owners.as_ref().map_or(Ok(()), |of| of.write_tables(LISTED, output))
    };
    let heading = if rates.is_some() { SLICES } else { SUMS };
    write(options, files, Forms { name: "stats", json, heading, rows: &rows, text: &text })
}

fn write_row(sums: &Sums, output: &mut dyn Write) -> io::Result<()> {
    let Sums { accesses, reads, writes, access_bytes, pages, lines, .. } = sums;
    let of_time = [
        optional(sums.thread_count),
        optional(sums.duration_clocks),
        optional(sums.duration_seconds),
        optional(sums.accesses_per_second),
        optional(sums.bytes_per_second),
    ];
    let Sums { gap_count, lost_accesses, .. } = sums;
    writeln!(
        output,
        "{accesses},{reads},{writes},{access_bytes},{pages},{lines},{},{gap_count},{lost_accesses}",
        of_time.join(",")
    )
}

fn write_slices(of: &Rates, output: &mut dyn Write) -> io::Result<()> {
    of.slices.iter().try_for_each(|Rate { slice, reads, writes }| {
        writeln!(output, "{},{slice},{reads},{writes}", of.source)
    })
}

/// The sums, each with its unit.
pub fn write_sums(sums: &Sums, output: &mut dyn Write) -> io::Result<()> {
    let all = sums.accesses;
    let of_all = |part: u64| format!("{part} ({})", share(part as f64, all));
    line(output, "accesses", &all.to_string())?;
    line(output, "reads", &of_all(sums.reads))?;
    line(output, "writes", &of_all(sums.writes))?;
    let unknown = match sums.unsized_accesses {
        0 => String::new(),
        more => format!(", without {} of unknown size", counted(more, "access")),
    };
    if sums.unsized_accesses < all || all == 0 {
        let value = format!("{}{unknown}", with_bytes(sums.access_bytes, 0));
        line(output, "bytes accessed", &value)?;
    }
    line(output, "pages of 4 KiB", &with_bytes(sums.pages, 12))?;
    line(output, "lines of 64 bytes", &with_bytes(sums.lines, 6))?;
    if let Some(threads) = sums.thread_count {
        line(output, "threads", &threads.to_string())?;
    }
    if let Some(clocks) = sums.duration_clocks {
        let time = sums.duration_seconds.map_or_else(String::new, |s| format!(" ({})", seconds(s)));
        line(output, "time", &format!("{}{time}", counted(clocks, "clock")))?;
    }
    if let Some(rate) = sums.accesses_per_second {
        line(output, "rate", &per_second(rate, " accesses"))?;
    }
    if let Some(rate) = sums.bytes_per_second {
        line(output, "bandwidth", &per_second(rate, "B"))?;
    }
    if sums.gap_count > 0 {
        let lost = counted(sums.lost_accesses, "access");
        let value =
            format!("{}, with {lost} whose number is known", counted(sums.gap_count, "gap"));
        line(output, "gaps", &value)?;
    }
    Ok(())
}

/// The length of slices, for people.
pub fn slice_length(unit: SliceUnit, length: u64, in_seconds: Option<f64>) -> String {
    match (unit, in_seconds) {
        (SliceUnit::Accesses, _) => counted(length, "access"),
        (_, Some(time)) => format!("{} ({})", counted(length, "clock"), seconds(time)),
        (_, None) => counted(length, "clock"),
    }
}

/// The slices of a memory in short: their number, and the one with most accesses.
fn write_rates(of: &Rates, output: &mut dyn Write) -> io::Result<()> {
    let length = slice_length(of.slice_unit, of.slice_length, of.slice_seconds);
    line(output, "slices", &format!("source {}, of {length}", of.source))?;
    line(output, "  with accesses", &of.slices.len().to_string())?;
    let accesses = |rate: &&Rate| rate.reads.saturating_add(rate.writes);
    // The first one of those with most.
    let most = of.slices.iter().rev().max_by_key(accesses);
    if let Some(most) = most {
        let count = accesses(&most);
        let rate = of.slice_seconds.map(|time| per_second(count as f64 / time, " accesses"));
        let rate = rate.map_or_else(String::new, |rate| format!(" ({rate})"));
        let value = format!("{}{rate}, in slice {}", counted(count, "access"), most.slice);
        line(output, "  most in one", &value)?;
    }
    Ok(())
}
