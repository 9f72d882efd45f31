//! Joins a profile with the accesses of blocks and loops from `hmtt tag report --json`. Both name
//! code by file and address.
//!
//! Profile and report come from different runs. A tagged block may contain calls, and then consists
//! of several blocks of the profile; it is joined with the first of these blocks. Neither file is
//! trusted.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use hmtt_files::profile::Profile;
use hmtt_format::escape;
use serde_json::{Value, json};

use crate::tag::warnings::shown;

/// A block or loop with accesses, from a report.
struct Region {
    function: String,
    object: String,
    file_address: u64,
    entries: u64,
    accesses: Value,
}

/// A block or loop from a report, with the number of executions of its first instruction. The
/// number of executions comes from the profile, which is another run.
struct Joined {
    region: Region,
    executions: u64,
}

/// Blocks and loops that have accesses and were executed in the profile. The blocks and loops with
/// the most own accesses come first.
pub struct Accesses {
    report: PathBuf,
    blocks: Vec<Joined>,
    loops: Vec<Joined>,
}

impl Accesses {
    /// Reads a report, and joins it with a profile.
    ///
    /// # Errors
    /// The report cannot be read, is not the JSON of `hmtt tag report`, or has no accesses of code
    /// that the profile contains.
    pub fn read(report: &Path, profile: &Profile) -> Result<Self> {
        let path = shown(report);
        let text = std::fs::read(report).with_context(|| format!("cannot read {path}"))?;
        let json: Value = serde_json::from_slice(&text)
            .with_context(|| format!("{path} is not the output of hmtt tag report --json"))?;
        let files = files(profile);
        let [blocks, loops] = ["blocks", "loops"].map(|kind| {
            let regions = json[kind].as_array().into_iter().flatten();
            join(regions.filter_map(Region::new).collect(), &files)
        });
        ensure!(
            !blocks.is_empty() || !loops.is_empty(),
            "{path} has no accesses of blocks or loops that were executed in this profile; give hmtt tag run --blocks or \
             --loops, and hmtt tag report --json with a trace"
        );
        Ok(Accesses { report: report.to_owned(), blocks, loops })
    }

    /// Tables of the first `top` blocks and loops.
    pub fn table(&self, top: usize) -> String {
        let mut text = format!("\naccesses in {}, of another run\n", shown(&self.report));
        for (heading, rows) in [("block", &self.blocks), ("loop", &self.loops)] {
            if !rows.is_empty() {
                let _ = writeln!(
                    text,
                    "{:>14} {:>14} {:>14} {:>12} {:>16}  {heading}",
                    "inclusive", "self", "entries", "self/entry", "executions here"
                );
            }
            for Joined { region, executions } in rows.iter().take(top) {
                let [inclusive, own] = ["inclusive", "self"].map(|kind| region.accesses(kind));
                let Region { function, file_address, entries, .. } = region;
                let each = own as f64 / (*entries).max(1) as f64;
                let function = escape::name(function);
                let _ = writeln!(
                    text,
                    "{inclusive:>14} {own:>14} {entries:>14} {each:>12.3} {executions:>16}  {function} at {file_address:x}"
                );
            }
        }
        text
    }

    /// The first `top` blocks and loops as JSON.
    pub fn json(&self, top: usize) -> Value {
        let list = |rows: &[Joined]| -> Value {
            let row = |Joined { region, executions }: &Joined| {
                json!({
                    "function": region.function,
                    "object": region.object,
                    "file_address": format!("{:#x}", region.file_address),
                    "entries": region.entries,
                    "executions": executions,
                    "accesses": region.accesses,
                })
            };
            rows.iter().take(top).map(row).collect()
        };
        json!({ "blocks": list(&self.blocks), "loops": list(&self.loops) })
    }
}

impl Region {
    /// Parses a block or loop of a report; `None` if it has no accesses, or its file is not known.
    fn new(value: &Value) -> Option<Self> {
        let text = |name: &str| value[name].as_str();
        Some(Region {
            function: text("function")?.to_owned(),
            object: text("object")?.to_owned(),
            file_address: hexadecimal(text("file_address")?)?,
            entries: value["entries"].as_u64()?,
            accesses: Some(value["accesses"].clone()).filter(Value::is_object)?,
        })
    }

    /// Number of the region's accesses. `kind`: `inclusive` or `self`.
    fn accesses(&self, kind: &str) -> u64 {
        self.accesses[kind]["accesses"].as_u64().unwrap_or(0)
    }
}

fn join(regions: Vec<Region>, files: &HashMap<&str, Vec<(u64, u64)>>) -> Vec<Joined> {
    let executed = |region: &Region| {
        let executions = files.get(&*region.object)?;
        let after = executions.partition_point(|(at, _)| *at <= region.file_address);
        Some(executions[after.checked_sub(1)?].1).filter(|times| *times > 0)
    };
    let mut joined: Vec<Joined> = regions
        .into_iter()
        .filter(|region| region.accesses("inclusive") > 0)
        .filter_map(|region| executed(&region).map(|executions| Joined { region, executions }))
        .collect();
    joined.sort_by_key(|one| Reverse(one.region.accesses("self")));
    joined
}

/// For each file, ascending pairs of an address and the number of executions of the instructions
/// from there to the next pair's address. Blocks may overlap, so an instruction has the sum of the
/// executions of all blocks that contain it. Example: blocks 0x10..0x18, executed 5 times, and
/// 0x14..0x18, executed twice, become (0x10, 5), (0x14, 7) and, last, (0x18, 0).
fn files(profile: &Profile) -> HashMap<&str, Vec<(u64, u64)>> {
    let mut changes = HashMap::<&str, Vec<(u64, i128)>>::new();
    for block in &profile.blocks {
        let Some(start) = block.file_address else { continue };
        let (changes, entries) = (changes.entry(&block.object).or_default(), block.entries.into());
        changes.push((start, entries));
        changes.push((start.saturating_add(block.size_bytes), -entries));
    }
    let sums = |mut changes: Vec<(u64, i128)>| {
        changes.sort_unstable();
        let mut sum = 0_i128;
        let add = |(at, change): (u64, i128)| {
            sum += change;
            (at, u64::try_from(sum.max(0)).unwrap_or(u64::MAX))
        };
        changes.into_iter().map(add).collect()
    };
    changes.into_iter().map(|(object, changes)| (object, sums(changes))).collect()
}

/// Parses a hexadecimal address. Older reports have no `0x` before it.
fn hexadecimal(text: &str) -> Option<u64> {
    u64::from_str_radix(text.strip_prefix("0x").unwrap_or(text), 16).ok()
}

#[cfg(test)]
mod tests {
    use hmtt_files::profile::Block;

    use super::*;

    #[test]
    fn an_instruction_is_executed_as_often_as_all_blocks_that_contain_it() {
        let block = |start, size_bytes, entries| Block {
            object: "/prog".into(),
            file_address: Some(start),
            size_bytes,
            entries,
            ..Block::default()
        };
        let blocks = vec![block(0x10, 8, 5), block(0x14, 4, 2), block(0x30, 4, u64::MAX)];
        let profile = Profile { blocks, ..Profile::default() };
        let region = |file_address: u64| Region {
            function: "f".into(),
            object: "/prog".into(),
            file_address,
            entries: 1,
            accesses: json!({ "inclusive": { "accesses": 3 } }),
        };
        let joined =
            join([0xf, 0x10, 0x13, 0x14, 0x17, 0x18, 0x30].map(region).into(), &files(&profile));
        let executions: Vec<(u64, u64)> =
            joined.iter().map(|one| (one.region.file_address, one.executions)).collect();
        assert_eq!(executions, [(0x10, 5), (0x13, 5), (0x14, 7), (0x17, 7), (0x30, u64::MAX)]);
    }

    #[test]
    fn what_is_no_block_with_accesses_is_left_out() {
        let whole = json!({
            "function": "f", "object": "/prog", "file_address": "1a", "entries": 2, "accesses": {},
        });
        assert_eq!(Region::new(&whole).unwrap().file_address, 0x1a);
        let mut prefixed = whole.clone();
        prefixed["file_address"] = "0x1a".into();
        assert_eq!(Region::new(&prefixed).unwrap().file_address, 0x1a);
        for name in ["function", "object", "file_address", "entries", "accesses"] {
            let mut part = whole.clone();
            part[name] = json!(null);
            assert!(Region::new(&part).is_none(), "{name}");
        }
    }
}
