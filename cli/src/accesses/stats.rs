//! `hmtt stats`: prints sums, time, bandwidth, distinct pages and lines, and the busiest slices.

use std::io::{self, Write};

use anyhow::Result;
use hmtt::analysis::frequency::{Frequency, Rate, Rates};
use hmtt::analysis::slices::SliceUnit;
use hmtt::analysis::source::Part;
use hmtt::analysis::summary::{Summary, Sums};
use hmtt::analysis::{Analysis, Detail};
use serde_json::{Value, json};

use super::figures::{counted, per_second, seconds, share, with_bytes};
use super::need::Need;
use super::options::{CardSlices, Options, Slicing};
use super::output::{Forms, Printed, line, optional, write_split};
use super::split::forms::{Forms as GroupForms, View};
use super::split::options::SplitOptions;
use super::split::profile::{self, ProfileOptions};
use super::split::{Analysed, analyse_observed};

/// Sum up accesses: reads, writes, bytes, time, bandwidth, distinct pages and lines
#[derive(clap::Args)]
#[command(
    after_help = "With --slice or --slice-accesses, CSV has a row for each slice, and JSON a list of them."
)]
pub struct Arguments {
    #[command(flatten)]
    options: Options,
    #[command(flatten)]
    split: SplitOptions,
    #[command(flatten)]
    slicing: Slicing,
    #[command(flatten)]
    profile: ProfileOptions,
}

/// Maximum number of processes, or of mappings, that are listed with a map of pages.
const LISTED: usize = 10;

/// The sums, and the slices if the user wants them.
type Found = (Sums, Option<Vec<Rates>>);

/// CSV columns of sums.
pub const SUMS: &str = "accesses,reads,writes,access_bytes,pages,lines,thread_count,duration_clocks,\
     duration_seconds,accesses_per_second,bytes_per_second,gap_count,lost_accesses,\
     page_run_accesses,frequency_accesses";
/// CSV columns of slices.
const SLICES: &str = "source,slice,reads,writes";

/// Runs the command. Returns whether a file or the map of pages is incomplete.
pub fn run(arguments: &Arguments) -> Result<bool> {
    let Arguments { options, slicing, split, profile } = arguments;
    profile.check(options, split)?;
    let mut tracks = profile.tracks(split)?;
    let frequency = slicing.is_given().then(|| Frequency::new(slicing.length()));
    let new = (Summary::default(), frequency);
    let need = Need::of("hmtt stats", &new);
    let need = need.with(tracks.as_ref().map(|_| "hmtt stats --perfetto"), Detail::Address);
    let mut card_slices = CardSlices::default();
    let mut observe = |memory: usize, part: Part<'_>| {
        card_slices.part(memory, &part);
        tracks.iter_mut().for_each(|tracks| tracks.part(memory, part));
    };
    let analysed = analyse_observed(options, split, need, new, &mut observe)?;
    let Analysed { found: analysis, mut files, groups } = analysed;
    card_slices.check("hmtt stats", slicing)?;
    let stats = analysis.result();
    if stats.1.is_none() && tracks.is_none() {
        files.only_sum();
    }
    if let Some(groups) = &groups {
        profile::write(profile, groups, tracks)?;
    }
    let owners = files.resolution.clone();
    let rows = |output: &mut dyn Write| write_rows(&stats, output);
    let text = |output: &mut dyn Write| {
        write_sums(&stats.0, output)?;
        stats.1.iter().flatten().try_for_each(|of| write_rates(of, output))?;
        owners.as_ref().map_or(Ok(()), |of| of.write_tables(LISTED, output))
    };
    let heading = if stats.1.is_some() { SLICES } else { SUMS };
    let cells = |_: &Found| Vec::new();
    let view = View {
        columns: &[],
        cells: &cells,
        json: &to_json,
        rows: &|group, output| write_rows(&group.result, output),
    };
    let groups = groups.as_ref().map(|groups| GroupForms { groups, view });
    let groups = groups.as_ref().map(|groups| groups as &dyn Printed);
    let json = to_json(&stats);
    let forms = Forms { name: "stats", json, heading, rows: &rows, text: &text };
    write_split(options, files, forms, groups)
}

fn to_json((sums, rates): &Found) -> Value {
    let mut json = json!(sums);
    if let (Value::Object(json), Some(rates)) = (&mut json, rates) {
        json.insert("frequency".to_owned(), json!(rates));
    }
    json
}

fn write_rows((sums, rates): &Found, output: &mut dyn Write) -> io::Result<()> {
    match rates {
        Some(rates) => rates.iter().try_for_each(|of| write_slices(of, output)),
        None => write_row(sums, output),
    }
}

/// Writes sums as a CSV row.
pub fn write_row(sums: &Sums, output: &mut dyn Write) -> io::Result<()> {
    let Sums { accesses, reads, writes, pages, lines, .. } = sums;
    // The field is empty if no size is known.
    let has_bytes = sums.unsized_accesses < sums.accesses || sums.accesses == 0;
    let access_bytes = optional(has_bytes.then_some(sums.access_bytes));
    let of_time = [
        optional(sums.thread_count),
        optional(sums.duration_clocks),
        optional(sums.duration_seconds),
        optional(sums.accesses_per_second),
        optional(sums.bytes_per_second),
    ];
    let Sums { gap_count, lost_accesses, page_run_accesses, frequency_accesses, .. } = sums;
    writeln!(
        output,
        "{accesses},{reads},{writes},{access_bytes},{pages},{lines},{},{gap_count},{lost_accesses},\
         {page_run_accesses},{frequency_accesses}",
        of_time.join(",")
    )
}

fn write_slices(rates: &Rates, output: &mut dyn Write) -> io::Result<()> {
    rates.slices.iter().try_for_each(|Rate { slice, reads, writes }| {
        writeln!(output, "{},{slice},{reads},{writes}", rates.source)
    })
}

/// Writes the sums as text, each with its unit.
pub fn write_sums(sums: &Sums, output: &mut dyn Write) -> io::Result<()> {
    let total = sums.accesses;
    let of_all = |part: u64| format!("{part} ({})", share(part as f64, total));
    line(output, "accesses", &total.to_string())?;
    line(output, "reads", &of_all(sums.reads))?;
    line(output, "writes", &of_all(sums.writes))?;
    let unknown = match sums.unsized_accesses {
        0 => String::new(),
        more => format!(", without {} of unknown size", counted(more, "access")),
    };
    if sums.unsized_accesses < total || total == 0 {
        let value = format!("{}{unknown}", with_bytes(sums.access_bytes, 0));
        line(output, "bytes accessed", &value)?;
    }
    let without_page = sums.frequency_accesses;
    line(output, "pages of 4 KiB", &distinct(sums.pages, 12, total, without_page))?;
    let without_line = sums.page_run_accesses.saturating_add(without_page);
    line(output, "lines of 64 bytes", &distinct(sums.lines, 6, total, without_line))?;
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

/// The number of distinct pages or lines in words. `unknown`: number of accesses whose page or line
/// is not known, of all `accesses`.
pub fn distinct(count: u64, log2: u32, accesses: u64, unknown: u64) -> String {
    match unknown {
        0 => with_bytes(count, log2),
        missing if missing >= accesses => "not known".to_owned(),
        more => {
            let without = counted(more, "access");
            format!("{}, without {without} whose address is not known", with_bytes(count, log2))
        }
    }
}

/// The length of slices in words.
pub fn slice_length(unit: SliceUnit, length: u64, in_seconds: Option<f64>) -> String {
    match (unit, in_seconds) {
        (SliceUnit::Accesses, _) => counted(length, "access"),
        (_, Some(time)) => format!("{} ({})", counted(length, "clock"), seconds(time)),
        (_, None) => counted(length, "clock"),
    }
}

/// Writes a summary of a memory's slices: their number, and the slice with most accesses.
fn write_rates(rates: &Rates, output: &mut dyn Write) -> io::Result<()> {
    let length = slice_length(rates.slice_unit, rates.slice_length, rates.slice_seconds);
    line(output, "slices", &format!("source {}, of {length}", rates.source))?;
    line(output, "  with accesses", &rates.slices.len().to_string())?;
    let accesses = |rate: &&Rate| rate.reads.saturating_add(rate.writes);
    // The first of the slices that have the maximum. `max_by_key` returns the last one, so the
    // slices are reversed.
    let most = rates.slices.iter().rev().max_by_key(accesses);
    if let Some(most) = most {
        let count = accesses(&most);
        let rate = rates.slice_seconds.map(|time| per_second(count as f64 / time, " accesses"));
        let rate = rate.map_or_else(String::new, |rate| format!(" ({rate})"));
        let value = format!("{}{rate}, in slice {}", counted(count, "access"), most.slice);
        line(output, "  most in one", &value)?;
    }
    Ok(())
}
