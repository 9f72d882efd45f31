//! `hmtt dataset add`: adds captures and logs of tags to a data set.

use std::path::{Path, PathBuf};

use anyhow::{Result, ensure};
use hmtt_dataset::{AddOptions, Added, Dataset, LogCounts, default_run};
use serde_json::json;

use super::Folder;
use crate::format::EncodingOption;

/// Add captures, and logs of `hmtt tag`, to a data set, which is created if need be
#[derive(clap::Args)]
#[command(
    after_help = "A capture or log that the data set has already, under whatever name, is left out. Each \
    appears whole: what is interrupted is completed by the next command that changes the data set."
)]
pub struct Arguments {
    #[command(flatten)]
    folder: Folder,
    #[command(flatten)]
    names: Names,
    #[command(flatten)]
    encoding: EncodingOption,
    /// Captures, and logs of tags, each with LOG.json beside it
    #[arg(value_name = "CAPTURE|LOG", required = true)]
    captures: Vec<PathBuf>,
    /// Print a JSON object for each capture
    #[arg(long)]
    json: bool,
}

/// Names of what is added.
#[derive(clap::Args)]
pub struct Names {
    /// Name of the run; by default that of the file, without what `hmtt-recv -b` or `hmtt tag -f`
    /// appends
    #[arg(long, value_name = "NAME")]
    pub run: Option<String>,
    /// Name of the receiver, which becomes the first part of its boards' names: NAME-eth1,
    /// NAME-pid4711
    #[arg(long, value_name = "NAME")]
    pub receiver: Option<String>,
}

/// Runs the command. Returns whether a capture has losses.
pub fn run(arguments: &Arguments) -> Result<bool> {
    let dataset =
        Dataset::new(&arguments.folder.folder).with_encodings(arguments.encoding.encodings());
    let mut has_loss = false;
    for capture in &arguments.captures {
        has_loss |= add(&dataset, capture, &arguments.names, arguments.json)?;
    }
    Ok(has_loss)
}

/// Adds a capture or log, and prints its counts. Returns whether it has losses.
fn add(dataset: &Dataset, capture: &Path, names: &Names, json: bool) -> Result<bool> {
    let run = names.run.clone().unwrap_or_else(|| default_run(capture));
    ensure!(!run.is_empty(), "{}: give the run a name", capture.display());
    let options = AddOptions { run: &run, receiver: names.receiver.as_deref() };
    let added = dataset.add(capture, &options)?;
    print(capture, &run, &added, json);
    Ok(matches!(&added, Added::New(summary) if summary.has_loss()))
}

/// Prints the result of adding a capture or log.
pub fn print(capture: &Path, run: &str, added: &Added, json: bool) {
    let path = capture.display().to_string();
    let (name, shown) = (hmtt_format::escape::message(&path), hmtt_format::escape::message(run));
    match added {
        Added::Present if json => println!("{}", json!({"file": path, "is_new": false})),
        Added::Present => println!("{name}: in the data set already"),
        Added::New(summary) => {
            let (counts, parts) = (summary.counts.sum(), summary.parts.len());
            if let Some(log) = &summary.log {
                let LogCounts { threads, calls, lost_events } = log;
                if json {
                    let object = json!({
                        "file": path,
                        "is_new": true,
                        "capture": summary.hash.to_string(),
                        "run": run,
                        "parts": parts,
                        "threads": threads,
                        "calls": calls,
                        "lost_events": lost_events,
                        "is_cut": summary.is_cut,
                    });
                    println!("{object}");
                } else {
                    println!(
                        "{name}: {calls} calls of {threads} threads, {lost_events} events lost, added to run \
                         {shown} in {parts} parts"
                    );
                }
                return;
            }
            let (accesses, lost) = (counts.accesses, counts.lost_accesses);
            if json {
                let object = json!({
                    "file": path,
                    "is_new": true,
                    "capture": summary.hash.to_string(),
                    "run": run,
                    "parts": parts,
                    "accesses": accesses,
                    "lost_accesses": lost,
                    "is_cut": summary.is_cut,
                });
                println!("{object}");
            } else {
                println!(
                    "{name}: {accesses} accesses, {lost} lost, added to run {shown} in {parts} parts"
                );
            }
        }
    }
}
