//! `hmtt trace run`: runs a program and records its accesses.

use std::ffi::OsString;

use anyhow::Result;

use super::caches::TraceOutputs;
use super::options::{Prepared, TraceOptions};
use super::region::RegionOptions;
use super::sampled;
use crate::monitor::{Followed, run_to_end};

/// Run a program and record the accesses to memory that it makes
#[derive(clap::Args)]
pub struct Run {
    #[command(flatten)]
    options: TraceOptions,
    #[command(flatten)]
    region: RegionOptions,
    /// The program and its arguments
    #[arg(value_name = "PROG", required = true, trailing_var_arg = true)]
    program: Vec<OsString>,
}

/// Runs the program until it ends. Then this process ends with the program's exit status or signal,
/// or returns if the program has succeeded. Returns whether accesses are missing.
pub fn run(Run { options, region, program }: &Run) -> Result<bool> {
    let prepared = options.prepare(true, region.region())?;
    let Prepared { options, mut outputs, mut schedule } = prepared;
    let go_on = |followed: Followed, outputs: &mut TraceOutputs| match &mut schedule {
        Some(schedule) => sampled::go_on(followed, schedule, &options, outputs),
        None => Ok(followed.first),
    };
    run_to_end(program, &options, &mut outputs, go_on, TraceOutputs::finish)
}
