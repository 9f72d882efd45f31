//! `hmtt reuse`: computes reuse distances, exactly or from a sample.

use std::io::{self, Write};

use anyhow::Result;
use hmtt::analysis::Analysis;
use hmtt::analysis::reuse::{Bucket, Reuse, Reuses};
use hmtt::analysis::shards::Shards;
use serde_json::json;

use super::figures::{bytes, percent, share};
use super::input::Files;
use super::need::Need;
use super::options::{Distances, Options};
use super::output::{Forms, Printed, line, write_split};
use super::split::Groups;
use super::split::forms::{Forms as GroupForms, View};
use super::split::options::SplitOptions;
use super::split::{Analysed, analyse_split};

/// Print how many other lines were accessed between two accesses to a line
#[derive(clap::Args)]
#[command(
    after_help = "Distances are those of an LRU stack. An access touches each line that it has bytes of."
)]
pub struct Arguments {
    #[command(flatten)]
    options: Options,
    #[command(flatten)]
    split: SplitOptions,
    #[command(flatten)]
    distances: Distances,
}

/// Runs the command. Returns whether a file or the map of pages is incomplete.
pub fn run(arguments: &Arguments) -> Result<bool> {
    let Arguments { options, split, distances } = arguments;
    let log2 = distances.unit_log2();
    match distances.sample {
        None => {
            let new = Reuse::new(log2);
            let need = Need::of("hmtt reuse", &new);
            let Analysed { found: analysis, files, groups } =
                analyse_split(options, split, need, new)?;
            print(options, files, &analysis.result(), groups)
        }
        Some(rate) => {
            let new = Shards::new(log2, rate);
            let need = Need::of("hmtt reuse", &new);
            let Analysed { found: analysis, files, groups } =
                analyse_split(options, split, need, new)?;
            print(options, files, &analysis.result(), groups)
        }
    }
}

fn print(
    options: &Options,
    files: Files,
    reuses: &Reuses,
    groups: Option<Groups<Reuses>>,
) -> Result<bool> {
    let rows = |output: &mut dyn Write| write_rows(reuses, output);
    let text = |output: &mut dyn Write| write_text(reuses, output);
    let heading = "distance_at_least,distance_at_most,touches";
    let columns = &["touches", "first touches"];
    let view = View {
        columns,
        cells: &cells,
        json: &|reuses| json!(reuses),
        rows: &|group, output| write_rows(&group.result, output),
    };
    let groups = groups.as_ref().map(|groups| GroupForms { groups, view });
    let groups = groups.as_ref().map(|groups| groups as &dyn Printed);
    let json = json!(reuses);
    let forms = Forms { name: "reuse", json, heading, rows: &rows, text: &text };
    write_split(options, files, forms, groups)
}

fn write_rows(reuses: &Reuses, output: &mut dyn Write) -> io::Result<()> {
    reuses.distances.iter().try_for_each(|bucket| {
        let Bucket { distance_at_least, distance_at_most, touches } = bucket;
        writeln!(output, "{distance_at_least},{distance_at_most},{touches}")
    })
}

/// Number of touches, and number of first touches of a line or page.
fn cells(reuses: &Reuses) -> Vec<String> {
    let first = reuses.first_touches.max(0.0).round();
    vec![reuses.touches.to_string(), format!("{first:.0}")]
}

/// Writes the sampling method, and how far the number of sampled touches is from the expected
/// number.
pub fn write_sample(
    rate: f64,
    sampled: u64,
    touches: u64,
    output: &mut dyn Write,
) -> io::Result<()> {
    if rate >= 1.0 {
        return line(output, "method", "exact");
    }
    let expected = touches as f64 * rate;
    let more = sampled as f64 - expected;
    let word = if more < 0.0 { "fewer" } else { "more" };
    let more = if expected > 0.0 { percent(more.abs() / expected) } else { "-".to_owned() };
    line(output, "method", &format!("estimated from {} of all lines (SHARDS-adj)", percent(rate)))?;
    line(output, "sampled touches", &format!("{sampled} ({more} {word} than expected)"))
}

fn write_text(reuses: &Reuses, output: &mut dyn Write) -> io::Result<()> {
    write_sample(reuses.sampling_rate, reuses.sampled_touches, reuses.touches, output)?;
    line(output, "unit", &format!("{} bytes", reuses.unit_bytes))?;
    line(output, "touches of units", &reuses.touches.to_string())?;
    let first = reuses.first_touches.max(0.0).round();
    let part = share(first, reuses.touches);
    let size = bytes((first as u64).saturating_mul(reuses.unit_bytes));
    line(output, "first touches", &format!("{first:.0} ({part}): {size}"))?;
    if reuses.distances.is_empty() {
        return Ok(());
    }
    writeln!(
        output,
        "\n{:>32}  {:>14}  {:>9}  {:>9}",
        "distance in units", "touches", "of all", "up to it"
    )?;
    let mut sum = 0.0;
    for Bucket { distance_at_least, distance_at_most, touches } in &reuses.distances {
        sum += touches;
        let range = if distance_at_least == distance_at_most {
            distance_at_least.to_string()
        } else {
            format!("{distance_at_least} to {distance_at_most}")
        };
        let [part, up_to] = [*touches, sum].map(|count| share(count, reuses.touches));
        writeln!(output, "{range:>32}  {touches:>14.0}  {part:>9}  {up_to:>9}")?;
    }
    Ok(())
}
