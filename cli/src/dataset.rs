//! `hmtt dataset`: adds captures and logs of tags to a data set, checks it, merges its parts,
//! removes runs.

mod add;
mod check;
mod compact;
mod follow;
mod push;
mod remove;

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
    Follow(follow::Arguments),
    Check(check::Arguments),
    Compact(compact::Arguments),
    Drop(remove::Arguments),
    Push(push::Arguments),
}

/// The data set of a command.
#[derive(clap::Args)]
struct Folder {
    /// Folder of the data set
    #[arg(value_name = "DIR")]
    folder: PathBuf,
}

/// The definition of the command. The arguments of `push` are the arguments of the program that
/// `push` executes, for completions and man pages.
pub fn described(command: clap::Command) -> clap::Command {
    command.mut_subcommand("push", |_| push::definition())
}

/// Runs the command. Returns whether accesses or events are missing.
pub fn run(arguments: &Arguments) -> Result<bool> {
    match &arguments.command {
        Command::Add(arguments) => add::run(arguments),
        Command::Follow(arguments) => follow::run(arguments),
        Command::Check(arguments) => check::run(arguments),
        Command::Compact(arguments) => compact::run(arguments),
        Command::Drop(arguments) => remove::run(arguments),
        Command::Push(arguments) => push::run(arguments),
    }
}
