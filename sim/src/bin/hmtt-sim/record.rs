//! Runs one `hmtt-sim record` as the command line describes it.
//!
//! ```text
//! arguments        the command line              -> a machine
//! file, program    a file or a running program   -> accesses
//! session          accesses                      -> a recording and its counts
//! report           counts                        -> text or JSON
//! ```

use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result, ensure};
use hmtt_format::{MemoryDescription, toml_memory};
use hmtt_sim::input;
use hmtt_sim::machine::controller::PagePolicy;
use hmtt_sim::machine::recording::RecordingPaths;
use hmtt_sim::machine::{DEFAULT_MEMORY, Parts};

mod arguments;
mod file;
mod program;
mod report;
mod session;

pub use arguments::RecordArguments;
use file::Accesses;
use session::Session;

/// Exit status if accesses are missing.
const MISSING: u8 = 3;

/// The parts of a recording, ready before the machine is started.
pub struct Prepared {
    memory: MemoryDescription,
    policy: PagePolicy,
    parts: Parts,
}

impl Prepared {
    fn new(arguments: &RecordArguments, has_fetches: bool) -> Result<Self> {
        let memory = memory(arguments)?;
        let configuration = arguments.machine(has_fetches)?;
        let parts = Parts::new(&configuration, &memory)?;
        Ok(Prepared { memory, policy: configuration.policy, parts })
    }
}

/// Makes a recording and prints its counts. Returns the exit status. If a program is run and fails,
/// its exit status is returned.
pub fn record(arguments: &RecordArguments) -> Result<ExitCode> {
    let paths = RecordingPaths::new(&arguments.output)?;
    refuse_own_input(arguments, &paths)?;
    match &arguments.accesses {
        Some(accesses) => record_file(arguments, &paths, accesses),
        None => program::record(arguments, &paths),
    }
}

fn record_file(
    arguments: &RecordArguments,
    paths: &RecordingPaths,
    accesses: &Path,
) -> Result<ExitCode> {
    let accesses = Accesses::open(accesses)?;
    let prepared = Prepared::new(arguments, accesses.may_have_fetches())?;
    let memory = prepared.memory.clone();
    let mut session = Session::new(arguments, paths, prepared, true)?;
    let missing = accesses.make(&mut session, arguments.data_only)?;
    let recorded = session.finish()?;
    report::print(arguments, &recorded, &missing, &memory)?;
    Ok(if missing.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(MISSING) })
}

/// Rejects an output that is also an input, which would be destroyed.
fn refuse_own_input(arguments: &RecordArguments, paths: &RecordingPaths) -> Result<()> {
    let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let inputs = [arguments.accesses.as_ref(), arguments.memory.as_ref()];
    for output in [&paths.commands, &paths.truth] {
        let shared = inputs.into_iter().flatten().any(|input| real(input) == real(output));
        ensure!(!shared, "{} would overwrite its own input", output.display());
    }
    Ok(())
}

fn memory(arguments: &RecordArguments) -> Result<MemoryDescription> {
    match &arguments.memory {
        Some(path) => input::read_memory(path).context("memory description"),
        None => Ok(toml_memory::parse(DEFAULT_MEMORY)?),
    }
}
