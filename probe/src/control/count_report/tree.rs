//! Adds the counts of the programs of a process tree.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::path::Path;

use serde_json::{Value, json};

use super::{BlockCount, FunctionCount, ProgramCounts};

/// Counts of the programs of a process tree.
#[derive(Debug)]
pub struct TreeCounts<'a> {
    programs: &'a [ProgramCounts],
    /// Program, name and number of calls of each function, summed over all processes. The most
    /// called function is first.
    functions: Vec<(&'a Path, &'a str, u64)>,
    /// Program and count of each block, summed over all processes. The most frequent block is
    /// first.
    blocks: Vec<(&'a Path, BlockCount)>,
}

impl<'a> TreeCounts<'a> {
    /// Adds the counts of programs, given in the order in which they began.
    pub fn new(programs: &'a [ProgramCounts]) -> Self {
        let mut functions = BTreeMap::<(&Path, &Path, u64, &str), u64>::new();
        let mut blocks = BTreeMap::<(&Path, &Path, u64), BlockCount>::new();
        for counts in programs {
            for FunctionCount { name, object, start, calls, .. } in &counts.functions {
                let key = (counts.program.as_path(), object.as_path(), *start, name.as_str());
                *functions.entry(key).or_default() += calls;
            }
            for block in counts.blocks.iter().flatten() {
                let sum = blocks.entry((&counts.program, &block.object, block.start));
                sum.and_modify(|sum| sum.count += block.count).or_insert_with(|| block.clone());
            }
        }
        let functions = functions.into_iter();
        let mut functions: Vec<_> =
            functions.map(|((program, _, _, name), calls)| (program, name, calls)).collect();
        functions.sort_by_key(|(.., calls)| Reverse(*calls));
        let blocks = blocks.into_iter();
        let mut blocks: Vec<_> = blocks.map(|((program, ..), block)| (program, block)).collect();
        blocks.sort_by_key(|(_, block)| Reverse(block.count));
        TreeCounts { programs, functions, blocks }
    }

    /// Program, name and count of each function and then of each block, each the most frequent
    /// first.
    pub(super) fn rows(&self) -> impl Iterator<Item = (&Path, &str, u64)> {
        let blocks = self.blocks.iter();
        let blocks = blocks.map(|(program, block)| (*program, block.name.as_str(), block.count));
        self.functions.iter().copied().chain(blocks)
    }

    /// The JSON form: sums over all processes, and the counts of each process.
    pub(super) fn to_json(&self) -> Value {
        let functions = self.functions.iter().map(
            |(program, name, calls)| json!({ "name": name, "calls": calls, "program": program }),
        );
        let processes = self.programs.iter().map(ProgramCounts::to_json_in_tree);
        let (functions, processes): (Vec<_>, Vec<_>) = (functions.collect(), processes.collect());
        let mut json = json!({ "functions": functions, "processes": processes });
        if self.programs.iter().any(|counts| counts.blocks.is_some()) {
            let blocks = self.blocks.iter().map(|(program, block)| {
                let mut block = block.to_json();
                block["program"] = json!(program);
                block
            });
            json["blocks"] = blocks.collect();
        }
        json
    }
}
