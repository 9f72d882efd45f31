//! `hmtt phases`: when the rate of accesses or the working set changes, and the working set over time.

use std::io::{self, Write};

use anyhow::Result;
use hmtt::analysis::Analysis;
use hmtt::analysis::phases::{MemoryPhases, Phase, phases};
use hmtt::analysis::working_set::{Working, WorkingSet, WorkingSets};
use serde_json::{Value, json};

use super::figures::{bytes, seconds};
use super::input::analyse;
use super::options::{Options, Slicing};
use super::output::{Forms, line, write};
use super::stats::slice_length;

/// Find when the rate of accesses or the working set changes
#[derive(clap::Args)]
#[command(after_help = "Slices are of 1 ms, or of 2^20 accesses where time is not known.")]
pub struct Arguments {
    #[command(flatten)]
    options: Options,
    #[command(flatten)]
    slicing: Slicing,
    /// Print the working set of each slice, too; in CSV instead of the phases
    #[arg(long)]
    working_set: bool,
}

const PHASES: &str = "source,first_slice,last_slice,accesses,slice_accesses,slice_pages,new_pages";
const SLICES: &str = "source,slice,accesses,pages,new_pages";

/// Runs the command. Returns whether something is missing.
pub fn run(arguments: &Arguments) -> Result<bool> {
    let Arguments { options, slicing, working_set } = arguments;
    let (found, files) = analyse(options, WorkingSet::new(slicing.length()))?;
    let sets = found.result();
    let found: Vec<MemoryPhases> = sets.iter().map(phases).collect();
    let mut json = json!(found);
    if let Value::Array(memories) = &mut json
        && *working_set
    {
        for (memory, of) in memories.iter_mut().zip(&sets) {
            memory["working_set"] = json!(of.slices);
        }
    }
    let rows = |output: &mut dyn Write| match working_set {
        true => sets.iter().try_for_each(|of| write_slices(of, output)),
        false => found.iter().try_for_each(|of| write_phases(of, output)),
    };
    let text = |output: &mut dyn Write| {
        found.iter().zip(&sets).try_for_each(|(of, sets)| {
            write_text(of, output)?;
            if *working_set { write_working(sets, output) } else { Ok(()) }
        })
    };
    let heading = if *working_set { SLICES } else { PHASES };
    write(options, files, Forms { name: "phases", json, heading, rows: &rows, text: &text })
}

fn write_phases(of: &MemoryPhases, output: &mut dyn Write) -> io::Result<()> {
    of.phases.iter().try_for_each(|phase| {
        let Phase { first_slice, last_slice, accesses, new_pages, .. } = phase;
        let Phase { slice_accesses, slice_pages, .. } = phase;
        let source = of.source;
        writeln!(output, "{source},{first_slice},{last_slice},{accesses},{slice_accesses},{slice_pages},{new_pages}")
    })
}

fn write_slices(of: &WorkingSets, output: &mut dyn Write) -> io::Result<()> {
    of.slices.iter().try_for_each(|Working { slice, accesses, pages, new_pages }| {
        writeln!(output, "{},{slice},{accesses},{pages},{new_pages}", of.source)
    })
}

fn write_text(of: &MemoryPhases, output: &mut dyn Write) -> io::Result<()> {
    let length = slice_length(of.slice_unit, of.slice_length, of.slice_seconds);
    line(output, "slices", &format!("source {}, of {length}", of.source))?;
    line(output, "phases", &of.phases.len().to_string())?;
    if of.phases.is_empty() {
        return Ok(());
    }
    writeln!(
        output,
        "\n{:>24}  {:>12}  {:>14}  {:>16}  {:>14}",
        "slices", "begin", "accesses/slice", "working set", "new pages"
    )?;
    for phase in &of.phases {
        let range = format!("{} to {}", phase.first_slice, phase.last_slice);
        let begin = of.slice_seconds.map(|time| seconds(phase.first_slice as f64 * time));
        let begin = begin.unwrap_or_else(|| "-".into());
        let set = bytes((phase.slice_pages * 4096.0) as u64);
        writeln!(
            output,
            "{range:>24}  {begin:>12}  {:>14.0}  {set:>16}  {:>14}",
            phase.slice_accesses, phase.new_pages
        )?;
    }
    Ok(())
}

fn write_working(of: &WorkingSets, output: &mut dyn Write) -> io::Result<()> {
    writeln!(
        output,
        "\n{:>12}  {:>14}  {:>14}  {:>14}",
        "slice", "accesses", "pages", "new pages"
    )?;
    of.slices.iter().try_for_each(|Working { slice, accesses, pages, new_pages }| {
        writeln!(output, "{slice:>12}  {accesses:>14}  {pages:>14}  {new_pages:>14}")
    })
}
