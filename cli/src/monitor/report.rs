//! `hmtt monitor report`: prints the functions and blocks in which most instructions were executed.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use hmtt_format::escape;
use hmtt_format::profile::{Block, Profile};
use serde_json::{Value, json};

use crate::standard_io;

/// Rows of a table by default.
pub const ROWS: usize = 20;

/// Report the hottest functions and blocks of a program
#[derive(clap::Args)]
pub struct Report {
    /// A file that hmtt monitor run has written
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Number of functions, and of blocks, that are printed; 0 means all
    #[arg(long, value_name = "ROWS", default_value_t = ROWS)]
    top: usize,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Prints the report. Returns whether something was lost.
pub fn run(Report { file, top, json }: &Report) -> Result<bool> {
    let profile = read(file)?;
    let top = if *top == 0 { usize::MAX } else { *top };
    let text = if *json { to_json(&profile, top) } else { table(&profile, top) };
    standard_io::print(|output| output.write_all(text.as_bytes()))?;
    warn(&profile);
    Ok(!profile.is_complete())
}

/// Reads a profile.
fn read(path: &Path) -> Result<Profile> {
    let shown = crate::tag::warnings::shown(path);
    let text = std::fs::read(path).with_context(|| format!("cannot read {shown}"))?;
    let profile = Profile::parse(&text);
    profile.with_context(|| format!("{shown} is not a file of hmtt monitor run"))
}

/// Warns of what is missing in a profile.
pub fn warn(profile: &Profile) {
    for (count, what) in profile.losses() {
        report!("hmtt: warning: {count} {what}");
    }
}

/// A function, with sums over its blocks.
struct Function<'p> {
    name: &'p str,
    object: &'p str,
    instructions: u64,
    /// Executions of the block at its first instruction.
    entries: u64,
    blocks: u64,
}

/// Functions by the number of executed instructions.
fn functions(profile: &Profile) -> Vec<Function<'_>> {
    let mut all: HashMap<(&str, &str), Function<'_>> = HashMap::new();
    for block in &profile.blocks {
        let name = block.function.as_deref().unwrap_or("?");
        let offset = block.offset.unwrap_or(u64::MAX);
        let object = block.object.as_str();
        let new = Function { name, object, instructions: 0, entries: 0, blocks: 0 };
        let function = all.entry((object, name)).or_insert(new);
        function.instructions += block.executed();
        function.entries += if offset == 0 { block.entries } else { 0 };
        function.blocks += 1;
    }
    let mut all: Vec<_> = all.into_values().collect();
    all.sort_by_key(|one| (std::cmp::Reverse(one.instructions), one.object, one.name));
    all
}

/// Blocks by the number of executed instructions.
fn hottest(profile: &Profile) -> Vec<&Block> {
    let mut all: Vec<&Block> = profile.blocks.iter().collect();
    all.sort_by_key(|one| (std::cmp::Reverse(one.executed()), one.code_address));
    all
}

fn instructions(profile: &Profile) -> u64 {
    profile.blocks.iter().map(Block::executed).fold(0, u64::saturating_add)
}

fn executions(profile: &Profile) -> u64 {
    profile.blocks.iter().map(|one| one.entries).fold(0, u64::saturating_add)
}

/// The last component of a path.
fn base(object: &str) -> String {
    let name = Path::new(object).file_name().map(|name| name.to_string_lossy().into_owned());
    escape::name(&name.unwrap_or_else(|| "?".into())).to_string()
}

fn percent(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 * 100.0 / whole as f64 }
}

/// The report as text.
pub fn table(profile: &Profile, top: usize) -> String {
    let (whole, entered) = (instructions(profile), executions(profile));
    let mut text = format!(
        "{whole} instructions in {entered} executions of {} blocks, {} threads\n",
        profile.blocks.len(),
        profile.monitored_threads,
    );
    for (count, what) in
        [(profile.native_threads, "threads"), (profile.native_children, "child processes")]
    {
        if count > 0 {
            let _ = writeln!(text, "not counted: {count} {what}, which ran natively");
        }
    }
    if let Some(left) = &profile.left {
        let _ = writeln!(text, "followed only until {}", escape::name(left));
    }
    let _ = writeln!(
        text,
        "\n{:>16} {:>6} {:>14} {:>7}  function",
        "instructions", "%", "entries", "blocks"
    );
    for one in functions(profile).iter().take(top) {
        let share = percent(one.instructions, whole);
        let (name, object) = (escape::name(one.name), base(one.object));
        let (count, entries, blocks) = (one.instructions, one.entries, one.blocks);
        let _ =
            writeln!(text, "{count:>16} {share:>6.2} {entries:>14} {blocks:>7}  {name} ({object})");
    }
    let _ = writeln!(
        text,
        "\n{:>16} {:>6} {:>14} {:>18}  block",
        "instructions", "%", "entries", "address"
    );
    for one in hottest(profile).into_iter().take(top) {
        let (count, share) = (one.executed(), percent(one.executed(), whole));
        let (entries, at) = (one.entries, one.file_address.unwrap_or(one.code_address));
        let place = match (&one.function, one.offset) {
            (Some(name), Some(offset)) => format!("{}+{offset:#x}", escape::name(name)),
            _ => "?".into(),
        };
        let object = base(&one.object);
        let _ =
            writeln!(text, "{count:>16} {share:>6.2} {entries:>14} {at:>#18x}  {place} ({object})");
    }
    if !profile.native.is_empty() {
        let _ = writeln!(
            text,
            "\n{:>16} {:>18}  ran natively from here to the next system call",
            "times", "address"
        );
    }
    for one in profile.native.iter().take(top) {
        let (times, at, reason) = (one.times, one.code_address, escape::name(&one.reason));
        let _ = writeln!(text, "{times:>16} {at:>#18x}  {reason}");
    }
    text
}

/// The report as one JSON object.
fn to_json(profile: &Profile, top: usize) -> String {
    let functions: Vec<Value> = functions(profile)
        .iter()
        .take(top)
        .map(|one| {
            json!({
                "function": one.name,
                "object": one.object,
                "instructions": one.instructions,
                "entries": one.entries,
                "block_count": one.blocks,
            })
        })
        .collect();
    let hottest = Profile {
        blocks: hottest(profile).into_iter().take(top).cloned().collect(),
        ..profile.clone()
    };
    let mut all: Value = serde_json::from_str(&hottest.to_json()).unwrap_or_default();
    all["instructions"] = json!(instructions(profile));
    all["entries"] = json!(executions(profile));
    all["functions"] = json!(functions);
    format!("{all}\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(function: &str, offset: u64, instructions: u64, entries: u64) -> Block {
        Block {
            object: "/usr/bin/p".into(),
            function: Some(function.into()),
            offset: Some(offset),
            file_address: Some(0x1000 + offset),
            instructions,
            entries,
            ..Block::default()
        }
    }

    #[test]
    fn functions_and_blocks_are_sorted_by_executed_instructions() {
        let blocks = vec![block("f", 0, 2, 3), block("g\n", 0, 10, 4), block("f", 8, 5, 7)];
        let profile = Profile { blocks, ..Profile::default() };
        let text = table(&profile, 1);
        assert!(
            text.starts_with("81 instructions in 14 executions of 3 blocks, 0 threads\n"),
            "{text}"
        );
        assert!(text.contains("41  50.62              3       2  f (p)\n"), "{text}");
        assert!(
            text.contains("40  49.38              4             0x1000  g\\n+0x0 (p)\n"),
            "{text}"
        );
        let json: Value = serde_json::from_str(&to_json(&profile, 1)).unwrap();
        assert_eq!(json["functions"][0]["instructions"], 41);
        assert_eq!(json["blocks"].as_array().unwrap().len(), 1);
        assert_eq!(json["instructions"], 81);
    }
}
