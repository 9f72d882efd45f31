//! `hmtt dataset follow`: adds the files of a running capture, or logs of tags, each as soon as it
//! is finished.

use std::path::PathBuf;
use std::thread::sleep;
use std::time::Duration;

use anyhow::{Error, Result, bail};
use hmtt_dataset::{AddOptions, Added, Dataset, Followed, Follower, default_run};

use super::Folder;
use super::add::{self, Names};
use crate::format::EncodingOption;

/// Time between two scans of the folder.
const INTERVAL: Duration = Duration::from_secs(1);

/// Add the files that `hmtt-recv -w FILE -b ...` or `hmtt tag -o FILE.tags` writes, each when it is
/// finished
#[derive(clap::Args)]
#[command(
    after_help = "It may be ended at any time, also by kill -9: what it has begun is completed by the \
    next command that changes the data set, and files that it has missed are added when it is started again."
)]
pub struct Arguments {
    #[command(flatten)]
    folder: Folder,
    #[command(flatten)]
    names: Names,
    #[command(flatten)]
    encoding: EncodingOption,
    /// FILE as `hmtt-recv` has it, or FILE.tags as `hmtt tag` has it
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// End when no file is being written any more
    #[arg(long)]
    until_end: bool,
    /// Print a JSON object for each file
    #[arg(long)]
    json: bool,
}

/// Runs the command. Returns whether a file has losses.
pub fn run(arguments: &Arguments) -> Result<bool> {
    let Arguments { folder, names, encoding, file, until_end, json } = arguments;
    let run = names.run.clone().unwrap_or_else(|| default_run(file));
    let options = AddOptions { run: &run, receiver: names.receiver.as_deref() };
    let dataset = Dataset::new(&folder.folder).with_encodings(encoding.encodings());
    let mut follower = Follower::new(dataset, file);
    let (mut has_loss, mut failures) = (false, 0);
    loop {
        let is_writing = follower.poll(&options, |followed| match followed {
            Followed::Added(path, added) => {
                has_loss |= matches!(&added, Added::New(summary) if summary.has_loss());
                add::print(&path, &run, &added, *json);
            }
            Followed::Failed(path, error) => {
                failures += 1;
                let problem = format!("{}: {:#}", path.display(), Error::from(error));
                report!("hmtt: {}", hmtt_format::escape::message(&problem));
            }
        })?;
        if *until_end && !is_writing {
            break;
        }
        sleep(INTERVAL);
    }
    match failures {
        0 => Ok(has_loss),
        count => bail!("{count} files could not be added"),
    }
}
