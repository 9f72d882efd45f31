//! Analyses data sets on a cluster, and joins the states that the cluster returns.
//!
//! The program `hmtt-report-cluster` does the work on the cluster. Its output has the plan, which
//! lists the pieces of a data set, and then the state of each piece's analyses in one or more rows.

use std::io::{self, BufReader, ErrorKind, IsTerminal, Read as _};
use std::path::{Path, PathBuf, absolute};
use std::process::{Child, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use hmtt::analysis::Fold;
use hmtt::analysis::combined::{Combined, combined};
use hmtt_dataset::{PieceState, Plan, ReadRows};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::found::{Found, NEED};
use crate::accesses::input::{Files, Read};
use crate::scale_program::{self, Printed, Program};
use crate::standard_io::name_of_input;

const PROGRAM: Program = Program { name: "hmtt-report-cluster", package: "hmtt-cluster" };
/// Maximum number of bytes in a row of the program's output.
const MOST_ROW_BYTES: u64 = 1 << 26;
const SPINNER: &str = "{spinner} {msg}";
const TICK: Duration = Duration::from_millis(200);

/// A cluster to be used.
#[derive(Clone, Copy, Debug)]
pub struct Cluster<'a> {
    /// Address of the cluster's scheduler.
    pub scheduler: &'a str,
    /// File with the cluster's secret.
    pub secret_file: Option<&'a Path>,
}

/// Analyses data sets on a cluster, and returns the joined results.
///
/// # Errors
/// A source is no data set, or the cluster has returned no result.
pub fn read(
    cluster: Cluster<'_>,
    sources: &[PathBuf],
    sample: Option<f64>,
) -> Result<(Found, Files)> {
    for source in sources {
        ensure!(
            is_url(source) || source.is_dir(),
            "{} is no data set; a cluster reads data sets only, to which `hmtt dataset add` adds captures",
            name_of_input(source)
        );
    }
    let mut fold = Fold::new(combined(sample));
    let (mut first, mut reads) = (0, Vec::new());
    for source in sources {
        let (plan, rows) = analyse(cluster, source, sample, first, &mut fold)?;
        first += plan.memories.len();
        let name = name_of_input(source);
        let mut ending = plan.ending(rows);
        NEED.check(&name, &mut ending)?;
        reads.push(Read { name, kind: "data set", ending });
    }
    Ok((Found::new(fold.finish(), Vec::new()), Files::without_owners(reads)))
}

/// Whether a source is the URL of an object store.
fn is_url(source: &Path) -> bool {
    source.to_str().is_some_and(|text| text.contains("://"))
}

/// Analyses one data set on the cluster. `first`: number of the data set's first memory.
fn analyse(
    cluster: Cluster<'_>,
    source: &Path,
    sample: Option<f64>,
    first: usize,
    fold: &mut Fold<Combined>,
) -> Result<(Plan, ReadRows)> {
    let mut command = scale_program::command(PROGRAM);
    command.args(["--cluster", cluster.scheduler]);
    if let Some(file) = cluster.secret_file {
        command.arg("--secret-file").arg(file);
    }
    if let Some(rate) = sample {
        command.args(["--sample", &rate.to_string()]);
    }
    // Executors have other working directories, so that they need an absolute path.
    command.arg("--").arg(if is_url(source) { source.into() } else { absolute(source)? });
    command.stdin(Stdio::null()).stdout(Stdio::piped());
    let child = command.spawn().map_err(|error| scale_program::failed(PROGRAM, error))?;
    let mut running = Running { child };
    let progress = progress(cluster.scheduler);
    let output = running.child.stdout.take().context("no pipe from the program")?;
    let read = join(BufReader::new(output), sample, first, fold, &progress);
    progress.finish_and_clear();
    // A failed program prints its own error, and its output ends early.
    let status = match &read {
        Err(_) if running.child.try_wait()?.is_none() => running.end()?,
        _ => running.child.wait()?,
    };
    match status.code() {
        Some(0) => {}
        Some(code) => return Err(Printed(code as u8).into()),
        None => {
            read?;
            bail!("{} was ended by a signal", PROGRAM.name)
        }
    }
    read?.with_context(|| format!("{} has not returned all states", PROGRAM.name))
}

/// Reads a plan, and joins the states of its pieces into `fold`. Returns `None` if the output ends
/// early.
fn join(
    mut output: impl io::Read,
    sample: Option<f64>,
    first: usize,
    fold: &mut Fold<Combined>,
    progress: &ProgressBar,
) -> Result<Option<(Plan, ReadRows)>> {
    let Some([bytes]) = numbers(&mut output)? else { return Ok(None) };
    let mut text = Vec::new();
    output.by_ref().take(bytes).read_to_end(&mut text)?;
    if text.len() as u64 != bytes {
        return Ok(None);
    }
    let plan: Plan = serde_json::from_slice(&text)
        .with_context(|| format!("{} is of another version", PROGRAM.name))?;
    for (memory, number) in plan.memories.iter().zip(first..) {
        fold.known(number, &memory.known);
        fold.end_piece(number);
    }
    let pieces = plan.pieces.len();
    progress.set_message(format!("{pieces} pieces are being analysed"));
    let mut rows = ReadRows::default();
    for (piece, number) in plan.pieces.iter().zip(0..) {
        let Some(bytes) = state(&mut output, number)? else { return Ok(None) };
        let state = PieceState::from_bytes(&bytes, sample)?;
        rows.add(state.rows);
        ensure!(piece.memory < plan.memories.len(), "{}: a piece of no memory", PROGRAM.name);
        fold.append(first + piece.memory, state.found);
        progress.set_message(format!("{} of {pieces} pieces joined", number + 1));
    }
    Ok(Some((plan, rows)))
}

/// A running program. It is killed when this value is dropped.
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

fn progress(scheduler: &str) -> ProgressBar {
    let is_shown = io::stderr().is_terminal();
    let target = if is_shown { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
    let progress = ProgressBar::with_draw_target(None, target);
    if let Ok(style) = ProgressStyle::with_template(SPINNER) {
        progress.set_style(style);
    }
    progress.set_message(format!("analysed by {scheduler}"));
    progress.enable_steady_tick(TICK);
    progress
}

/// Reads little-endian numbers. Returns `None` if the output has ended before the first one.
fn numbers<const COUNT: usize>(output: &mut impl io::Read) -> Result<Option<[u64; COUNT]>> {
    let mut values = [0; COUNT];
    for (at, number) in values.iter_mut().enumerate() {
        let mut bytes = [0; 8];
        match output.read_exact(&mut bytes) {
            Ok(()) => *number = u64::from_le_bytes(bytes),
            Err(error) if error.kind() == ErrorKind::UnexpectedEof && at == 0 => return Ok(None),
            Err(error) => return Err(error.into()),
        }
    }
    Ok(Some(values))
}

/// Reads the rows of the next state, which must belong to `piece`. Returns `None` if the output
/// ends early.
fn state(output: &mut impl io::Read, piece: u64) -> Result<Option<Vec<u8>>> {
    let mut bytes = Vec::new();
    loop {
        let Some([number, total, row]) = numbers(output)? else { return Ok(None) };
        let left = total.saturating_sub(bytes.len() as u64);
        ensure!(
            number == piece && row > 0 && row <= left.min(MOST_ROW_BYTES),
            "{}: a state is not in order",
            PROGRAM.name
        );
        let begin = bytes.len();
        bytes.resize(begin + row as usize, 0);
        output.read_exact(&mut bytes[begin..])?;
        if bytes.len() as u64 == total {
            return Ok(Some(bytes));
        }
    }
}
