//! `hmtt dataset compact`: merges the small parts of a data set.

use anyhow::Result;
use hmtt_dataset::Dataset;

use super::Folder;
use crate::format::EncodingOption;

/// Merge the small parts of each partition into one, so that queries open fewer files
#[derive(clap::Args)]
#[command(
    after_help = "A query that reads a partition while its parts are replaced may see rows twice."
)]
pub struct Arguments {
    #[command(flatten)]
    folder: Folder,
    #[command(flatten)]
    encoding: EncodingOption,
}

/// Runs the command. Always returns false, because nothing can be missing.
pub fn run(arguments: &Arguments) -> Result<bool> {
    let dataset = Dataset::open(&arguments.folder.folder)?;
    let compacted = dataset.with_encodings(arguments.encoding.encodings()).compact()?;
    println!("{} parts merged into {}", compacted.merged, compacted.written);
    Ok(false)
}
