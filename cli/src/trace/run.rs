//! `hmtt trace run`: runs a program and records its accesses.

use std::ffi::OsString;

use anyhow::Result;

use super::options::{Prepared, TraceOptions};
use crate::monitor::run_to_end;

/// Run a program and record the accesses to memory that it makes
#[derive(clap::Args)]
pub struct Run {
    #[command(flatten)]
    options: TraceOptions,
    /// The program and its arguments
    #[arg(
        value_name = "PROG",
        required = true,
        trailing_var_arg = true,
        allow_hyphen_values = true
    )]
    program: Vec<OsString>,
}

/// Runs the program until it ends, and ends as the program has ended. Returns whether something was lost.
pub fn run(Run { options, program }: &Run) -> Result<bool> {
    let Prepared { options, mut outputs } = options.prepare()?;
    run_to_end(program, &options, &mut outputs, |outputs| outputs.finish())
}
