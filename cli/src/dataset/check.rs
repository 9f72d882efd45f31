//! `hmtt dataset check`: compares a data set with the counts of its captures and logs.

use std::path::PathBuf;

use anyhow::{Result, bail};
use hmtt_dataset::Dataset;

use super::Folder;

/// Check that a data set has what its captures and logs counted, in order, with every gap
#[derive(clap::Args)]
#[command(
    after_help = "Reads every part. Rows, accesses, losses and gaps of each session are compared with \
    the counts in the tables of runs and threads; these are compared with the captures and logs themselves, where they \
    are given."
)]
pub struct Arguments {
    #[command(flatten)]
    folder: Folder,
    /// Captures and logs to be counted once more, without decoding them
    #[arg(value_name = "CAPTURE|LOG")]
    captures: Vec<PathBuf>,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

/// Runs the command. Returns whether accesses or events are lost.
pub fn run(arguments: &Arguments) -> Result<bool> {
    let dataset = Dataset::open(&arguments.folder.folder)?;
    let mut check = dataset.check()?;
    dataset.recount(&arguments.captures, &mut check)?;
    if arguments.json {
        println!("{}", hmtt_format::json::to_string_pretty(&check)?);
    } else {
        println!(
            "{} parts, {} bytes, {} captures, {} sessions",
            check.parts, check.part_bytes, check.captures, check.sessions
        );
        println!(
            "{} accesses, {} lost, {} gaps",
            check.access_rows, check.lost_accesses, check.gap_count
        );
        if check.call_rows != 0 || check.lost_events != 0 {
            println!("{} calls, {} events lost", check.call_rows, check.lost_events);
        }
        if !arguments.captures.is_empty() {
            println!("{} captures counted once more", check.recounted);
        }
    }
    match dataset.unfinished_changes()? {
        0 => {}
        changes => report!(
            "hmtt: {}: {changes} changes are being made or were interrupted, and are not checked; the next command of its \
            owner that changes it completes them",
            hmtt_format::escape::message(&arguments.folder.folder.display().to_string())
        ),
    }
    for problem in &check.problems {
        report!("hmtt: {}", hmtt_format::escape::message(problem));
    }
    match check.problem_count {
        0 => Ok(check.lost_accesses != 0 || check.lost_events != 0),
        count => bail!("{}: {count} problems", arguments.folder.folder.display()),
    }
}
