//! Prints the counts of a recording: text on standard error, or JSON on standard output.

use anyhow::Result;
use hmtt_format::MemoryDescription;
use hmtt_sim::machine::Counts;
use hmtt_sim::machine::cache::Counters;
use hmtt_sim::machine::cache::places::Place;
use serde_json::{Value, json};

use super::arguments::RecordArguments;
use super::session::Recorded;

/// Prints the counts of a recording, as the options say. `missing`: what the recording lacks, a
/// sentence for each reason.
pub fn print(
    arguments: &RecordArguments,
    recorded: &Recorded,
    missing: &[String],
    memory: &MemoryDescription,
) -> Result<()> {
    for what in missing {
        report!("hmtt-sim: warning: {what}");
    }
    if arguments.json {
        println!("{}", serde_json::to_string_pretty(&json(recorded, missing))?);
    } else if !arguments.quiet {
        report!("{}", text(recorded, memory));
    }
    Ok(())
}

/// Returns the caches with their names, the instruction cache first.
fn caches(counts: &Counts) -> impl Iterator<Item = (String, &Counters)> {
    let instructions =
        counts.instructions.iter().map(|cache| (Place::Instructions.to_string(), cache));
    let levels = counts.levels.iter().zip(1..);
    instructions.chain(levels.map(|(cache, level)| (Place::Level(level).to_string(), cache)))
}

/// Returns the counts as text. `unknown`: accesses that were left out, because their addresses or
/// sizes are not known.
fn text(recorded: &Recorded, memory: &MemoryDescription) -> String {
    let Recorded { counts, unknown, is_limited } = recorded;
    let Counts { accesses, pages, line_reads, line_writes, dirty_lines, .. } = counts;
    let mut lines = vec![format!("{accesses} accesses of the program in {pages} pages")];
    if *is_limited {
        lines[0].push_str(", up to the limit");
    }
    if *unknown > 0 {
        lines.push(format!("{unknown} accesses are left out: their addresses are not known"));
    }
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

fn json(recorded: &Recorded, missing: &[String]) -> Value {
    let Recorded { counts, unknown, is_limited } = recorded;
    let cache = |(name, Counters { hits, misses, write_backs }): (String, &Counters)| json!({ "name": name, "cache_hits": hits, "cache_misses": misses, "write_backs": write_backs });
    json!({
        "program_accesses": counts.accesses,
        "unknown_accesses": unknown,
        "limited": is_limited,
        "missing": missing,
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
