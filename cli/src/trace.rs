//! `hmtt trace`: runs a program from a code cache that records its accesses to memory.
//!
//! [`run`](mod@run) and [`attach`] follow a program, [`outputs`] writes the file, and [`caches`]
//! simulates caches. [`sampled`] records the program only part of the time; [`budget`] decides
//! when, if the user limits the slowdown. [`region`] records only some instructions. [`file`] opens
//! a trace for `hmtt info` ([`info`]) and for `hmtt decode` and `hmtt convert` ([`convert`]). These
//! two commands write [`text`], tables, or files for simulators ([`export`]). Files for simulators
//! can also have the intervals that SimPoint chooses ([`simpoints`]). [`evaluate`] states what
//! selective traces would record.

mod attach;
mod budget;
pub mod caches;
pub mod convert;
mod evaluate;
mod export;
pub mod file;
pub mod info;
mod options;
mod outputs;
mod progress;
mod region;
mod run;
mod sampled;
pub mod simpoints;
mod text;

use anyhow::Result;
use clap::Subcommand;

use crate::monitor::{Detach, detach};

/// Record the accesses to memory that a program makes
#[derive(clap::Args)]
pub struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Run(run::Run),
    Attach(attach::Attach),
    Detach(Detach),
    Evaluate(evaluate::Evaluate),
}

/// Runs the command. Returns whether accesses are missing.
pub fn run(arguments: &Arguments) -> Result<bool> {
    match &arguments.command {
        Command::Run(arguments) => run::run(arguments),
        Command::Attach(arguments) => attach::run(arguments),
        Command::Detach(arguments) => detach(arguments).map(|()| false),
        Command::Evaluate(arguments) => evaluate::run(arguments),
    }
}
