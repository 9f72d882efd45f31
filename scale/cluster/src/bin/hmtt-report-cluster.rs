//! The program `hmtt-report-cluster`, which `hmtt report --cluster` executes. It writes the pieces
//! of a data set to standard output, and then their states in order. Numbers have 8 bytes, little
//! endian.
//!
//! - The plan: its number of bytes, and the plan as JSON.
//! - For each state, one or more rows: number of the piece, number of bytes of the whole state,
//!   number of bytes in the row, and these bytes.

use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::Parser;
use hmtt_cluster::{Address, Analysed, SchedulerAccess, Secret, StateRow, analyse, plan};
use hmtt_sql::EngineError;
use hmtt_sql::command::{Ended, interruptible, report, report_as};
use rustix::process::{
    Pid, Signal, getpid, getppid, kill_process, set_parent_process_death_signal,
};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Shells report 128 plus the signal's number for a process that a signal has ended.
const EXIT_SIGNAL: u8 = 128;

/// Have pieces of a data set analysed by a cluster
#[derive(Debug, Parser)]
#[command(version, after_help = "`hmtt report --cluster` executes this program.")]
struct Arguments {
    /// Address of the scheduler
    #[arg(long, value_name = "HOST:PORT")]
    cluster: Address,
    /// The part of all lines of which reuse distances are found
    #[arg(long, value_name = "RATE")]
    sample: Option<f64>,
    /// File with the secret of the cluster; by default the environment variable HMTT_CLUSTER_SECRET
    /// has it
    #[arg(long, value_name = "FILE")]
    secret_file: Option<PathBuf>,
    /// Folder of the data set, the same on all machines, or URL of one in an object store
    source: String,
}

fn main() -> ExitCode {
    let parent = getppid();
    report_as("hmtt report");
    match run(Arguments::parse(), parent) {
        Ok(Ended::Done(())) => ExitCode::SUCCESS,
        Ok(Ended::Signal(number)) => ExitCode::from(EXIT_SIGNAL + number),
        Err(error) => {
            report(&format!("{error:#}"));
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: Arguments, parent: Option<Pid>) -> Result<Ended<()>> {
    let Arguments { cluster, sample, secret_file, source } = arguments;
    let access =
        SchedulerAccess { address: cluster, secret: Secret::read(secret_file.as_deref())? };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(interruptible(async {
        end_with(parent)?;
        let plan = plan(&source).await.map_err(EngineError::from)?;
        let text = serde_json::to_vec(&plan)?;
        let mut output = io::stdout().lock();
        output.write_all(&(text.len() as u64).to_le_bytes())?;
        output.write_all(&text)?;
        output.flush()?;
        let analysed = Analysed { source, sample };
        let done = analyse(&plan.pieces, analysed, access, |row| write(&mut output, row)).await;
        done.map_err(EngineError::from)?;
        Ok(output.flush()?)
    }))
}

/// Has the kernel terminate this process when its parent ends: nobody would read the states that
/// the cluster computes. The runtime can lose a signal that arrives while its signal handlers are
/// being installed, so the caller has installed them before.
fn end_with(parent: Option<Pid>) -> Result<()> {
    set_parent_process_death_signal(Some(Signal::TERM))?;
    if getppid() != parent {
        kill_process(getpid(), Signal::TERM)?;
    }
    Ok(())
}

fn write(output: &mut impl Write, row: StateRow<'_>) -> io::Result<()> {
    let StateRow { piece, state_bytes, bytes } = row;
    for number in [piece, state_bytes, bytes.len() as u64] {
        output.write_all(&number.to_le_bytes())?;
    }
    output.write_all(bytes)
}
