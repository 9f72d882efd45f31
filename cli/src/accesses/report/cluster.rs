//! Has data sets analysed by a cluster, and joins what its executors have found.
//!
//! `hmtt-report-cluster` gets the pieces of a data set as lines, and writes the states of their analyses in rows.

use std::io::{self, BufReader, BufWriter, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use hmtt::analysis::Fold;
use hmtt::analysis::combined::{Combined, combined};
use hmtt_dataset::{Dataset, PieceState, Plan, ReadRows};
use indicatif::{ProgressBar, ProgressDrawTarget};

use super::found::Found;
use crate::accesses::input::{Files, Read};
use crate::scale_program::{self, Printed, Program};
use crate::standard_io::name_of_input;

const PROGRAM: Program = Program { name: "hmtt-report-cluster", package: "hmtt-cluster" };
/// Numbers before the bytes of a row.
const NUMBERS: usize = 3;
/// Most bytes of a row, and bytes that are reserved before they are read.
const MOST_ROW_BYTES: u64 = 1 << 26;
const MOST_RESERVED_BYTES: u64 = 1 << 24;
const TICK: Duration = Duration::from_millis(200);

/// Reports data sets.
///
/// # Errors
/// One is no data set, or the cluster has no result.
pub fn read(scheduler: &str, folders: &[PathBuf], sample: Option<f64>) -> Result<(Found, Files)> {
    let mut plans = Vec::new();
    for folder in folders {
        let name = name_of_input(folder);
        ensure!(
            folder.is_dir(),
            "{name} is no data set; a cluster reads data sets only, to which `hmtt dataset add` adds captures"
        );
        let dataset = Dataset::open(folder).with_context(|| name.clone())?;
        let plan = dataset.plan_pieces().with_context(|| name.clone())?;
        plans.push((name, dataset, plan));
    }
    let mut fold = Fold::new(combined(sample));
    let (mut first, mut reads) = (0, Vec::new());
    for (name, dataset, plan) in plans {
        for (memory, number) in plan.memories.iter().zip(first..) {
            fold.known(number, &memory.known);
            fold.end_piece(number);
        }
        let root = std::path::absolute(dataset.root())?;
        let rows = analyse(scheduler, &root, &plan, sample, first, &mut fold)?;
        first += plan.memories.len();
        reads.push(Read { name, kind: "data set", ending: plan.ending(rows) });
    }
    Ok((Found::new(fold.finish(), Vec::new()), Files::without_owners(reads)))
}

/// Has the pieces of a data set analysed. `first`: number of its first memory.
fn analyse(
    scheduler: &str,
    root: &Path,
    plan: &Plan,
    sample: Option<f64>,
    first: usize,
    fold: &mut Fold<Combined>,
) -> Result<ReadRows> {
    let mut command = scale_program::command(PROGRAM);
    command.args(["--cluster", scheduler]);
    if let Some(rate) = sample {
        command.args(["--sample", &rate.to_string()]);
    }
    command.arg(root).stdin(Stdio::piped()).stdout(Stdio::piped());
    let child = command.spawn().map_err(|error| scale_program::failed(PROGRAM, error))?;
    let mut running = Running { child };
    let progress = progress(scheduler, plan.pieces.len());
    let input = running.child.stdin.take().context("no pipe to the program")?;
    let output = running.child.stdout.take().context("no pipe from the program")?;
    let sent = send(input, plan);
    let mut output = BufReader::new(output);
    let mut rows = ReadRows::default();
    let mut joined = 0;
    let read = (|| -> Result<()> {
        for (piece, number) in plan.pieces.iter().zip(0..) {
            let Some(bytes) = state(&mut output, number)? else { return Ok(()) };
            let state = PieceState::from_bytes(&bytes)?;
            rows.add(state.rows);
            fold.append(first + piece.memory, state.found);
            joined += 1;
            progress.set_message(format!("{joined} of {} pieces joined", plan.pieces.len()));
        }
        Ok(())
    })();
    progress.finish_and_clear();
    // A program that has failed says why itself.
    let status = match read.is_ok() {
        true => running.child.wait()?,
        false => running.end()?,
    };
    read?;
    match status.code() {
        Some(0) => {}
        Some(code) => return Err(Printed(code as u8).into()),
        None => bail!("{} was ended by a signal", PROGRAM.name),
    }
    sent?;
    ensure!(
        joined == plan.pieces.len(),
        "{} has returned {joined} of {} pieces",
        PROGRAM.name,
        plan.pieces.len()
    );
    Ok(rows)
}

/// A program that does not outlive its use.
struct Running {
    child: Child,
}

impl Running {
    fn end(&mut self) -> io::Result<std::process::ExitStatus> {
        self.child.kill()?;
        self.child.wait()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.end();
    }
}

fn progress(scheduler: &str, pieces: usize) -> ProgressBar {
    let is_shown = io::stderr().is_terminal();
    let target = if is_shown { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
    let progress = ProgressBar::with_draw_target(None, target);
    progress.set_message(format!("{pieces} pieces, analysed by {scheduler}"));
    progress.enable_steady_tick(TICK);
    progress
}

/// Sends the pieces, one in each line.
fn send(input: ChildStdin, plan: &Plan) -> Result<()> {
    let mut input = BufWriter::new(input);
    for piece in &plan.pieces {
        serde_json::to_writer(&mut input, piece)?;
        input.write_all(b"\n")?;
    }
    Ok(input.flush()?)
}

/// Reads the rows of the next state, which must be that of a piece; `None` at the end.
fn state(output: &mut impl io::Read, piece: u64) -> Result<Option<Vec<u8>>> {
    let mut bytes = Vec::new();
    loop {
        let mut numbers = [0; NUMBERS * 8];
        let mut read = 0;
        while read < numbers.len() {
            match output.read(&mut numbers[read..])? {
                0 if read == 0 && bytes.is_empty() => return Ok(None),
                0 => bail!("{}: a state ends early", PROGRAM.name),
                count => read += count,
            }
        }
        let [number, all, row] = [0, 8, 16]
            .map(|at| u64::from_le_bytes(numbers[at..at + 8].try_into().unwrap_or_default()));
        let left = all.saturating_sub(bytes.len() as u64);
        ensure!(
            number == piece && row > 0 && row <= left.min(MOST_ROW_BYTES),
            "{}: a state is not in order",
            PROGRAM.name
        );
        if bytes.is_empty() {
            bytes.reserve(all.min(MOST_RESERVED_BYTES) as usize);
        }
        let begin = bytes.len();
        bytes.resize(begin + row as usize, 0);
        output.read_exact(&mut bytes[begin..])?;
        if bytes.len() as u64 == all {
            return Ok(Some(bytes));
        }
    }
}
