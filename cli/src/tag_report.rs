//! `hmtt tag report`: prints the calls in the log of a tagged program, with callers, callees,
//! counts and times.

mod bus;
mod counts;
mod trace;

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use hmtt::report::callgrind;
use hmtt::report::calls::{Calls, Tables};
use hmtt::tags::accesses::log_calls::LogIndex;
use hmtt::tags::accesses::regions::Regions;
use hmtt::tags::call_counts::CallCounts;
use hmtt::tags::call_tree::{CallTree, Weight};
use hmtt::tags::log_reader::LogReader;
use hmtt::tags::names::Names;
use hmtt::tags::stack::Listener;
use hmtt::tags::threads::Threads;
use hmtt::tags::timeline::Timeline;
use hmtt_files::tag_log::Header;
use hmtt_files::tag_map::{TagMap, TagMapError};
use hmtt_format::escape;

use super::format::BUFFER_BYTES;
use super::output::{create, is_same_file};
use super::standard_io;

/// Report calls, times, callers and losses from tags, and the functions that made the accesses of a
/// trace
#[derive(clap::Args)]
pub struct Arguments {
    /// A log, whose functions LOG.json names; a capture of a trace with tags; or a file of counts
    #[arg(value_name = "LOG|CAPTURE.pcapng|COUNTS.json")]
    log: PathBuf,
    /// Names of the functions of a capture's tags: FILE.json of `--sink card`
    #[arg(long, value_name = "MAP.json", conflicts_with = "trace")]
    map: Option<PathBuf>,
    /// A capture of the memory bus from the same time, with the marks of `--marks`: its accesses
    /// are attributed to functions
    #[arg(long, value_name = "CAPTURE.pcapng")]
    trace: Option<PathBuf>,
    /// Also print a table for each thread
    #[arg(long)]
    threads: bool,
    /// Also print the callers and callees of each function
    #[arg(long)]
    graph: bool,
    /// Print one JSON object
    #[arg(long, conflicts_with_all = ["threads", "graph"])]
    json: bool,
    /// Draw a flame graph: of the time in each function itself, or of calls if the log has no times
    #[arg(long, value_name = "FILE.svg")]
    flame: Option<PathBuf>,
    /// Write folded stacks, the input of programs that draw flame graphs
    #[arg(long, value_name = "FILE")]
    folded: Option<PathBuf>,
    /// Write a profile for callgrind_annotate and KCachegrind
    #[arg(long, value_name = "FILE")]
    callgrind: Option<PathBuf>,
    /// Write a timeline of all calls, in Chrome's trace format, for ui.perfetto.dev
    #[arg(long, value_name = "FILE.json")]
    perfetto: Option<PathBuf>,
    /// Maximum number of calls in the timeline, 150 bytes each; 0 means all
    #[arg(long, value_name = "CALLS", default_value_t = 1_000_000, requires = "perfetto")]
    limit: u64,
    /// Overwrite files
    #[arg(short, long)]
    force: bool,
}

type Output = BufWriter<File>;
/// Listeners that receive the calls: the counts always, the call tree and the timeline on request.
type Listeners = (CallCounts, (Option<CallTree>, Option<Timeline<Output>>));

/// Requested output files, which are created before the input is read.
struct Files {
    flame: Option<Output>,
    folded: Option<Output>,
    callgrind: Option<Output>,
    perfetto: Option<Output>,
}

impl Files {
    fn create(arguments: &Arguments) -> Result<Files> {
        let open = |path: &Option<PathBuf>| {
            let Some(path) = path else { return Ok(None) };
            let mut others = [&arguments.trace, &arguments.map].into_iter().flatten();
            if is_same_file(&arguments.log, path) {
                bail!("{} is the log itself; choose another output", path.display());
            }
            if others.any(|input| is_same_file(input, path)) {
                bail!("{} is also an input; choose another output", path.display());
            }
            let file = create(path, arguments.force)?;
            Ok(Some(BufWriter::with_capacity(BUFFER_BYTES, file)))
        };
        Ok(Files {
            flame: open(&arguments.flame)?,
            folded: open(&arguments.folded)?,
            callgrind: open(&arguments.callgrind)?,
            perfetto: open(&arguments.perfetto)?,
        })
    }
}

/// Runs the command. Returns whether the log lacks events or the trace has losses.
pub fn run(arguments: &Arguments) -> Result<bool> {
    if arguments.map.is_some() || bus::is_capture(&arguments.log) {
        bus::run(arguments)
    } else if counts::is_json(&arguments.log) {
        counts::run(arguments)
    } else {
        run_log(arguments)
    }
}

fn run_log(arguments: &Arguments) -> Result<bool> {
    let path = &arguments.log;
    let name = path.display().to_string();
    let file = File::open(path).with_context(|| format!("{name}: cannot open"))?;
    let mut reader = LogReader::new(file).with_context(|| name.clone())?;
    let header = *reader.header();
    if arguments.perfetto.is_some() && !header.is_timed {
        bail!("{name}: no timeline can be made of a log without times");
    }
    let map = map_of(path, &header)?;
    let program = map.as_ref().map(|map| map.program.display().to_string());
    let names = map.map(Names::new).unwrap_or_default();
    let mut files = Files::create(arguments)?;
    let tree = (files.flame.is_some() || files.folded.is_some()).then(CallTree::default);
    let limit = if arguments.limit == 0 { u64::MAX } else { arguments.limit };
    let timeline = files.perfetto.take();
    let timeline = timeline.map(|output| Timeline::new(output, names.clone(), &header, limit));
    let listeners = (CallCounts::default(), (tree, timeline));
    let mut threads = Threads::new(header.is_timed, names.functions_of_blocks(), listeners);
    let mut index = arguments.trace.is_some().then(LogIndex::default);
    let read = read(&mut reader, &mut threads, index.as_mut()).with_context(|| name.clone());
    threads.finish();
    let cut_at = reader.cut_at();
    let counts = &threads.listener.0;
    let mut calls = Calls::new(&header, program, &threads, counts, &names, cut_at);
    let mut has_loss = false;
    if let (Some(capture), Some(index)) = (&arguments.trace, index) {
        let regions = Regions::new(&names);
        let log = trace::Log { path, header, index, span: threads.span.unwrap_or_default() };
        has_loss = trace::split(log, capture, regions, &mut calls)?;
    }
    warn(&name, &calls, threads.unknown);
    print(arguments, &calls)?;
    write(arguments, files, &calls, &names, threads)?;
    read.map(|()| calls.has_loss() || has_loss)
}

/// Reads the map beside a log, if it exists.
fn map_of(log: &Path, header: &Header) -> Result<Option<TagMap>> {
    let path = TagMap::path_beside(log);
    match TagMap::load(&path) {
        Ok(map) if map.id == header.map_id => Ok(Some(map)),
        Ok(_) => bail!("{} is the map of another log than {}", path.display(), log.display()),
        Err(TagMapError::Read(_, error)) if error.kind() == io::ErrorKind::NotFound => {
            let path = path.display();
            report!("hmtt: warning: {path} is missing: functions have numbers only");
            Ok(None)
        }
        Err(error) => Err(error.into()),
    }
}

fn read<L: Listener>(
    reader: &mut LogReader<File>,
    threads: &mut Threads<L>,
    mut index: Option<&mut LogIndex>,
) -> Result<()> {
    let mut offset = reader.offset();
    while let Some(chunk) = reader.next_chunk()? {
        if let Some(index) = &mut index {
            index.note(&chunk, offset);
        }
        threads.chunk(&chunk).with_context(|| format!("offset {offset}"))?;
        offset = reader.offset();
    }
    Ok(())
}

fn warn(name: &str, calls: &Calls, unknown: u64) {
    if let Some(offset) = calls.cut_at {
        report!(
            "hmtt: warning: {name}: ends within the chunk at offset {offset}; read up to there"
        );
    }
    calls.warnings().iter().for_each(|warning| report!("hmtt: warning: {name}: {warning}"));
    if unknown != 0 {
        report!("hmtt: warning: {name}: chunks of a later version, skipped: {unknown}");
    }
}

fn print(arguments: &Arguments, calls: &Calls) -> Result<()> {
    standard_io::print(|mut output| {
        if arguments.json {
            hmtt_format::json::to_writer(&mut output, calls)?;
            writeln!(output)
        } else {
            let tables = Tables { threads: arguments.threads, graph: arguments.graph };
            calls.write(tables, &mut output)
        }
    })
}

fn write(
    arguments: &Arguments,
    files: Files,
    calls: &Calls,
    names: &Names,
    threads: Threads<Listeners>,
) -> Result<()> {
    let Threads { listener: (_, (tree, timeline)), threads, .. } = threads;
    if let Some(mut output) = files.callgrind {
        let written = callgrind::write(calls, &mut output).and_then(|()| output.flush());
        written.with_context(|| cannot_write(&arguments.callgrind))?;
    }
    if let Some(timeline) = timeline {
        if timeline.left_out != 0 {
            let count = timeline.left_out;
            report!("hmtt: warning: not in the timeline, see --limit: {count} calls");
        }
        let program = calls.program.as_deref().unwrap_or("unknown");
        let written = timeline.finish(program, &threads);
        written.with_context(|| cannot_write(&arguments.perfetto))?;
    }
    let Some(tree) = tree else { return Ok(()) };
    if tree.left_out != 0 {
        let count = tree.left_out;
        report!(
            "hmtt: warning: too deep for a flame graph, counted for their callers: {count} calls"
        );
    }
    let time = Weight::Time { tsc_hz: calls.tsc_hz };
    let weight = if calls.timed { time } else { Weight::Calls };
    let mut folded = Vec::new();
    tree.fold(weight, |number| names.get(number), &mut folded)?;
    if let Some(mut output) = files.folded {
        let written = output.write_all(&folded).and_then(|()| output.flush());
        written.with_context(|| cannot_write(&arguments.folded))?;
    }
    if let Some(output) = files.flame {
        draw(calls, &folded, output).with_context(|| cannot_write(&arguments.flame))?;
    }
    Ok(())
}

fn cannot_write(path: &Option<PathBuf>) -> String {
    format!("cannot write to {}", path.clone().unwrap_or_default().display())
}

/// Draws a flame graph from folded stacks.
fn draw(calls: &Calls, folded: &[u8], mut output: Output) -> Result<()> {
    let mut options = inferno::flamegraph::Options::default();
    let title = calls.program.as_deref().unwrap_or("hmtt tag");
    options.title = escape::message(title).to_string();
    let unit = match (calls.timed, calls.tsc_hz) {
        (true, 0) => "ticks",
        (true, _) => "ns",
        (false, _) => "calls",
    };
    options.count_name = unit.into();
    let lines = String::from_utf8_lossy(folded);
    if lines.is_empty() {
        bail!("the log has no calls to draw");
    }
    inferno::flamegraph::from_lines(&mut options, lines.lines(), &mut output)?;
    Ok(output.flush()?)
}
