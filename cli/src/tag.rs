//! `hmtt tag`: counts or logs the calls of functions in running programs.
//!
//! [`run`](mod@run) and [`attach`] prepare the run from the [`options`]. Then [`process_tree`] tags
//! the process and follows it, and [`outputs`] writes the results. The other commands do not need a
//! controller.

mod attach;
mod auto;
mod blocks;
mod counts;
pub mod detach;
pub mod end;
pub mod files;
mod list;
mod losses;
pub mod options;
mod output_options;
mod outputs;
mod process_output;
mod process_tree;
mod program;
pub mod rules;
mod run;
mod symbols;
pub mod values;
pub mod warnings;

use anyhow::Result;
use clap::Subcommand;

use super::tag_report;

/// Count or log the calls of functions in a running program, without its source
#[derive(clap::Args)]
pub struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    List(list::List),
    Run(run::Run),
    Attach(attach::Attach),
    Detach(detach::Detach),
    Symbols(symbols::Symbols),
    Report(tag_report::Arguments),
}

/// Runs the command. Returns whether events or counts were lost.
pub fn run(arguments: &Arguments) -> Result<bool> {
    match &arguments.command {
        Command::List(arguments) => list::run(arguments).map(|()| false),
        Command::Run(arguments) => run::run(arguments),
        Command::Attach(arguments) => attach::run(arguments),
        Command::Detach(arguments) => detach::run(arguments).map(|()| false),
        Command::Symbols(arguments) => symbols::run(arguments).map(|()| false),
        Command::Report(arguments) => tag_report::run(arguments),
    }
}
