//! `hmtt trace run`: runs a program and records its accesses.

use std::ffi::OsString;
use std::path::PathBuf;

use anyhow::Result;
use hmtt_probe::ptrace;
use hmtt_translator::cache::Instrument;
use hmtt_translator::control::{MonitorCpu, Options};
use hmtt_translator::monitor::hot::Thresholds;
use hmtt_translator::monitor::tally::Recording;

use super::caches::{CacheOptions, TraceOutputs};
use super::outputs::Outputs;
use crate::monitor::run_to_end;
use crate::tag::options::block_signals;

/// Run a program and record every access to memory that it makes
#[derive(clap::Args)]
pub struct Run {
    /// Write the trace to this file
    #[arg(short, long, value_name = "FILE", required_unless_present = "cache")]
    output: Option<PathBuf>,
    /// Overwrite an existing output file; without this option it is an error
    #[arg(long)]
    overwrite: bool,
    #[command(flatten)]
    caches: CacheOptions,
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
pub fn run(Run { output, overwrite, caches, program }: &Run) -> Result<bool> {
    let signals = block_signals()?;
    ptrace::ignore_file_size_signal();
    let caches = caches.prepare(*overwrite)?;
    let file = output.as_ref().map(|path| Outputs::new(path, *overwrite)).transpose()?;
    let mut outputs = TraceOutputs { file, caches };
    let options = Options {
        instrument: Instrument::Accesses,
        drops: false,
        recording: Recording { superblocks: Some(Thresholds::default()), ..Recording::default() },
        signals,
        progress: None,
        follow: false,
        cpu: MonitorCpu::Chosen,
        lists: None,
        perf_map: false,
    };
    run_to_end(program, &options, &mut outputs, |outputs| outputs.finish())
}
