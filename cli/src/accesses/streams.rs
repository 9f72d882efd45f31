//! `hmtt streams`: states which part of accesses continues with the same stride, and lists the
//! strides.

use std::io::{self, Write};

use anyhow::Result;
use hmtt::analysis::Analysis;
use hmtt::analysis::streams::{Found, Streams, Stride};
use serde_json::json;

use super::figures::share;
use super::need::Need;
use super::options::Options;
use super::output::{Forms, Printed, line, write_split};
use super::split::forms::{Forms as GroupForms, View};
use super::split::options::SplitOptions;
use super::split::{Analysed, analyse_split};

/// Print which part of accesses is in streams of one stride, the hottest strides, and how long
/// streams are
#[derive(clap::Args)]
#[command(
    after_help = "Streams are those of an instruction, in traces of programs; otherwise lines are assigned to 16 open streams."
)]
pub struct Arguments {
    #[command(flatten)]
    options: Options,
    #[command(flatten)]
    split: SplitOptions,
    /// List at most this many strides
    #[arg(long, value_name = "N", default_value_t = 10)]
    top: usize,
}

/// Runs the command. Returns whether a file or the map of pages is incomplete.
pub fn run(arguments: &Arguments) -> Result<bool> {
    let Arguments { options, split, top } = arguments;
    let new = Streams::new(*top);
    let need = Need::of("hmtt streams", &new);
    let Analysed { found: analysis, files, groups } = analyse_split(options, split, need, new)?;
    let streams = analysis.result();
    let rows = |output: &mut dyn Write| write_rows(&streams, output);
    let text = |output: &mut dyn Write| write_text(&streams, output);
    let heading = "stride_bytes,accesses";
    let columns = &["in streams", "hottest stride"];
    let view = View {
        columns,
        cells: &cells,
        json: &|streams| json!(streams),
        rows: &|group, output| write_rows(&group.result, output),
    };
    let groups = groups.as_ref().map(|groups| GroupForms { groups, view });
    let groups = groups.as_ref().map(|groups| groups as &dyn Printed);
    let json = json!(streams);
    let forms = Forms { name: "streams", json, heading, rows: &rows, text: &text };
    write_split(options, files, forms, groups)
}

fn write_rows(streams: &Found, output: &mut dyn Write) -> io::Result<()> {
    streams.strides.iter().try_for_each(|Stride { stride_bytes, accesses }| {
        writeln!(output, "{stride_bytes},{accesses}")
    })
}

/// The part of accesses in streams, and the most frequent stride.
fn cells(streams: &Found) -> Vec<String> {
    let hottest = streams.strides.first().map(|stride| stride.stride_bytes.to_string());
    let part = share(streams.stream_accesses as f64, streams.accesses);
    vec![part, hottest.unwrap_or_else(|| "-".to_owned())]
}

fn write_text(streams: &Found, output: &mut dyn Write) -> io::Result<()> {
    let total = streams.accesses;
    let of_all = |part: u64| format!("{part} ({})", share(part as f64, total));
    let method = if streams.by_instruction {
        "streams of each instruction"
    } else {
        "streams of lines, 16 open ones"
    };
    line(output, "method", method)?;
    line(output, "accesses", &total.to_string())?;
    line(output, "in streams", &of_all(streams.stream_accesses))?;
    line(output, "to the same address", &of_all(streams.repeated_accesses))?;
    if !streams.strides.is_empty() {
        writeln!(output, "\n{:>20}  {:>14}  {:>9}", "stride in bytes", "accesses", "of all")?;
    }
    for Stride { stride_bytes, accesses } in &streams.strides {
        let part = share(*accesses as f64, total);
        writeln!(output, "{stride_bytes:>20}  {accesses:>14}  {part:>9}")?;
    }
    if streams.other_strides > 0 {
        let part = share(streams.other_strides as f64, total);
        writeln!(output, "{:>20}  {:>14}  {part:>9}", "others", streams.other_strides)?;
    }
    if !streams.stream_lengths.is_empty() {
        writeln!(output, "\n{:>20}  {:>14}", "accesses of a stream", "streams")?;
    }
    for bucket in &streams.stream_lengths {
        let range = if bucket.at_least == bucket.at_most {
            bucket.at_least.to_string()
        } else {
            format!("{} to {}", bucket.at_least, bucket.at_most)
        };
        writeln!(output, "{range:>20}  {:>14}", bucket.streams)?;
    }
    Ok(())
}
