//! `hmtt monitor`: runs a program from a code cache that counts every executed basic block, and
//! reports the counts.
//!
//! [`run`](mod@run) and [`attach`] follow a program, [`outputs`] writes a profile, and
//! [`report`](mod@report) prints it.

mod attach;
mod detach;
mod options;
mod outputs;
mod perf_maps;
mod report;
mod run;

use anyhow::Result;
use clap::Subcommand;

pub use detach::{Detach, run as detach};
pub use options::{Full, selected};
pub use outputs::Finished;
pub use run::{Followed, run_to_end};

/// See every basic block that a program executes
#[derive(clap::Args)]
pub struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Run(run::Run),
    Attach(attach::Attach),
    Detach(detach::Detach),
    Report(report::Report),
}

/// Runs the command. Returns whether counts are missing.
pub fn run(arguments: &Arguments) -> Result<bool> {
    match &arguments.command {
        Command::Run(arguments) => run::run(arguments),
        Command::Attach(arguments) => attach::run(arguments),
        Command::Detach(arguments) => detach::run(arguments).map(|()| false),
        Command::Report(arguments) => report::run(arguments),
    }
}
