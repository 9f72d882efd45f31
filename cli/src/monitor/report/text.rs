//! Prints a report as tables.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use hmtt_files::profile::{Block, Profile};
use hmtt_format::escape;
use hmtt_translator::report::annotation::percent;
use hmtt_translator::report::disassembly::lines;
use hmtt_translator::report::lines::SourceLines;
use hmtt_translator::report::{Analysis, place, shown_address, sum};

/// Maximum number of blocks whose instructions are printed.
const DISASSEMBLED: usize = 5;
/// Maximum number of targets that are printed of an indirect branch.
const TARGETS: usize = 4;

/// The last component of a path.
fn base(object: &str) -> String {
    let name = Path::new(object).file_name().map(|name| name.to_string_lossy().into_owned());
    escape::name(&name.unwrap_or_else(|| "?".into())).to_string()
}

/// The report as text. `top`: rows of each table.
pub fn table(profile: &Profile, top: usize) -> String {
    let analysis = Analysis::new(profile);
    let mut text = summary(profile);
    functions(&mut text, &analysis, top);
    blocks(&mut text, &analysis, top);
    if profile.unbalanced_blocks.is_some() {
        conditional(&mut text, &analysis, top);
        indirect(&mut text, &analysis, top);
    }
    superblocks(&mut text, &analysis, top);
    system_calls(&mut text, profile, top);
    models(&mut text, profile, top);
    native(&mut text, profile, top);
    text
}

fn instructions(profile: &Profile) -> u64 {
    sum(profile.blocks.iter().map(Block::executed))
}

fn summary(profile: &Profile) -> String {
    let (whole, entered) =
        (instructions(profile), sum(profile.blocks.iter().map(|block| block.entries)));
    let (blocks, threads) = (profile.blocks.len(), profile.monitored_threads);
    let mut text = format!(
        "{whole} instructions in {entered} executions of {blocks} blocks, {threads} threads\n"
    );
    if let Some(selection) = &profile.selection {
        let (left_out, total) =
            (selection.omitted_instructions, whole.saturating_add(selection.omitted_instructions));
        let (entries, blocks) = (selection.omitted_entries, selection.omitted_blocks);
        let share = percent(left_out, total);
        let superblocks = match selection.omitted_superblocks {
            0 => String::new(),
            count => format!(", and {count} superblocks with omitted blocks"),
        };
        let _ = writeln!(
            text,
            "omitted by the selection: {left_out} instructions ({share:.2} % of all) in {entries} executions of {blocks} blocks{superblocks}"
        );
    }
    for (count, [singular, plural]) in [
        (profile.native_threads, ["thread", "threads"]),
        (profile.native_children, ["child process", "child processes"]),
    ] {
        if count > 0 {
            let what = if count == 1 { singular } else { plural };
            let _ = writeln!(text, "not counted: {count} {what}, which ran natively");
        }
    }
    if let Some(left) = &profile.left {
        let _ = writeln!(text, "followed only until {}", escape::name(left));
    }
    text
}

fn functions(text: &mut String, analysis: &Analysis<'_>, top: usize) {
    let whole = instructions(analysis.profile);
    let _ = writeln!(
        text,
        "\n{:>16} {:>6} {:>14} {:>14} {:>7}  function",
        "instructions", "%", "entries", "calls", "blocks"
    );
    for function in analysis.functions().iter().take(top) {
        let share = percent(function.instructions, whole);
        let (name, object) = (escape::name(function.name), base(function.object));
        let (count, entries, blocks) = (function.instructions, function.entries, function.blocks);
        let calls = function.calls.map_or_else(|| "-".into(), |calls| calls.to_string());
        let _ = writeln!(
            text,
            "{count:>16} {share:>6.2} {entries:>14} {calls:>14} {blocks:>7}  {name} ({object})"
        );
    }
}

fn blocks(text: &mut String, analysis: &Analysis<'_>, top: usize) {
    let whole = instructions(analysis.profile);
    let hottest: Vec<&Block> = analysis.hottest_blocks().into_iter().take(top).collect();
    let sources = SourceLines::find(hottest.iter().copied());
    let _ = writeln!(
        text,
        "\n{:>16} {:>6} {:>14} {:>18}  block",
        "instructions", "%", "entries", "address"
    );
    for (row, block) in hottest.iter().enumerate() {
        let (count, share) = (block.executed(), percent(block.executed(), whole));
        let (entries, at, object) = (block.entries, shown_address(block), base(&block.object));
        let place = if block.function.is_some() { place(block) } else { "?".into() };
        let source = sources.of(block).map(|line| format!(" {}", escape::name(line)));
        let source = source.unwrap_or_default();
        let _ = writeln!(
            text,
            "{count:>16} {share:>6.2} {entries:>14} {at:>#18x}  {place} ({object}){source}"
        );
        for line in lines(block).iter().filter(|_| row < DISASSEMBLED) {
            let _ = writeln!(text, "{:60}{:x}  {}", "", line.address, line.text);
        }
    }
}

fn conditional(text: &mut String, analysis: &Analysis<'_>, top: usize) {
    let _ = writeln!(
        text,
        "\n{:>16} {:>7} {:>18}  conditional jump at the end of",
        "executions", "taken %", "address"
    );
    for block in analysis.conditional_blocks().into_iter().take(top) {
        let (left, at) = (block.left(), shown_address(block));
        let (share, object) = (percent(block.taken, left), base(&block.object));
        let _ = writeln!(text, "{left:>16} {share:>7.2} {at:>#18x}  {} ({object})", place(block));
    }
}

fn indirect(text: &mut String, analysis: &Analysis<'_>, top: usize) {
    let sites = analysis.indirect_sites();
    let _ = writeln!(
        text,
        "\n{:>16} {:>7} {:>18}  indirect jump, call or return at the end of, and where it led",
        "executions", "targets", "address"
    );
    for site in sites.iter().take(top) {
        let (times, targets, at) = (site.times(), site.targets.len(), shown_address(site.block));
        let object = base(&site.block.object);
        let place_of = place(site.block);
        let _ = writeln!(text, "{times:>16} {targets:>7} {at:>#18x}  {place_of} ({object})");
        for (to, count) in site.targets.iter().take(TARGETS) {
            let share = percent(*count, times);
            let _ = writeln!(text, "{:45}{share:6.2} % {}", "", place(to));
        }
        if site.omitted > 0 {
            let share = percent(site.omitted, times);
            let _ = writeln!(text, "{:45}{share:6.2} % omitted functions", "");
        }
    }
}

fn superblocks(text: &mut String, analysis: &Analysis<'_>, top: usize) {
    let (profile, superblocks) = (analysis.profile, analysis.superblocks());
    if superblocks.is_empty() {
        return;
    }
    let executed = sum(profile.blocks.iter().map(|block| block.entries));
    let saved = sum(superblocks.iter().map(|superblock| superblock.saved_numbers()));
    let (count, share) = (superblocks.len(), percent(saved, executed));
    let undone = superblocks.iter().filter(|superblock| superblock.undone).count();
    let _ = writeln!(
        text,
        "\n{count} superblocks, of which {undone} were undone, saved {saved} of {executed} numbers \
         ({share:.2} %)\n{:>16} {:>14} {:>7} {:>7} {:>12} {:>6}  superblock that begins with",
        "saved numbers", "entries", "whole %", "blocks", "time ms", "time %"
    );
    for superblock in superblocks.into_iter().take(top) {
        let Some(first) = superblock.blocks.first().and_then(|number| profile.block(*number))
        else {
            continue;
        };
        let (saved, entries, blocks) =
            (superblock.saved_numbers(), superblock.entries, superblock.blocks.len());
        let (share, object) = (percent(superblock.completions, entries), base(&first.object));
        let (time, of_time) =
            (superblock.cache_ns as f64 / 1e6, percent(superblock.cache_ns, profile.cache_ns));
        let undone = if superblock.undone { ", undone" } else { "" };
        let _ = writeln!(
            text,
            "{saved:>16} {entries:>14} {share:>7.2} {blocks:>7} {time:>12.3} {of_time:>6.2}  {} ({object}){undone}",
            place(first)
        );
    }
}

fn system_calls(text: &mut String, profile: &Profile, top: usize) {
    let mut by_name: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
    for call in &profile.system_calls {
        let sums = by_name.entry(&call.name).or_default();
        *sums = (sums.0.saturating_add(call.calls), sums.1.saturating_add(call.total_ns));
    }
    let mut rows: Vec<_> = by_name.into_iter().collect();
    rows.sort_by_key(|(name, (calls, _))| (std::cmp::Reverse(*calls), *name));
    if !rows.is_empty() {
        let _ = writeln!(text, "\n{:>16} {:>16}  system call", "calls", "nanoseconds");
    }
    for (name, (calls, time)) in rows.into_iter().take(top) {
        let _ = writeln!(text, "{calls:>16} {time:>16}  {}", escape::name(name));
    }
}

fn models(text: &mut String, profile: &Profile, top: usize) {
    let Some(models) = &profile.models else { return };
    let _ = writeln!(text, "\n{:>16} {:>7}  model", "wrong, misses", "%");
    for predictor in &models.predictors {
        let (count, share) =
            (predictor.mispredictions, percent(predictor.mispredictions, predictor.branches));
        let (name, bytes) = (escape::name(&predictor.name), predictor.size_bytes);
        let _ = writeln!(
            text,
            "{count:>16} {share:>7.3}  predictor {name} of {bytes} bytes, of {} jumps",
            predictor.branches
        );
    }
    if let Some(cache) = &models.icache {
        let (count, share) = (cache.cache_misses, percent(cache.cache_misses, cache.fetches));
        let (bytes, ways, line) = (cache.size_bytes, cache.ways, cache.line_bytes);
        let _ = writeln!(
            text,
            "{count:>16} {share:>7.3}  instruction cache of {bytes} bytes, {ways} ways, lines of {line}"
        );
    }
    let wrong = |block: &&Block| {
        sum(block.mispredictions.last().copied().into_iter().chain([block.cache_misses]))
    };
    let mut worst: Vec<&Block> = profile.blocks.iter().filter(|block| wrong(block) > 0).collect();
    worst.sort_by_key(|one| (std::cmp::Reverse(wrong(one)), one.number));
    let _ = writeln!(text, "\n{:>16} {:>16}  block", "mispredictions", "cache misses");
    for block in worst.into_iter().take(top) {
        let mispredictions: Vec<String> = block.mispredictions.iter().map(u64::to_string).collect();
        let (misses, counts) = (block.cache_misses, mispredictions.join(" "));
        let _ =
            writeln!(text, "{counts:>16} {misses:>16}  {} ({})", place(block), base(&block.object));
    }
}

fn native(text: &mut String, profile: &Profile, top: usize) {
    if !profile.native.is_empty() {
        let _ = writeln!(
            text,
            "\n{:>16} {:>6} {:>18}  ran natively from here to the next system call",
            "times", "time %", "address"
        );
    }
    for entry in profile.native.iter().take(top) {
        let (times, at, reason) = (entry.times, entry.code_address, escape::name(&entry.reason));
        let share = 100.0 * entry.processor_ns as f64 / profile.processor_ns.max(1) as f64;
        let _ = writeln!(text, "{times:>16} {share:>6.2} {at:>#18x}  {reason}");
    }
}

#[cfg(test)]
mod tests {
    use hmtt_files::profile::Selected;

    use super::super::json;
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
        assert!(
            text.contains("41  50.62              3              -       2  f (p)\n"),
            "{text}"
        );
        assert!(
            text.contains("40  49.38              4             0x1000  g\\n+0x0 (p)\n"),
            "{text}"
        );
        let json = json::object(&Analysis::new(&profile), 1, None);
        let json: serde_json::Value = serde_json::from_str(&json).unwrap();
        assert_eq!(json["functions"][0]["instructions"], 41);
        assert_eq!(json["blocks"].as_array().unwrap().len(), 1);
        assert_eq!(json["instructions"], 81);
    }
    #[test]
    fn what_a_selection_omits_is_printed() {
        let omitted = Selected {
            omitted_blocks: 2,
            omitted_entries: 30,
            omitted_instructions: 94,
            ..Selected::default()
        };
        let line = |selection: Selected| {
            let blocks = vec![block("f", 0, 2, 3)];
            let text =
                table(&Profile { blocks, selection: Some(selection), ..Profile::default() }, 1);
            text.lines().nth(1).unwrap().to_owned()
        };
        let expected = "omitted by the selection: 94 instructions (94.00 % of all) in 30 executions of 2 blocks";
        assert_eq!(line(omitted.clone()), expected);
        let with_superblocks = line(Selected { omitted_superblocks: 3, ..omitted });
        assert_eq!(with_superblocks, format!("{expected}, and 3 superblocks with omitted blocks"));
    }
}
