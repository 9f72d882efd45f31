//! Writes a profile in callgrind's format, for each instruction, for `callgrind_annotate` and
//! KCachegrind.
//!
//! The costs are executed instructions (`Ir`). Calls have their number of executions. They have no
//! inclusive cost, because a profile of blocks does not state it. Addresses are addresses in the
//! file. Sums are over the blocks in the profile; a `desc` line states what the selection has
//! omitted.

use std::collections::BTreeMap;
use std::io::{self, Write};

use hmtt_files::profile::Block;
use hmtt_format::escape;

use super::lines::SourceLines;
use super::{Analysis, disassembly, shown_address, sum};

/// Object and name of a function.
type Key<'p> = (&'p str, &'p str);

/// Costs and calls of a function.
#[derive(Default)]
struct Function<'p> {
    /// Executions of instructions, by address.
    costs: BTreeMap<u64, u64>,
    /// Number of calls, by the address of the call, and the function and address that were called.
    calls: BTreeMap<(u64, Key<'p>, u64), u64>,
}

/// Writes a profile.
///
/// # Errors
/// The errors of writing to `output`.
pub fn write(analysis: &Analysis<'_>, mut output: impl Write) -> io::Result<()> {
    let functions = functions(analysis);
    let sources = SourceLines::find(&analysis.profile.blocks);
    let total = sum(functions.values().flat_map(|function| function.costs.values().copied()));
    let version = env!("CARGO_PKG_VERSION");
    writeln!(output, "# callgrind format\nversion: 1\ncreator: hmtt {version}")?;
    if let Some(selection) = &analysis.profile.selection {
        let (count, entries, blocks) =
            (selection.omitted_instructions, selection.omitted_entries, selection.omitted_blocks);
        let what = format!("{count} instructions in {entries} executions of {blocks} blocks");
        writeln!(output, "desc: Omitted by the selection: {what}")?;
    }
    writeln!(output, "positions: instr line\nevents: Ir\nsummary: {total}\n")?;
    for ((object, name), function) in &functions {
        let lines = |at: u64| source(&sources, object, at);
        let file = function.costs.keys().find_map(|at| lines(*at)).map_or("???", |(file, _)| file);
        // Code that was inlined from another file has no line.
        let line = |at: u64| lines(at).filter(|(of, _)| *of == file).map_or(0, |(_, line)| line);
        writeln!(output, "ob={}\nfl={}\nfn={}", text(object), text(file), text(name))?;
        for (at, cost) in &function.costs {
            writeln!(output, "{at:#x} {} {cost}", line(*at))?;
            let last = (at.saturating_add(1), ("", ""), 0);
            for ((_, called, to), times) in function.calls.range((*at, ("", ""), 0)..last) {
                writeln!(output, "cob={}\ncfi=???\ncfn={}", text(called.0), text(called.1))?;
                writeln!(output, "calls={times} {to:#x} 0\n{at:#x} {} 0", line(*at))?;
            }
        }
        writeln!(output)?;
    }
    writeln!(output, "totals: {total}")
}

fn key(block: &Block) -> Key<'_> {
    (&block.object, block.function.as_deref().unwrap_or("???"))
}

/// A name in the format: names have no line ends, and are not empty.
fn text(name: &str) -> String {
    if name.is_empty() { "???".into() } else { escape::message(name).to_string() }
}

fn source<'s>(sources: &'s SourceLines<'_>, object: &str, at: u64) -> Option<(&'s str, u64)> {
    let (file, line) = sources.get(object, at)?.rsplit_once(':')?;
    Some((file, line.parse().ok()?))
}

fn functions<'p>(analysis: &Analysis<'p>) -> BTreeMap<Key<'p>, Function<'p>> {
    let mut functions: BTreeMap<Key<'p>, Function<'p>> = BTreeMap::new();
    for block in &analysis.profile.blocks {
        let function = functions.entry(key(block)).or_default();
        for (at, cost) in costs(block) {
            let sum = function.costs.entry(at).or_default();
            *sum = sum.saturating_add(cost);
        }
    }
    for edge in analysis.edges().into_iter().filter(|edge| edge.kind.is_call()) {
        let last = disassembly::instructions(edge.from).last().copied();
        let (Some(to), Some((at, _))) = (edge.to, last) else { continue };
        if let Some(function) = functions.get_mut(&key(edge.from)) {
            let times = function.calls.entry((at, key(to), shown_address(to))).or_default();
            *times = times.saturating_add(edge.times);
        }
    }
    functions
}

/// Executions of each instruction of a block. Executions that a signal prevented are subtracted
/// from the end of the block on, so that the sum is right. Which instructions were not executed is
/// not known.
fn costs(block: &Block) -> Vec<(u64, u64)> {
    let mut missing = block.unexecuted;
    let mut costs: Vec<(u64, u64)> =
        disassembly::instructions(block).into_iter().map(|(at, _)| (at, block.entries)).collect();
    for (_, cost) in costs.iter_mut().rev() {
        let deduction = missing.min(*cost);
        (*cost, missing) = (*cost - deduction, missing - deduction);
    }
    costs
}

#[cfg(test)]
mod tests {
    use hmtt_files::profile::{Profile, Selected};

    use super::*;
    use crate::report::tests::profile;

    #[test]
    fn costs_and_calls_are_those_of_instructions() {
        let mut profile = profile();
        profile.blocks[4].unexecuted = 11;
        let mut output = Vec::new();
        write(&Analysis::new(&profile), &mut output).unwrap();
        let text = String::from_utf8(output).unwrap();
        let (_, text) = text.split_once("positions:").unwrap();
        let expected = " instr line
events: Ir
summary: 62

ob=/bin/p
fl=???
fn=f
0x1000 0 11
0x1002 0 11
0x1004 0 10
cob=/bin/p
cfi=???
cfn=g
calls=10 0x1020 0
0x1004 0 0
0x1006 0 10
0x1008 0 1

ob=/bin/p
fl=???
fn=g
0x1020 0 10
0x1021 0 9
0x1022 0 0

totals: 62
";
        assert_eq!(text, expected);
    }
    #[test]
    fn what_a_selection_omits_is_in_the_header() {
        let selection = Selected { omitted_blocks: 2, omitted_entries: 30, ..Selected::default() };
        let selection = Some(Selected { omitted_instructions: 94, ..selection });
        let mut output = Vec::new();
        write(&Analysis::new(&Profile { selection, ..profile() }), &mut output).unwrap();
        let text = String::from_utf8(output).unwrap();
        let line = text.lines().find(|line| line.starts_with("desc: "));
        let expected =
            "desc: Omitted by the selection: 94 instructions in 30 executions of 2 blocks";
        assert_eq!(line, Some(expected));
    }
}
