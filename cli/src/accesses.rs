//! Commands that analyse the accesses of captures, of programs and of tables.
//!
//! Each command is one file. [`input`] reads the files into an analysis, [`options`] has what the
//! commands have in common, [`need`] refuses files of which too little is known, [`split`] divides
//! results into groups, [`resolution`] finds who owns physical pages. [`output`] prints the
//! verdict, JSON and CSV, [`figures`] numbers with their units, and [`file`] writes files whole.

mod cache_sizes;
mod check;
pub mod figures;
mod file;
mod hot;
mod input;
mod mrc;
mod need;
mod options;
mod output;
mod phases;
mod report;
pub mod resolution;
mod reuse;
mod rows;
mod source;
mod split;
mod stats;
mod streams;

use anyhow::Result;
use clap::Subcommand;

/// The commands.
#[derive(Subcommand)]
pub enum Command {
    Stats(stats::Arguments),
    Hot(hot::Arguments),
    Reuse(reuse::Arguments),
    Mrc(mrc::Arguments),
    Streams(streams::Arguments),
    Rows(rows::Arguments),
    Phases(phases::Arguments),
    Check(check::Arguments),
    Report(report::Arguments),
}

/// Runs a command. Returns whether something is missing in its files.
pub fn run(command: &Command) -> Result<bool> {
    match command {
        Command::Stats(arguments) => stats::run(arguments),
        Command::Hot(arguments) => hot::run(arguments),
        Command::Reuse(arguments) => reuse::run(arguments),
        Command::Mrc(arguments) => mrc::run(arguments),
        Command::Streams(arguments) => streams::run(arguments),
        Command::Rows(arguments) => rows::run(arguments),
        Command::Phases(arguments) => phases::run(arguments),
        Command::Check(arguments) => check::run(arguments),
        Command::Report(arguments) => report::run(arguments),
    }
}
