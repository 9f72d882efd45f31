//! Commands that analyse the accesses of captures, of programs and of tables.
//!
//! Each command is one file. [`input`] reads the files into an analysis. [`options`] has the
//! options that several commands share. [`need`] refuses files that state too little about their
//! accesses. [`split`] divides results into groups. [`resolution`] finds the processes that own
//! physical pages. [`output`] prints the verdict, JSON and CSV, [`figures`] formats numbers with
//! their units, and [`file`] writes a file whole or not at all.

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

/// Runs a command. Returns whether a file or the map of pages is incomplete.
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
