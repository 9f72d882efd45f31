//! Runs a query: opens sources, writes rows, and ends cleanly when it is interrupted.

use std::io::{self, BufWriter, ErrorKind, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use futures::StreamExt;
use hmtt_format::credentials::hidden;
use hmtt_format::escape;
use tokio::signal::unix::{SignalKind, signal};

use super::QueryEngine;
use super::arguments::Arguments;
use super::metrics;
use super::progress::Progress;
use crate::output::{Format, OutputError, RowWriter, StagedFile};
use crate::{EngineOptions, Query, Sources};

const EXIT_ERROR: u8 = 1;
const EXIT_USAGE: u8 = 2;
const EXIT_MISSING: u8 = 3;
/// Shells report 128 plus the signal's number for a process that a signal has ended.
const EXIT_SIGNAL: u8 = 128;
/// Stack size of a thread that evaluates expressions, which may nest.
const WORKER_STACK_BYTES: usize = 1 << 26;
/// Longest time that reads in progress get to finish after an interruption.
const LAST_READS: Duration = Duration::from_millis(200);

/// How a run ended.
enum End {
    Done,
    Missing,
    Signal(u8),
}

/// Runs the command. `open`: creates the engine that answers the query.
pub fn run<E: QueryEngine>(
    arguments: &Arguments,
    open: impl FnOnce(Sources, EngineOptions) -> Result<E>,
) -> ExitCode {
    let Some((sql, paths)) = query(arguments) else {
        report("give a query and at least one data set or capture, or --file and sources");
        return ExitCode::from(EXIT_USAGE);
    };
    let ended = sql.and_then(|sql| execute(arguments, &sql, &paths, open));
    match ended {
        Ok(End::Done) => ExitCode::SUCCESS,
        Ok(End::Missing) => ExitCode::from(EXIT_MISSING),
        Ok(End::Signal(number)) => ExitCode::from(EXIT_SIGNAL + number),
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            report(&format!("{error:#}"));
            ExitCode::from(EXIT_ERROR)
        }
    }
}

/// The command that messages name.
static COMMAND: OnceLock<&str> = OnceLock::new();

/// Sets the command that messages name instead of `hmtt sql`.
pub fn report_as(command: &'static str) {
    let _ = COMMAND.set(command);
}

/// Prints a line on standard error. If it cannot be written, it is dropped.
pub fn report(message: &str) {
    let command = COMMAND.get_or_init(|| "hmtt sql");
    let message = hidden(message).to_string();
    let _ = writeln!(io::stderr(), "{command}: {}", escape::message(&message));
}

/// Returns the text of the query, and the sources; `None` if an argument is missing.
fn query(arguments: &Arguments) -> Option<(Result<String>, Vec<PathBuf>)> {
    let paths = |words: &[String]| words.iter().map(PathBuf::from).collect::<Vec<_>>();
    match &arguments.file {
        Some(file) => {
            let text = std::fs::read_to_string(file);
            let text = text.with_context(|| format!("{}: cannot read", file.display()));
            Some((text, paths(&arguments.words)))
        }
        None => match &arguments.words[..] {
            [sql, sources @ ..] if !sources.is_empty() => Some((Ok(sql.clone()), paths(sources))),
            _ => None,
        },
    }
}

fn execute<E: QueryEngine>(
    arguments: &Arguments,
    sql: &str,
    paths: &[PathBuf],
    open: impl FnOnce(Sources, EngineOptions) -> Result<E>,
) -> Result<End> {
    let format = arguments.format();
    if arguments.output.is_none() && format == Format::Parquet && io::stdout().is_terminal() {
        bail!("Parquet is not for terminals; name a file (--output)");
    }
    let mut options = EngineOptions {
        memory_bytes: arguments.memory,
        temporary: arguments.temp_dir.clone(),
        skips_damaged: arguments.skip_damaged,
        map: arguments.map.clone(),
        log: arguments.log.clone(),
        ..EngineOptions::default()
    };
    if let Some(threads) = arguments.threads {
        options.threads = threads.into();
    }
    let staged =
        arguments.output.as_deref().map(|path| stage(path, arguments.force)).transpose()?;
    let threads = options.threads;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(threads)
        .thread_stack_size(WORKER_STACK_BYTES)
        .enable_all()
        .build()?;
    let sources =
        match runtime.block_on(interruptible(async { Ok(Sources::open(paths).await?) }))? {
            Ended::Done(sources) => sources,
            Ended::Signal(signal) => return Ok(End::Signal(signal)),
        };
    let engine = open(sources, options)?;
    let progress = Progress::start(engine.shared());
    let answer = answer(&engine, arguments, sql, staged.as_ref(), &progress);
    let ended = runtime.block_on(interruptible(answer));
    progress.end();
    runtime.shutdown_timeout(LAST_READS);
    for message in engine.shared().take_messages() {
        report(&message);
    }
    if let Ended::Signal(signal) = ended? {
        return Ok(End::Signal(signal));
    }
    if let (Some(staged), Some(path)) = (staged, &arguments.output) {
        staged.publish().with_context(|| path.display().to_string())?;
    }
    Ok(if engine.shared().is_missing() { End::Missing } else { End::Done })
}

/// How a part of a run ended.
pub enum Ended<T> {
    /// The part has returned a result.
    Done(T),
    /// A signal of this number has ended the part.
    Signal(u8),
}

/// Waits for a result or for a signal.
///
/// # Errors
/// The error of `work`, or a signal handler cannot be installed.
pub async fn interruptible<T>(work: impl Future<Output = Result<T>>) -> Result<Ended<T>> {
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    tokio::select! {
        biased;
        _ = interrupt.recv() => Ok(Ended::Signal(libc_signal(SignalKind::interrupt()))),
        _ = terminate.recv() => Ok(Ended::Signal(libc_signal(SignalKind::terminate()))),
        result = work => result.map(Ended::Done),
    }
}

fn libc_signal(kind: SignalKind) -> u8 {
    kind.as_raw_value() as u8
}

fn stage(path: &Path, force: bool) -> Result<StagedFile> {
    StagedFile::create(path, force).with_context(|| path.display().to_string())
}

/// Plans and executes the query.
async fn answer<E: QueryEngine>(
    engine: &E,
    arguments: &Arguments,
    sql: &str,
    staged: Option<&StagedFile>,
    progress: &Progress,
) -> Result<()> {
    let begin = Instant::now();
    let query = engine.query(sql).await?;
    let format = arguments.format();
    let rows = match staged {
        Some(file) => write(&query, format, file.writer()?, || {}).await?,
        None => {
            // A line of progress would be mixed with the rows.
            let output = BufWriter::new(io::stdout());
            write(&query, format, output, || progress.end()).await?
        }
    };
    progress.end();
    if arguments.metrics {
        let counts = engine.shared().counts();
        metrics::write(&mut io::stderr(), &query, &counts, rows, begin.elapsed())?;
    }
    Ok(())
}

/// Writes the rows of a query, and returns their number. `first`: called before the first rows.
async fn write<W: Write + Send>(
    query: &Query,
    format: Format,
    output: W,
    first: impl Fn(),
) -> Result<usize> {
    let (mut stream, mut rows) = (query.start()?, 0);
    // Nothing is written before the first rows are known.
    let mut next = stream.next().await.transpose().map_err(|error| query.explain(error))?;
    first();
    let writer = RowWriter::new(format, query.schema(), query.addresses(), output);
    let mut writer = writer.map_err(written)?;
    while let Some(batch) = next {
        rows += batch.num_rows();
        writer.write(&batch).map_err(written)?;
        next = stream.next().await.transpose().map_err(|error| query.explain(error))?;
    }
    writer.finish().map_err(written)?;
    Ok(rows)
}

/// Converts an error of the output, so that [`is_broken_pipe`] recognises a reader that has left.
fn written(error: OutputError) -> anyhow::Error {
    match error {
        OutputError::Write(error) => error.into(),
        other => other.into(),
    }
}

/// Whether the reader of standard output has closed it, as `head` does. This is not a failure.
fn is_broken_pipe(error: &anyhow::Error) -> bool {
    let is_broken = |error: &io::Error| error.kind() == ErrorKind::BrokenPipe;
    error.chain().any(|cause| cause.downcast_ref().is_some_and(is_broken))
}
