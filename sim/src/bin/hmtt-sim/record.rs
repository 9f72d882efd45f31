//! Runs one `hmtt-sim record` as the command line describes it.

use std::io::BufReader;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use hmtt_format::{Cycles, MemoryDescription, toml_memory};
use hmtt_sim::input::{self, lines, lines::Lines};
use hmtt_sim::machine::accesses::AccessReader;
use hmtt_sim::machine::cache::{AccessKind, Counters};
use hmtt_sim::machine::recording::{RecordingPaths, RecordingWriter};
use hmtt_sim::machine::{Counts, DEFAULT_MEMORY, Machine, MachineError, Parts};
use serde_json::{Value, json};

use crate::record_args::{Place, RecordArguments};

/// The process of accesses whose text names none.
const PROCESS: u32 = 0;

/// Makes a recording and prints its counts.
pub fn record(arguments: &RecordArguments) -> Result<bool> {
    let paths = RecordingPaths::new(&arguments.output)?;
    refuse_own_input(arguments, &paths)?;
    let memory = memory(arguments)?;
    let configuration = arguments.machine()?;
    let parts = Parts::new(&configuration, &memory)?;
    let (path, mut accesses) = open(&arguments.accesses)?;
    let writer = RecordingWriter::create(&paths, &memory, configuration.policy, arguments.force)?;
    let mut machine = Machine::start(parts, writer)?;
    while let Some(access) = accesses.next() {
        let access = access?;
        if arguments.data_only && access.kind == AccessKind::Fetch {
            continue;
        }
        let made = machine.access(PROCESS, access.kind, access.address, access.size);
        made.map_err(|error| match error {
            MachineError::Page(error) => {
                anyhow::Error::new(error).context(format!("{}:{}", path.display(), accesses.line()))
            }
            MachineError::Sink(error) => error.into(),
        })?;
    }
    let (writer, counts) = machine.finish()?;
    writer.finish(Cycles(counts.clocks))?;
    if arguments.json {
        println!("{}", serde_json::to_string_pretty(&json(&counts))?);
    } else if !arguments.quiet {
        eprintln!("{}", text(&counts, &memory));
    }
    Ok(true)
}

/// Rejects an output that is also an input, which would be destroyed.
fn refuse_own_input(arguments: &RecordArguments, paths: &RecordingPaths) -> Result<()> {
    let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let inputs = [Some(&arguments.accesses), arguments.memory.as_ref()];
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

/// Opens the accesses. Returns the name for messages, too.
fn open(path: &Path) -> Result<(PathBuf, AccessReader)> {
    let (name, reader) = if path == Path::new("-") {
        let name = PathBuf::from("standard input");
        let reader = lines::decompress(BufReader::with_capacity(1 << 16, std::io::stdin()));
        (name, reader.context("standard input")?)
    } else {
        (path.to_owned(), lines::open(path)?)
    };
    let accesses = AccessReader::new(Lines::new(&name, reader));
    Ok((name, accesses))
}

/// The caches with their names, that for instructions first.
fn caches(counts: &Counts) -> impl Iterator<Item = (String, &Counters)> {
    let instructions = counts.instructions.iter().map(|cache| (Place::Instructions.name(), cache));
    let levels = counts.levels.iter().zip(1..);
    instructions.chain(levels.map(|(cache, level)| (Place::Level(level).name(), cache)))
}

fn text(counts: &Counts, memory: &MemoryDescription) -> String {
    let Counts { accesses, pages, line_reads, line_writes, dirty_lines, .. } = counts;
    let mut lines = vec![format!("{accesses} accesses of the program in {pages} pages")];
    for (name, Counters { hits, misses, write_backs }) in caches(counts) {
        lines.push(format!("{name}: {hits} hits, {misses} misses, {write_backs} write-backs"));
    }
    lines.push(format!(
        "memory: {line_reads} lines read, {line_writes} written; {dirty_lines} changed lines are left in caches"
    ));
    let commands = &counts.commands;
    lines.push(format!(
        "{} bursts: {} row hits, {} misses, {} conflicts",
        bursts(counts),
        commands.row_hits,
        commands.row_misses,
        commands.row_conflicts
    ));
    let micros = counts.clocks as f64 * f64::from(memory.tck_ps) / 1e6;
    lines.push(format!(
        "{} clocks ({micros:.1} us), {} commands, {} refreshes; the processor was stopped for {} clocks",
        counts.clocks, commands.commands, commands.refreshes, counts.stalled_clocks
    ));
    lines.join("\n")
}

const fn bursts(counts: &Counts) -> u64 {
    counts.commands.row_hits + counts.commands.row_misses + counts.commands.row_conflicts
}

fn json(counts: &Counts) -> Value {
    let cache = |(name, Counters { hits, misses, write_backs }): (String, &Counters)| json!({ "name": name, "cache_hits": hits, "cache_misses": misses, "write_backs": write_backs });
    json!({
        "program_accesses": counts.accesses,
        "pages": counts.pages,
        "caches": caches(counts).map(cache).collect::<Vec<_>>(),
        "line_reads": counts.line_reads,
        "line_writes": counts.line_writes,
        "dirty_lines": counts.dirty_lines,
        "accesses": bursts(counts),
        "row_hits": counts.commands.row_hits,
        "row_misses": counts.commands.row_misses,
        "row_conflicts": counts.commands.row_conflicts,
        "commands": counts.commands.commands,
        "refreshes": counts.commands.refreshes,
        "clocks": counts.clocks,
        "stalled_clocks": counts.stalled_clocks,
    })
}
