//! `hmtt monitor run`: runs a program from a code cache.

use std::ffi::OsString;
use std::path::PathBuf;

use anyhow::Result;
use clap::ValueEnum;
use hmtt_probe::control::Ending;
use hmtt_probe::ptrace::{self, wait_for_end};
use hmtt_translator::control::{Options, Outcome};
use hmtt_translator::monitor::tally::Recording;
use nix::sys::signal::{Signal, kill};

use super::report;
use crate::tag::end::End;
use crate::tag::files::{Created, NewFiles};
use crate::tag::options::block_signals;

/// Run a program and count every basic block that it executes
#[derive(clap::Args)]
pub struct Run {
    /// Write the counts as JSON to this file, for hmtt monitor report, instead of a table to standard error
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Overwrite an existing output file; without this option it is an error
    #[arg(long)]
    overwrite: bool,
    /// What a thread does when its ring is full
    #[arg(long, value_enum, default_value_t = Full::Wait)]
    full: Full,
    /// Count blocks only, not what follows each of them; this is faster
    #[arg(long)]
    counts_only: bool,
    /// The program and its arguments
    #[arg(
        value_name = "PROG",
        required = true,
        trailing_var_arg = true,
        allow_hyphen_values = true
    )]
    program: Vec<OsString>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Full {
    /// Wait until the monitor has read a part of it
    Wait,
    /// Continue, and count the dropped block numbers
    Drop,
}

/// Runs the program until it ends. Returns whether something was lost.
pub fn run(Run { output, overwrite, full, counts_only, program }: &Run) -> Result<bool> {
    let signals = block_signals()?;
    ptrace::ignore_file_size_signal();
    let created = output.as_ref().map(|path| Created::new(path, *overwrite)).transpose()?;
    let removable = created.iter().filter_map(Created::removable).collect();
    let new_files = NewFiles::new(removable);
    let process = ptrace::launch(program)?;
    let pid = process.pid;
    let recording = Recording { edges: !counts_only, ..Recording::default() };
    let options = Options { drops: *full == Full::Drop, recording, signals };
    let outcome = hmtt_translator::control::run(process, &options).inspect_err(|_| {
        // This command started the process, and the user did not ask for another run.
        let _ = kill(pid, Signal::SIGKILL);
    })?;
    new_files.keep();
    finish(outcome, pid, created.as_ref())
}

/// Writes the counts, and ends as the program has ended.
fn finish(outcome: Outcome, pid: nix::unistd::Pid, created: Option<&Created>) -> Result<bool> {
    let Outcome { profile, ending, left } = outcome;
    if let Some(why) = left {
        report!("hmtt: warning: the program was followed only until {why}; it goes on natively");
    }
    let profile = profile.to_file(ending, left);
    let written = match created {
        Some(file) => file.write(profile.to_json()),
        None => {
            report!("{}", report::table(&profile, report::ROWS).trim_end());
            Ok(())
        }
    };
    if let Err(error) = &written {
        report!("hmtt: {}", hmtt_format::escape::message(&format!("{error:#}")));
    }
    report::warn(&profile);
    let end = match ending {
        Ending::Exited(code) => End::Status(code),
        Ending::Signaled(signal) => End::Signal(signal),
        Ending::Detached if left.is_none() => End::Status(0),
        // It is still this process's child, and its status is this command's.
        Ending::Replaced | Ending::Detached => match wait_for_end(pid) {
            Some(Ok(code)) => End::Status(code),
            Some(Err(signal)) => End::Signal(signal),
            None => End::Status(0),
        },
    };
    end.exit_if_failed(written.is_err());
    Ok(!profile.is_complete())
}
