//! `hmtt dataset`: adds captures to a data set, and checks it.

mod add;
mod check;

use std::path::PathBuf;

use anyhow::Result;

/// Keep the traces of many boards and days as a folder of Parquet files, which databases read
#[derive(clap::Args)]
pub struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    Add(add::Arguments),
    Check(check::Arguments),
}

/// The data set of a command.
#[derive(clap::Args)]
struct Folder {
    /// Folder of the data set
    #[arg(value_name = "DIR")]
    folder: PathBuf,
}

/// Runs the command. Returns whether something is missing.
pub fn run(arguments: &Arguments) -> Result<bool> {
    match &arguments.command {
        Command::Add(arguments) => add::run(arguments),
        Command::Check(arguments) => check::run(arguments),
    }
}
