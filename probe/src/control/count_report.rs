//! Reports how often functions were called and blocks begun: of a process, or of all programs of a process tree.
//!
//! Data flow: [`ProgramCounts::read`] copies the counts of a process before its tags are gone; [`TreeCounts`] adds
//! those of several programs. Both have rows for tables and one JSON form each:
//!
//! ```text
//! process   functions: name, calls, threads   blocks
//! tree      functions: name, calls, program   processes: pid, program, functions, blocks   blocks: program
//! ```

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use nix::unistd::Pid;
use serde_json::{Value, json};

use super::Tagged;
use crate::disassembly::Block;
use crate::elf::Function;

/// Counts of a function.
#[derive(Clone, Debug)]
pub struct FunctionCount {
    /// Name of the function.
    pub name: String,
    /// File that contains the function.
    object: PathBuf,
    /// Address of its first instruction, in the file.
    start: u64,
    /// Number of calls.
    pub calls: u64,
    /// Number of calls by each thread that has called it.
    threads: BTreeMap<i32, u64>,
}

/// Counts of a block.
#[derive(Clone, Debug)]
pub struct BlockCount {
    /// Readable name of the block.
    pub name: String,
    /// File that contains the block.
    object: PathBuf,
    /// Address of its first instruction, in the file.
    start: u64,
    /// Number of executions.
    pub count: u64,
    /// JSON description without the count.
    description: Value,
}

/// Counts of one program in one process.
#[derive(Clone, Debug)]
pub struct ProgramCounts {
    pid: Pid,
    program: PathBuf,
    functions: Vec<FunctionCount>,
    /// Counts of blocks, if blocks or loops were chosen.
    blocks: Option<Vec<BlockCount>>,
    /// Number of counters with impossible values, because the program has written over them.
    pub damaged: u64,
}

/// The JSON description of a block.
pub fn block_json(function: &Function, block: &Block) -> Value {
    json!({
        "function": function.name,
        "offset": block.start.wrapping_sub(function.start).cast_signed(),
        "code_address": format!("{:x}", block.start),
        "size_bytes": block.size,
        "loop": block.is_loop,
    })
}

impl BlockCount {
    /// The JSON description with the count.
    fn to_json(&self) -> Value {
        let mut value = self.description.clone();
        value["entries"] = self.count.into();
        value
    }
}

impl ProgramCounts {
    /// Copies the counts of a process.
    pub fn read(tagged: &Tagged) -> Self {
        let counts = tagged.counts();
        let total = |number: u32| {
            counts.iter().filter_map(|one| one.entries.get(number as usize)).sum::<u64>()
        };
        let threads = |number: u32| {
            // The kernel uses numbers of threads again.
            let mut sums = BTreeMap::<i32, u64>::new();
            for one in &counts {
                let calls = one.entries.get(number as usize).copied().unwrap_or(0);
                if calls != 0 {
                    *sums.entry(one.thread).or_default() += calls;
                }
            }
            sums
        };
        let functions = tagged.objects().map(|(number, object, function)| FunctionCount {
            name: function.name.clone(),
            object: object.to_owned(),
            start: function.start,
            calls: total(number),
            threads: threads(number),
        });
        let blocks = tagged.blocks().map(|(number, object, function, block)| BlockCount {
            name: block.name(function),
            object: object.to_owned(),
            start: block.start,
            count: total(number),
            description: block_json(function, block),
        });
        ProgramCounts {
            pid: tagged.pid(),
            program: tagged.program().to_owned(),
            functions: functions.collect(),
            blocks: tagged.is_finer().then(|| blocks.collect()),
            damaged: counts.iter().map(|thread| thread.damaged).sum(),
        }
    }

    /// Functions, the most called first.
    pub fn functions(&self) -> Vec<&FunctionCount> {
        let mut functions: Vec<&FunctionCount> = self.functions.iter().collect();
        functions.sort_by_key(|one| Reverse(one.calls));
        functions
    }

    /// Blocks, the most frequent first.
    pub fn blocks(&self) -> Vec<&BlockCount> {
        let mut blocks: Vec<&BlockCount> = self.blocks.iter().flatten().collect();
        blocks.sort_by_key(|one| Reverse(one.count));
        blocks
    }

    /// The JSON form of a single process.
    pub fn to_json(&self) -> Value {
        let functions = self
            .functions()
            .into_iter()
            .map(|one| json!({ "name": one.name, "calls": one.calls, "threads": one.threads }));
        let mut all = json!({ "functions": functions.collect::<Vec<Value>>() });
        if let Some(blocks) = &self.blocks {
            all["blocks"] = blocks.iter().map(BlockCount::to_json).collect();
        }
        all
    }

    /// The JSON form of a process in a tree.
    fn to_json_in_tree(&self) -> Value {
        let functions = self.functions.iter();
        let functions: Vec<Value> =
            functions.map(|one| json!({ "name": one.name, "calls": one.calls })).collect();
        let pid = self.pid.as_raw();
        let mut json = json!({ "pid": pid, "program": self.program, "functions": functions });
        if let Some(blocks) = &self.blocks {
            json["blocks"] = blocks.iter().map(BlockCount::to_json).collect();
        }
        json
    }
}

/// Counts of the programs of a process tree.
#[derive(Debug)]
pub struct TreeCounts<'a> {
    programs: &'a [ProgramCounts],
    /// Program, name and calls of each function, summed over all processes, the most called first.
    functions: Vec<(&'a Path, &'a str, u64)>,
    /// Program and sum of each block, the most frequent first.
    blocks: Vec<(&'a Path, BlockCount)>,
}

impl<'a> TreeCounts<'a> {
    /// Adds the counts of programs, given in the order in which they began.
    pub fn new(programs: &'a [ProgramCounts]) -> Self {
        let mut functions = BTreeMap::<(&Path, &Path, u64, &str), u64>::new();
        let mut blocks = BTreeMap::<(&Path, &Path, u64), BlockCount>::new();
        for one in programs {
            for FunctionCount { name, object, start, calls, .. } in &one.functions {
                let key = (one.program.as_path(), object.as_path(), *start, name.as_str());
                *functions.entry(key).or_default() += calls;
            }
            for block in one.blocks.iter().flatten() {
                let sum = blocks.entry((&one.program, &block.object, block.start));
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

    /// Program, name and count of each function and then of each block, each the most frequent first.
    pub fn rows(&self) -> impl Iterator<Item = (&Path, &str, u64)> {
        let blocks = self.blocks.iter();
        let blocks = blocks.map(|(program, block)| (*program, block.name.as_str(), block.count));
        self.functions.iter().copied().chain(blocks)
    }

    /// The JSON form: all processes together, and each process.
    pub fn to_json(&self) -> Value {
        let functions = self.functions.iter().map(
            |(program, name, calls)| json!({ "name": name, "calls": calls, "program": program }),
        );
        let processes = self.programs.iter().map(ProgramCounts::to_json_in_tree);
        let (functions, processes): (Vec<_>, Vec<_>) = (functions.collect(), processes.collect());
        let mut json = json!({ "functions": functions, "processes": processes });
        if self.programs.iter().any(|one| one.blocks.is_some()) {
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Counts of a program with two functions and a block, which one thread has run.
    fn program(pid: i32, calls: [u64; 2]) -> ProgramCounts {
        let function = |(at, name): (usize, &str)| FunctionCount {
            name: name.into(),
            object: "/bin/x".into(),
            start: 0x1000 * at as u64,
            calls: calls[at],
            threads: BTreeMap::from([(pid, calls[at])]),
        };
        let block = BlockCount {
            name: "f+4".into(),
            object: "/bin/x".into(),
            start: 4,
            count: 10 * calls[0],
            description: json!({ "function": "f" }),
        };
        ProgramCounts {
            pid: Pid::from_raw(pid),
            program: "/bin/x".into(),
            functions: [(0, "f"), (1, "g")].map(function).to_vec(),
            blocks: Some(vec![block]),
            damaged: 0,
        }
    }

    #[test]
    fn a_process_has_its_functions_by_calls_with_threads() {
        let expected = json!({
            "functions": [
                { "name": "g", "calls": 3, "threads": { "7": 3 } },
                { "name": "f", "calls": 2, "threads": { "7": 2 } },
            ],
            "blocks": [{ "function": "f", "entries": 20 }],
        });
        assert_eq!(program(7, [2, 3]).to_json(), expected);
    }

    #[test]
    fn a_tree_has_the_sums_of_its_processes_and_each_process() {
        let programs = [program(7, [2, 3]), program(8, [5, 0])];
        let sums = TreeCounts::new(&programs);
        let rows: Vec<(&str, u64)> = sums.rows().map(|(_, name, count)| (name, count)).collect();
        assert_eq!(rows, [("f", 7), ("g", 3), ("f+4", 70)]);
        let json = sums.to_json();
        let function =
            |name: &str, calls: u64| json!({ "name": name, "calls": calls, "program": "/bin/x" });
        assert_eq!(json["functions"], json!([function("f", 7), function("g", 3)]));
        assert_eq!(
            json["blocks"],
            json!([{ "function": "f", "entries": 70, "program": "/bin/x" }])
        );
        let second = json!({
            "pid": 8,
            "program": "/bin/x",
            "functions": [{ "name": "f", "calls": 5 }, { "name": "g", "calls": 0 }],
            "blocks": [{ "function": "f", "entries": 50 }],
        });
        assert_eq!(json["processes"][1], second);
    }
}
