//! The program `hmtt-report-cluster`, which `hmtt report --cluster` executes: standard input has pieces of a data set, each as
//! a line of JSON, and standard output gets their states, each in rows of three numbers of 8 bytes, little endian, and bytes:
//! number of the piece, bytes of the whole state, bytes of the row.

use std::io::{self, BufRead, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::Parser;
use hmtt_cluster::{Address, Analysed, StateRow, analyse};
use hmtt_dataset::Piece;
use hmtt_sql::command::{Ended, interruptible, report, report_as};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// What shells report of a process that a signal has ended: 128 and its number.
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
    /// Folder of the data set, the same on all machines
    root: PathBuf,
}

fn main() -> ExitCode {
    report_as("hmtt report");
    match run(Arguments::parse()) {
        Ok(Ended::Done(())) => ExitCode::SUCCESS,
        Ok(Ended::Signal(number)) => ExitCode::from(EXIT_SIGNAL + number),
        Err(error) => {
            report(&format!("{error:#}"));
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: Arguments) -> Result<Ended<()>> {
    let piece = |line: io::Result<String>| -> Result<Piece> { Ok(serde_json::from_str(&line?)?) };
    let pieces: Result<Vec<Piece>> = io::stdin().lock().lines().map(piece).collect();
    let pieces = pieces.context("standard input has no pieces of a data set")?;
    let analysed = Analysed { root: arguments.root, sample: arguments.sample };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(interruptible(async {
        let mut output = io::stdout().lock();
        analyse(&pieces, analysed, arguments.cluster, |row| write(&mut output, row)).await?;
        Ok(output.flush()?)
    }))
}

fn write(output: &mut impl Write, row: StateRow<'_>) -> io::Result<()> {
    let StateRow { piece, state_bytes, bytes } = row;
    for number in [piece, state_bytes, bytes.len() as u64] {
        output.write_all(&number.to_le_bytes())?;
    }
    output.write_all(bytes)
}
