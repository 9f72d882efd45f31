//! The command `hmtt`: decodes, converts, merges and describes captures, controls cards, and tags
//! and monitors programs.

// `eprintln!` panics if standard error cannot be written; `report!` does not.
#![deny(clippy::print_stderr)]

/// Prints a line for people on standard error. A message that cannot be written is dropped, because
/// a lost message must not stop the command. In particular, tags must still be removed from a
/// program. `eprintln!` would panic instead.
macro_rules! report {
    ($($message:tt)*) => {{
        use std::io::Write as _;
        let _ = writeln!(std::io::stderr(), $($message)*);
    }};
}

#[cfg(feature = "analysis")]
mod accesses;
mod analysis;
mod capture_file;
mod card_output;
mod completions;
mod convert;
#[cfg(feature = "tag")]
mod ctl;
#[cfg(feature = "dataset")]
mod dataset;
mod decode;
mod format;
mod info;
mod item_buffer;
mod merge;
#[cfg(feature = "tag")]
mod monitor;
mod output;
#[cfg(all(feature = "analysis", feature = "tag"))]
mod pagemap;
mod scale_program;
mod simulator;
mod sql;
mod standard_io;
#[cfg(feature = "tag")]
mod tag;
#[cfg(feature = "tag")]
mod tag_report;
#[cfg(feature = "tag")]
mod trace;
mod usage;

use std::process::ExitCode;

#[cfg(feature = "tag")]
use anyhow::Context;
use clap::{CommandFactory, Parser, Subcommand};

const EXIT_ERROR: u8 = 1;
const EXIT_LOSS: u8 = 3;

/// Read captures of an HMTT card
#[derive(Parser)]
#[command(
    version,
    after_help = "Exit codes: 0 nothing lost, 1 error, 2 wrong usage, 3 finished, but something \
                  between the first frame and the last is missing, or the file is cut."
)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Decode(decode::Arguments),
    Info(info::Arguments),
    Analysis(analysis::Arguments),
    Convert(convert::Arguments),
    Merge(merge::Arguments),
    #[cfg(feature = "dataset")]
    Dataset(dataset::Arguments),
    Sql(sql::Arguments),
    #[cfg(feature = "analysis")]
    #[command(flatten)]
    Accesses(accesses::Command),
    #[cfg(all(feature = "analysis", feature = "tag"))]
    Pagemap(pagemap::Arguments),
    #[cfg(feature = "tag")]
    Ctl(ctl::Arguments),
    #[cfg(feature = "tag")]
    Tag(Box<tag::Arguments>),
    #[cfg(feature = "tag")]
    Monitor(monitor::Arguments),
    #[cfg(feature = "tag")]
    Trace(trace::Arguments),
    Completions(completions::Completions),
    Man(completions::Man),
}

fn main() -> ExitCode {
    #[cfg(feature = "parquet")]
    hmtt::table::parquet::hide_caught_panics();
    let arguments = Arguments::try_parse().unwrap_or_else(|error| usage::exit(&error));
    let result = match arguments.command {
        Command::Decode(arguments) => decode::run(&arguments),
        Command::Info(arguments) => info::run(&arguments),
        Command::Analysis(arguments) => analysis::run(&arguments),
        Command::Convert(arguments) => convert::run(&arguments),
        Command::Merge(arguments) => merge::run(&arguments),
        #[cfg(feature = "dataset")]
        Command::Dataset(arguments) => dataset::run(&arguments),
        Command::Sql(arguments) => sql::run(&arguments),
        #[cfg(feature = "analysis")]
        Command::Accesses(command) => accesses::run(&command),
        #[cfg(all(feature = "analysis", feature = "tag"))]
        Command::Pagemap(arguments) => pagemap::run(&arguments),
        #[cfg(feature = "tag")]
        Command::Ctl(arguments) => ctl::run(&arguments),
        #[cfg(feature = "tag")]
        Command::Tag(arguments) => untraced(|| tag::run(&arguments)),
        #[cfg(feature = "tag")]
        Command::Monitor(arguments) => untraced(|| monitor::run(&arguments)),
        #[cfg(feature = "tag")]
        Command::Trace(arguments) => untraced(|| trace::run(&arguments)),
        Command::Completions(arguments) => {
            completions::complete(&arguments, programs()).map(|()| false)
        }
        Command::Man(arguments) => completions::write_man(&arguments, programs()).map(|()| false),
    };
    match result {
        Ok(true) => ExitCode::from(EXIT_LOSS),
        Ok(false) => ExitCode::SUCCESS,
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) if usage::print_usage_error(&error) => ExitCode::from(usage::EXIT_USAGE),
        Err(error) => {
            if let Some(scale_program::Printed(status)) = error.downcast_ref() {
                return ExitCode::from(*status);
            }
            // An error may quote a file's content, which could contain control characters.
            let text = hmtt_format::credentials::hidden(&format!("{error:#}")).to_string();
            report!("hmtt: {}", hmtt_format::escape::message(&text));
            ExitCode::from(EXIT_ERROR)
        }
    }
}

/// Runs a command that may trace programs. First forbids those programs to trace this process.
#[cfg(feature = "tag")]
fn untraced(command: impl FnOnce() -> anyhow::Result<bool>) -> anyhow::Result<bool> {
    hmtt_probe::ptrace::refuse_tracers().context("cannot refuse tracers (PR_SET_DUMPABLE)")?;
    command()
}

/// Definitions of the programs for which completions and man pages are generated: `hmtt` and
/// `hmtt-recv`.
fn programs() -> Vec<clap::Command> {
    let receiver = hmtt_host::arguments::Arguments::command();
    let own = Arguments::command().name("hmtt").mut_subcommand("sql", |_| sql::definition());
    #[cfg(feature = "dataset")]
    let own = own.mut_subcommand("dataset", dataset::described);
    vec![own, receiver]
}

/// Whether the error is that the reader of standard output has closed it, as `head` does. That is
/// no failure.
fn is_broken_pipe(error: &anyhow::Error) -> bool {
    let broken = |error: &std::io::Error| error.kind() == std::io::ErrorKind::BrokenPipe;
    error.chain().any(|cause| cause.downcast_ref().is_some_and(broken))
}
