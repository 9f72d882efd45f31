//! Tags a process, and with `--follow` also its children and the programs that they execute, and
//! follows them until they end.
//!
//! A process that is followed alone is a process tree of one, and goes through the same steps.
//! [`Outputs`] receives the results of each process and writes them.

use anyhow::Result;
use hmtt_probe::control::{PerfMap, Start, Tagged, follow_tree};
use hmtt_probe::ptrace::Process;

use super::options::{Prepared, TagOptions};
use super::outputs::{Outputs, Written};
use super::warnings::warn_of_leak_detector;
use super::{program, rules};

/// The times at which tagging starts.
#[derive(Clone, Copy)]
pub struct Starts {
    /// Start of tagging in the first process.
    pub first: Start,
    /// Start of tagging in programs that processes execute.
    pub executed: Start,
}

/// Tags a process whose threads are stopped, follows it and writes the outputs. Returns whether
/// events or counts were lost. If the exit status of the tagged process is not 0, this process ends
/// with the same status.
pub fn run(
    process: Process,
    options: &TagOptions,
    starts: Starts,
    prepared: Prepared,
) -> Result<bool> {
    let Prepared { selection, output, process_output, signals, new_files } = prepared;
    warn_of_leak_detector(process.pid);
    let image = program::read_from_process(process.pid, &selection)?;
    let perf_map = options.perf_map.then(|| PerfMap::create(process.pid)).transpose()?;
    // A program that is executed later may contain functions that this one lacks.
    if !options.follow {
        rules::check(&selection, &image)?;
    }
    let rules = selection.clone();
    let chosen = options.auto.choose(process, &image, selection, starts.first, signals)?;
    let Some((process, selection, start)) = chosen else { return Ok(false) };
    let mut tagged = Tagged::new(process, image, selection, output, start)?;
    if let Some(Err(error)) = options.budget.map(|share| tagged.set_budget(share)) {
        tagged.give_up();
        return Err(error.into());
    }
    new_files.keep();
    let executed = options.follow.then_some(starts.executed);
    let is_tree = executed.is_some();
    let mut outputs =
        Outputs::new(&options.output, tagged.pid(), process_output, perf_map, is_tree);
    let ending = follow_tree(tagged, executed, signals, &mut outputs)?;
    rules::warn_of_unmatched(&rules, is_tree);
    let end = outputs.wait_for_end(ending)?;
    let Written { has_failed, is_lost } = outputs.finish();
    end.exit_if_failed(has_failed);
    Ok(is_lost)
}
