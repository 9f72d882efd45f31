//! `hmtt tag run`: runs a program with its functions tagged.

use std::ffi::OsString;

use anyhow::Result;
use hmtt_probe::control::{Start, TagError};
use hmtt_probe::ptrace::{self, PtraceError};
use nix::sys::signal::{Signal, kill};

use super::options::TagOptions;
use super::process_tree::{self, Starts};

/// Run a program with its functions tagged
#[derive(clap::Args)]
pub struct Run {
    #[command(flatten)]
    options: TagOptions,
    /// Tag from the first instruction on, including static initialisers, not only from main
    #[arg(long)]
    initializers: bool,
    /// The program and its arguments
    #[arg(value_name = "PROG", required = true, trailing_var_arg = true)]
    program: Vec<OsString>,
}

/// Runs the program until it ends. Returns whether events or counts were lost.
pub fn run(Run { options, initializers, program }: &Run) -> Result<bool> {
    let prepared = options.prepare()?;
    let mut process = ptrace::launch(program)?;
    process.risk_policy.force = options.force;
    let pid = process.pid;
    let start = if *initializers { Start::Now } else { Start::Main };
    let starts = Starts { first: start, executed: start };
    let ran = process_tree::run(process, options, starts, prepared);
    let is_left = |error: &anyhow::Error| {
        matches!(error.downcast_ref(), Some(TagError::Ptrace(PtraceError::Unstopped(_))))
    };
    if ran.as_ref().is_err_and(|error| !is_left(error)) {
        // This command started the process, and the user did not ask for an untagged run.
        let _ = kill(pid, Signal::SIGKILL);
    }
    ran
}
