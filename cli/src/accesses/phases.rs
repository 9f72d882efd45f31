//! `hmtt phases`: finds when the rate of accesses or the working set changes, and prints the
//! working set over time.

use std::io::{self, Write};

use anyhow::Result;
use hmtt::analysis::Analysis;
use hmtt::analysis::phases::{MemoryPhases, Phase, phases};
use hmtt::analysis::timeline::{MemoryTime, Timeline};
use hmtt::analysis::working_set::{Working, WorkingSet, WorkingSets};
use serde_json::{Value, json};

use super::figures::{bytes, seconds};
use super::input::{Files, open};
use super::need::Need;
use super::options::{CardSlices, Options, Slicing};
use super::output::{Forms, Printed, line, write_split};
use super::split::forms::{Forms as GroupForms, View};
use super::split::options::SplitOptions;
use super::split::{Grouping, Groups, Observer, analyse_groups};
use super::stats::slice_length;

/// Find when the rate of accesses or the working set changes
#[derive(clap::Args)]
#[command(
    after_help = "Slices are those of hmtt report: some hundred, whose length the accesses determine. With --slice or \
    --slice-accesses they have the given length. Those of groups (--by) have 1 ms, or 2^20 accesses where time is not \
    known, if none is given."
)]
pub struct Arguments {
    #[command(flatten)]
    options: Options,
    #[command(flatten)]
    split: SplitOptions,
    #[command(flatten)]
    slicing: Slicing,
    /// Print the working set of each slice, too; in CSV instead of the phases
    #[arg(long)]
    working_set: bool,
}

const PHASES: &str = "source,first_slice,last_slice,accesses,slice_accesses,slice_pages,new_pages,\
     frequency_accesses";
const SLICES: &str = "source,slice,accesses,pages,new_pages,frequency_accesses";

/// The working set of each slice, for each memory.
type Found = Vec<WorkingSets>;

/// Runs the command. Returns whether a file or the map of pages is incomplete.
pub fn run(arguments: &Arguments) -> Result<bool> {
    let Arguments { options, split, slicing, working_set } = arguments;
    let (memories, files, groups) = analyse(options, split, slicing)?;
    let rows = |output: &mut dyn Write| write_rows(&memories, *working_set, output);
    let text = |output: &mut dyn Write| {
        memories.iter().try_for_each(|sets| {
            write_text(&phases(sets), output)?;
            if *working_set { write_working(sets, output) } else { Ok(()) }
        })
    };
    let heading = if *working_set { SLICES } else { PHASES };
    let columns = &["phases", "mean pages"];
    let view = View {
        columns,
        cells: &cells,
        json: &|memories| to_json(memories, *working_set),
        rows: &|group, output| write_rows(&group.result, *working_set, output),
    };
    let groups = groups.as_ref().map(|groups| GroupForms { groups, view });
    let groups = groups.as_ref().map(|groups| groups as &dyn Printed);
    let json = to_json(&memories, *working_set);
    let forms = Forms { name: "phases", json, heading, rows: &rows, text: &text };
    write_split(options, files, forms, groups)
}

/// Finds the working sets of all accesses, and of each group. If the user gives no slice length,
/// the slices of `hmtt report` are used for all accesses.
fn analyse(
    options: &Options,
    split: &SplitOptions,
    slicing: &Slicing,
) -> Result<(Found, Files, Option<Groups<Found>>)> {
    let fixed = WorkingSet::new(slicing.length());
    let groups = split.by()?.map(|by| Grouping::new(by, split, fixed.clone()));
    let (sources, pagemap) = (open(&options.files)?, options.pagemap.as_deref());
    let need = Need::of("hmtt phases", &fixed);
    let mut card_slices = CardSlices::default();
    let observe: Observer<'_> = &mut |memory, part| card_slices.part(memory, &part);
    if slicing.is_given() {
        let analysed = analyse_groups(sources, need, pagemap, fixed, groups, observe)?;
        card_slices.check("hmtt phases", slicing)?;
        return Ok((analysed.found.result(), analysed.files, analysed.groups));
    }
    let analysed = analyse_groups(sources, need, pagemap, Timeline::default(), groups, observe)?;
    let sets = analysed.found.result().iter().map(MemoryTime::working_sets).collect();
    Ok((sets, analysed.files, analysed.groups))
}

fn to_json(memories: &Found, with_sets: bool) -> Value {
    let object = |sets: &WorkingSets| {
        let mut memory = json!(phases(sets));
        if with_sets {
            memory["working_set"] = json!(sets.slices);
        }
        memory
    };
    memories.iter().map(object).collect()
}

fn write_rows(memories: &Found, with_sets: bool, output: &mut dyn Write) -> io::Result<()> {
    memories.iter().try_for_each(|sets| {
        if with_sets { write_slices(sets, output) } else { write_phases(&phases(sets), output) }
    })
}

/// The number of phases, and the mean number of pages in a slice, over all memories.
fn cells(memories: &Found) -> Vec<String> {
    let count: usize = memories.iter().map(|sets| phases(sets).phases.len()).sum();
    let slices = || memories.iter().flat_map(|sets| &sets.slices);
    let pages: u64 = slices().map(|slice| slice.pages).fold(0, u64::saturating_add);
    let mean = match slices().count() {
        0 => "-".to_owned(),
        slice_count => format!("{:.1}", pages as f64 / slice_count as f64),
    };
    vec![count.to_string(), mean]
}

fn write_phases(memory: &MemoryPhases, output: &mut dyn Write) -> io::Result<()> {
    memory.phases.iter().try_for_each(|phase| {
        let Phase { first_slice, last_slice, accesses, new_pages, .. } = phase;
        let Phase { slice_accesses, slice_pages, frequency_accesses, .. } = phase;
        let source = memory.source;
        writeln!(output, "{source},{first_slice},{last_slice},{accesses},{slice_accesses},{slice_pages},{new_pages},{frequency_accesses}")
    })
}

fn write_slices(memory: &WorkingSets, output: &mut dyn Write) -> io::Result<()> {
    memory.slices.iter().try_for_each(|working| {
        let Working { slice, accesses, pages, new_pages, frequency_accesses } = working;
        writeln!(
            output,
            "{},{slice},{accesses},{pages},{new_pages},{frequency_accesses}",
            memory.source
        )
    })
}

fn write_text(memory: &MemoryPhases, output: &mut dyn Write) -> io::Result<()> {
    let length = slice_length(memory.slice_unit, memory.slice_length, memory.slice_seconds);
    line(output, "slices", &format!("source {}, of {length}", memory.source))?;
    line(output, "phases", &memory.phases.len().to_string())?;
    if memory.phases.is_empty() {
        return Ok(());
    }
    writeln!(
        output,
        "\n{:>24}  {:>12}  {:>14}  {:>16}  {:>14}",
        "slices", "begin", "accesses/slice", "working set", "new pages"
    )?;
    for phase in &memory.phases {
        let range = format!("{} to {}", phase.first_slice, phase.last_slice);
        let begin = memory.slice_seconds.map(|time| seconds(phase.first_slice as f64 * time));
        let begin = begin.unwrap_or_else(|| "-".into());
        let has_pages = phase.frequency_accesses < phase.accesses;
        let known = |value: String| if has_pages { value } else { "not known".to_owned() };
        let set = known(bytes((phase.slice_pages * 4096.0) as u64));
        let new_pages = known(phase.new_pages.to_string());
        writeln!(
            output,
            "{range:>24}  {begin:>12}  {:>14.0}  {set:>16}  {new_pages:>14}",
            phase.slice_accesses
        )?;
    }
    Ok(())
}

fn write_working(memory: &WorkingSets, output: &mut dyn Write) -> io::Result<()> {
    writeln!(
        output,
        "\n{:>12}  {:>14}  {:>14}  {:>14}",
        "slice", "accesses", "pages", "new pages"
    )?;
    memory.slices.iter().try_for_each(|working| {
        let Working { slice, accesses, pages, new_pages, frequency_accesses } = *working;
        let has_pages = frequency_accesses < accesses;
        let known = |pages: u64| if has_pages { pages.to_string() } else { "not known".to_owned() };
        let (pages, new_pages) = (known(pages), known(new_pages));
        writeln!(output, "{slice:>12}  {accesses:>14}  {pages:>14}  {new_pages:>14}")
    })
}
