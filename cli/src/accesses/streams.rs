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
    let Analysed { found, files, groups } = analyse_split(options, split, need, new)?;
    let found = found.result();
    let rows = |output: &mut dyn Write| write_rows(&found, output);
    let text = |output: &mut dyn Write| write_text(&found, output);
    let heading = "stride_bytes,accesses";
    let columns = &["in streams", "hottest stride"];
    let view = View {
        columns,
        cells: &cells,
        json: &|found| json!(found),
        rows: &|group, output| write_rows(&group.result, output),
    };
    let groups = groups.as_ref().map(|groups| GroupForms { groups, view });
    let groups = groups.as_ref().map(|groups| groups as &dyn Printed);
    let json = json!(found);
    let forms = Forms { name: "streams", json, heading, rows: &rows, text: &text };
    write_split(options, files, forms, groups)
}

fn write_rows(found: &Found, output: &mut dyn Write) -> io::Result<()> {
    found.strides.iter().try_for_each(|Stride { stride_bytes, accesses }| {
        writeln!(output, "{stride_bytes},{accesses}")
    })
}

/// The part of accesses in streams, and the most frequent stride.
fn cells(found: &Found) -> Vec<String> {
    let hottest = found.strides.first().map(|stride| stride.stride_bytes.to_string());
    let part = share(found.stream_accesses as f64, found.accesses);
    vec![part, hottest.unwrap_or_else(|| "-".to_owned())]
}

fn write_text(found: &Found, output: &mut dyn Write) -> io::Result<()> {
    let all = found.accesses;
    let of_all = |part: u64| format!("{part} ({})", share(part as f64, all));
    let method = match found.by_instruction {
        true => "streams of each instruction",
        false => "streams of lines, 16 open ones",
    };
    line(output, "method", method)?;
    line(output, "accesses", &all.to_string())?;
    line(output, "in streams", &of_all(found.stream_accesses))?;
    line(output, "to the same address", &of_all(found.repeated_accesses))?;
    if !found.strides.is_empty() {
        writeln!(output, "\n{:>20}  {:>14}  {:>9}", "stride in bytes", "accesses", "of all")?;
    }
    for Stride { stride_bytes, accesses } in &found.strides {
        let part = share(*accesses as f64, all);
        writeln!(output, "{stride_bytes:>20}  {accesses:>14}  {part:>9}")?;
    }
    if found.other_strides > 0 {
        let part = share(found.other_strides as f64, all);
        writeln!(output, "{:>20}  {:>14}  {part:>9}", "others", found.other_strides)?;
    }
    if !found.stream_lengths.is_empty() {
        writeln!(output, "\n{:>20}  {:>14}", "accesses of a stream", "streams")?;
    }
    for one in &found.stream_lengths {
        let range = match one.at_least == one.at_most {
            true => one.at_least.to_string(),
            false => format!("{} to {}", one.at_least, one.at_most),
        };
        writeln!(output, "{range:>20}  {:>14}", one.streams)?;
    }
    Ok(())
}
