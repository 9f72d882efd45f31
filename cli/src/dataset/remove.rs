//! `hmtt dataset drop`: removes a run, or a board of it, from a data set.

use anyhow::{Result, bail};
use hmtt_dataset::Dataset;

use super::Folder;

/// Remove a run, or one board of it, from a data set
#[derive(clap::Args)]
pub struct Arguments {
    #[command(flatten)]
    folder: Folder,
    /// Name of the run
    #[arg(long, value_name = "NAME")]
    run: String,
    /// Remove only this board
    #[arg(long, value_name = "NAME")]
    board: Option<String>,
}

/// Runs the command. Always returns false, because nothing can be missing.
pub fn run(arguments: &Arguments) -> Result<bool> {
    let Arguments { folder, run, board } = arguments;
    let removed = Dataset::open(&folder.folder)?.drop_run(run, board.as_deref())?;
    if removed == 0 {
        bail!("{}: there is no such run or board", folder.folder.display());
    }
    println!("{removed} parts removed");
    Ok(false)
}
