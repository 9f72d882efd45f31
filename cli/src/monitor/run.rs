//! `hmtt monitor run`: runs a program from a code cache.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use anyhow::Result;
use clap::ValueEnum;
use hmtt_probe::control::{Ending, TagError};
use hmtt_probe::ptrace::{self, wait_for_end};
use hmtt_translator::cache::Instrument;
use hmtt_translator::control::{Options, Outcome};
use hmtt_translator::monitor::intervals::Intervals;
use hmtt_translator::monitor::models::ModelOptions;
use hmtt_translator::monitor::models::icache::Geometry;
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
    /// Translate only and record nothing, which shows the cost of the translation itself
    #[arg(long, conflicts_with_all = ["output", "counts_only", "full", "predictors", "icache"])]
    translate_only: bool,
    /// Model branch predictors, a bimodal one and one after TAGE, and count their mispredictions
    #[arg(long)]
    predictors: bool,
    /// Model an instruction cache, and count its misses: size, lines of a set, and bytes of a line
    #[arg(long, value_name = "SIZE,WAYS,LINE", value_parser = geometry)]
    icache: Option<Geometry>,
    /// Count the first thread's instructions in each block for intervals of this many instructions, and write these
    /// vectors to the output file's name with .bb appended, as SimPoint reads them
    #[arg(long, value_name = "INTERVAL", requires = "output", value_parser = clap::value_parser!(u64).range(1000..))]
    bbv: Option<u64>,
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
pub fn run(options: &Run) -> Result<bool> {
    let Run { output, overwrite, full, counts_only, .. } = options;
    let Run { translate_only, predictors, icache, bbv, program, .. } = options;
    let signals = block_signals()?;
    ptrace::ignore_file_size_signal();
    let created = output.as_ref().map(|path| Created::new(path, *overwrite)).transpose()?;
    let removable = created.iter().filter_map(Created::removable).collect();
    let new_files = NewFiles::new(removable);
    let vectors = match (output, bbv) {
        (Some(path), Some(_)) => Some(Created::new(&beside(path), *overwrite)?),
        _ => None,
    };
    let new_vectors = NewFiles::new(vectors.iter().filter_map(Created::removable).collect());
    let process = ptrace::launch(program)?;
    let pid = process.pid;
    let models = ModelOptions { predictors: *predictors, icache: *icache };
    let edges = !counts_only;
    let recording = Recording { edges, models, interval: *bbv, ..Recording::default() };
    let instrument = if *translate_only { Instrument::None } else { Instrument::Ring };
    let options = Options { instrument, drops: *full == Full::Drop, recording, signals };
    let outcome = hmtt_translator::control::run(process, &options).inspect_err(|_| {
        // This command started the process, and the user did not ask for another run.
        let _ = kill(pid, Signal::SIGKILL);
    })?;
    new_files.keep();
    new_vectors.keep();
    finish(outcome, pid, created.as_ref(), vectors.as_ref(), !translate_only)
}

/// The path with `.bb` appended.
fn beside(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".bb");
    name.into()
}

/// Parses the geometry of a cache, such as `32K,8,64`.
fn geometry(text: &str) -> Result<Geometry, String> {
    let number = |text: &str| -> Option<u64> {
        let (digits, unit) = match text.trim().strip_suffix(['K', 'k']) {
            Some(digits) => (digits, 1024),
            None => (text.trim(), 1),
        };
        digits.parse::<u64>().ok()?.checked_mul(unit)
    };
    let numbers: Option<Vec<u64>> = text.split(',').map(number).collect();
    let found = match numbers.as_deref() {
        Some([size, ways, line]) => Geometry::new(*size, *ways, *line),
        _ => return Err("give three numbers, such as 32K,8,64".into()),
    };
    found.ok_or_else(|| "lines and sets must be powers of two, at most 64M and 64 ways".into())
}

/// Writes basic-block vectors, and warns of those for which there was no room.
fn write_vectors(intervals: &Intervals, file: &Created) -> Result<(), TagError> {
    if intervals.dropped > 0 {
        report!("hmtt: warning: {} intervals were not kept", intervals.dropped);
    }
    file.write(&intervals.text)
}

/// Writes the counts, and ends as the program has ended.
fn finish(
    outcome: Outcome,
    pid: nix::unistd::Pid,
    created: Option<&Created>,
    vectors: Option<&Created>,
    prints: bool,
) -> Result<bool> {
    let Outcome { mut profile, ending, left } = outcome;
    let intervals = profile.intervals.take();
    if let Some(why) = left {
        report!("hmtt: warning: the program was followed only until {why}; it goes on natively");
    }
    let profile = profile.to_file(ending, left);
    let written = match created {
        Some(file) => file.write(profile.to_json()),
        None if !prints => Ok(()),
        None => {
            report!("{}", report::table(&profile, report::ROWS).trim_end());
            Ok(())
        }
    };
    let written = written.and_then(|()| match (&intervals, vectors) {
        (Some(intervals), Some(file)) => write_vectors(intervals, file),
        _ => Ok(()),
    });
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
