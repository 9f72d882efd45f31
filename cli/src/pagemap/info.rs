//! `hmtt pagemap info`: describes the content of a map, and states how stale its pages may be.

use std::io::{self, Write};
use std::path::PathBuf;

use anyhow::{Context, Result};
use hmtt::page_map::{MappedProcess, PageMap};
use hmtt_files::page_map::Ending;
use hmtt_format::escape;
use serde_json::{Value, json};

use crate::accesses::figures::{bytes, seconds};
use crate::standard_io::print;

/// Maximum number of processes that are listed as text.
const LISTED: usize = 20;
/// Width of the column of names of values, in characters.
const NAME_WIDTH: usize = 22;
/// Width of the column of names of processes, in characters.
const COMM_WIDTH: usize = 16;
/// Width of the column of paths, in characters.
const EXE_WIDTH: usize = 34;

/// Describe a map of pages: machine, snapshots, processes, and how stale it may be
#[derive(clap::Args)]
pub struct Arguments {
    /// The map
    #[arg(value_name = "MAP")]
    file: PathBuf,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Runs the command. Returns whether the map is cut or damaged.
pub fn run(arguments: &Arguments) -> Result<bool> {
    let map =
        PageMap::open(&arguments.file).with_context(|| arguments.file.display().to_string())?;
    if arguments.json {
        let object = to_json(&map);
        print(|output| {
            hmtt_format::json::to_writer(&mut *output, &object)?;
            writeln!(output)
        })?;
    } else {
        print(|output| write_text(&map, output))?;
    }
    Ok(!map.missing.is_empty())
}

fn longest(map: &PageMap, value: fn(&MappedProcess) -> u64) -> u64 {
    map.processes.iter().map(value).max().unwrap_or(0)
}

fn sum(map: &PageMap, value: fn(&MappedProcess) -> u64) -> u64 {
    map.processes.iter().filter(|process| !process.is_gone).map(value).fold(0, u64::saturating_add)
}

/// Time from the begin of the first snapshot to the end of the last one.
fn covered_ns(map: &PageMap) -> u64 {
    match (map.snapshots.first(), map.snapshots.last()) {
        (Some(first), Some(last)) => last.end_ns.saturating_sub(first.begin_ns),
        _ => 0,
    }
}

/// Number of snapshots whose begin and end were marked in the capture of a card.
fn marked(map: &PageMap) -> usize {
    map.snapshots.iter().filter(|snapshot| snapshot.mark.is_some()).count()
}

fn boot_id(map: &PageMap) -> Option<String> {
    let id = u128::from_be_bytes(map.machine.boot_id);
    (id != 0).then(|| format!("{id:032x}"))
}

fn ending(map: &PageMap) -> Option<&'static str> {
    map.ending.map(|ending| match ending {
        Ending::Requested => "requested",
        Ending::Time => "time",
        Ending::Processes => "processes_ended",
        Ending::Unknown(_) => "unknown",
    })
}

fn to_json(map: &PageMap) -> Value {
    // A map without times has only the order of snapshots, so no durations are printed.
    let timed = |ns: Option<u64>| ns.filter(|_| map.is_timed());
    let process = |mapped: &MappedProcess| {
        json!({
            "pid": mapped.process.pid,
            "comm": mapped.process.comm,
            "exe": mapped.process.exe,
            "start_ticks": mapped.process.start_ticks,
            "scan_count": mapped.scans,
            "present_pages": mapped.present_pages,
            "swapped_pages": mapped.swapped_pages,
            "hidden_pages": mapped.hidden_pages,
            "longest_scan_ns": timed(Some(mapped.longest_scan_ns)),
            "longest_stale_ns": timed(Some(mapped.longest_stale_ns)).filter(|ns| *ns > 0),
            "gone": mapped.is_gone,
        })
    };
    let last = map.snapshots.last();
    let snapshot_times =
        map.snapshots.iter().map(|snapshot| snapshot.end_ns.saturating_sub(snapshot.begin_ns));
    json!({
        "complete": map.missing.is_empty(),
        "missing": map.missing,
        "ending": ending(map),
        "kernel": map.machine.kernel,
        "boot_id": boot_id(map),
        "page_bytes": 1u64 << map.machine.page_log2,
        "memory_bytes": map.memory_bytes(),
        "snapshot_count": map.snapshots.len(),
        "first_snapshot_ns": timed(map.snapshots.first().map(|one| one.begin_ns)),
        "last_snapshot_ns": timed(last.map(|one| one.end_ns)),
        "longest_snapshot_ns": timed(snapshot_times.max()),
        "longest_scan_ns": timed(Some(longest(map, |one| one.longest_scan_ns))),
        "longest_stale_ns": map.longest_stale_ns(),
        "marked_snapshots": marked(map),
        "unread_processes": last.map(|one| one.unread_processes),
        "present_pages": sum(map, |one| one.present_pages),
        "mapping_count": map.mappings.len(),
        "processes": map.processes.iter().map(process).collect::<Vec<_>>(),
    })
}

fn write_text(map: &PageMap, output: &mut dyn Write) -> io::Result<()> {
    let mut line = |name: &str, value: &str| writeln!(output, "{name:<NAME_WIDTH$} {value}");
    let ns = |ns: u64| seconds(ns as f64 * 1e-9);
    for what in &map.missing {
        line("missing", &escape::message(what).to_string())?;
    }
    let machine = &map.machine;
    if !machine.kernel.is_empty() {
        line("kernel", &escape::message(&machine.kernel).to_string())?;
    }
    if let Some(id) = boot_id(map) {
        line("boot", &id)?;
    }
    if let Some(memory) = map.memory_bytes() {
        line("memory", &bytes(memory))?;
    }
    line("pages", &format!("of {}", bytes(1 << machine.page_log2)))?;
    line("snapshots", &map.snapshots.len().to_string())?;
    if marked(map) > 0 {
        line("marked for a card", &marked(map).to_string())?;
    }
    if map.is_timed() {
        line("time", &ns(covered_ns(map)))?;
        line(
            "longest reading",
            &format!("{} for a process", ns(longest(map, |one| one.longest_scan_ns))),
        )?;
    } else {
        line("time", "not known, only the order of changes")?;
    }
    if let Some(stale) = map.longest_stale_ns() {
        line("may be stale for", &format!("{}, then a page is read again", ns(stale)))?;
    }
    line("mappings", &map.mappings.len().to_string())?;
    line("processes", &map.processes.len().to_string())?;
    let mut processes: Vec<&MappedProcess> = map.processes.iter().collect();
    processes.sort_by_key(|process| std::cmp::Reverse(process.present_pages));
    writeln!(
        output,
        "\n{:>10}  {:<COMM_WIDTH$}  {:>10}  {:>10}  {:>8}  program",
        "pid", "process", "pages", "swapped", "readings"
    )?;
    for mapped in processes.into_iter().take(LISTED) {
        let process = &mapped.process;
        let comm: String =
            escape::message(&process.comm).to_string().chars().take(COMM_WIDTH).collect();
        let exe = escape::message(&process.exe).to_string();
        let skipped = exe.chars().count().saturating_sub(EXE_WIDTH);
        let exe: String = exe.chars().skip(skipped).collect();
        writeln!(
            output,
            "{:>10}  {comm:<COMM_WIDTH$}  {:>10}  {:>10}  {:>8}  {exe}",
            process.pid, mapped.present_pages, mapped.swapped_pages, mapped.scans
        )?;
    }
    Ok(())
}
