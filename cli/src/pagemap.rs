//! `hmtt pagemap`: records, describes and converts maps from physical pages to processes and
//! virtual addresses.

mod convert;
mod info;
mod marks;
mod output;
mod record;

use anyhow::Result;
use clap::Subcommand;

/// Record which process and virtual address each physical page belongs to, for `--pagemap` of
/// analyses
#[derive(clap::Args)]
pub struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Record(record::Arguments),
    Info(info::Arguments),
    Convert(convert::Arguments),
}

/// Runs the command. Returns whether processes or parts of a map are missing.
pub fn run(arguments: &Arguments) -> Result<bool> {
    match &arguments.command {
        Command::Record(arguments) => record::run(arguments),
        Command::Info(arguments) => info::run(arguments),
        Command::Convert(arguments) => convert::run(arguments),
    }
}
