//! Reports how often functions were called and blocks executed, in one process or in all programs
//! of a process tree.
//!
//! Data flow: [`ProgramCounts::read`] copies the counts of a process before its tags are removed;
//! [`TreeCounts`] adds the counts of several programs. [`CountReport`] gives the rows of tables and
//! the JSON form for one process or for a tree:
//!
//! ```text
//! process   functions: name, calls, threads   blocks
//! tree      functions: name, calls, program   processes: pid, program, functions, blocks   blocks: program
//! ```

#[cfg(test)]
mod tests;
mod tree;

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use hmtt_files::tag_log::FunctionId;
use nix::unistd::Pid;
use serde_json::{Value, json};

use super::Tagged;
use crate::disassembly::Block;
use crate::elf::Function;

pub use tree::TreeCounts;

/// Counts of a function.
#[derive(Clone, Debug)]
struct FunctionCount {
    /// Name of the function.
    name: String,
    /// File that contains the function.
    object: PathBuf,
    /// Address of its first instruction, in the file.
    start: u64,
    /// Number of calls.
    calls: u64,
    /// Number of calls by each thread that has called it.
    threads: BTreeMap<i32, u64>,
}

/// Counts of a block.
#[derive(Clone, Debug)]
struct BlockCount {
    /// Readable name of the block.
    name: String,
    /// File that contains the block.
    object: PathBuf,
    /// Address of its first instruction, in the file.
    start: u64,
    /// Number of executions.
    count: u64,
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

/// Counts in the form in which they are written.
#[derive(Debug)]
pub enum CountReport<'a> {
    /// Counts of a process that was followed alone.
    Process(&'a ProgramCounts),
    /// Counts of a process tree.
    Tree(TreeCounts<'a>),
}

/// A row of a table of counts: a function or a block.
#[derive(Clone, Copy, Debug)]
pub struct CountRow<'a> {
    /// The program, in a table of a process tree.
    pub program: Option<&'a Path>,
    /// Name of the function or block.
    pub name: &'a str,
    /// Number of calls or executions.
    pub count: u64,
}

impl CountReport<'_> {
    /// Rows of all functions and then of all blocks, each the most frequent first.
    pub fn rows(&self) -> Vec<CountRow<'_>> {
        match self {
            CountReport::Process(counts) => {
                let functions =
                    counts.functions().into_iter().map(|function| (&function.name, function.calls));
                let blocks = counts.blocks().into_iter().map(|block| (&block.name, block.count));
                let rows = functions.chain(blocks);
                rows.map(|(name, count)| CountRow { program: None, name, count }).collect()
            }
            CountReport::Tree(counts) => counts
                .rows()
                .map(|(program, name, count)| CountRow { program: Some(program), name, count })
                .collect(),
        }
    }

    /// The JSON form.
    pub fn to_json(&self) -> Value {
        match self {
            CountReport::Process(counts) => counts.to_json(),
            CountReport::Tree(counts) => counts.to_json(),
        }
    }
}

/// The JSON description of a block.
pub fn block_json(function: &Function, block: &Block) -> Value {
    json!({
        "function": function.name,
        "offset": block.start.wrapping_sub(function.start).cast_signed(),
        "code_address": format!("{:#x}", block.start),
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
        let total = |id: FunctionId| {
            counts
                .iter()
                .filter_map(|thread_counts| thread_counts.entries.get(id.index()))
                .sum::<u64>()
        };
        let threads = |id: FunctionId| {
            // The kernel uses numbers of threads again.
            let mut sums = BTreeMap::<i32, u64>::new();
            for thread_counts in &counts {
                let calls = thread_counts.entries.get(id.index()).copied().unwrap_or(0);
                if calls != 0 {
                    *sums.entry(thread_counts.thread).or_default() += calls;
                }
            }
            sums
        };
        let functions = tagged.objects().map(|(id, object, function)| FunctionCount {
            name: function.name.clone(),
            object: object.to_owned(),
            start: function.start,
            calls: total(id),
            threads: threads(id),
        });
        let blocks = tagged.blocks().map(|(id, object, function, block)| BlockCount {
            name: block.name(function),
            object: object.to_owned(),
            start: block.start,
            count: total(id),
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
    fn functions(&self) -> Vec<&FunctionCount> {
        let mut functions: Vec<&FunctionCount> = self.functions.iter().collect();
        functions.sort_by_key(|function| Reverse(function.calls));
        functions
    }

    /// Blocks, the most frequent first.
    fn blocks(&self) -> Vec<&BlockCount> {
        let mut blocks: Vec<&BlockCount> = self.blocks.iter().flatten().collect();
        blocks.sort_by_key(|block| Reverse(block.count));
        blocks
    }

    /// The JSON form of a single process.
    fn to_json(&self) -> Value {
        let functions = self
            .functions()
            .into_iter()
            .map(|function| json!({ "name": function.name, "calls": function.calls, "threads": function.threads }));
        let mut json = json!({ "functions": functions.collect::<Vec<Value>>() });
        if let Some(blocks) = &self.blocks {
            json["blocks"] = blocks.iter().map(BlockCount::to_json).collect();
        }
        json
    }

    /// The JSON form of a process in a tree.
    fn to_json_in_tree(&self) -> Value {
        let functions = self.functions.iter();
        let functions: Vec<Value> = functions
            .map(|function| json!({ "name": function.name, "calls": function.calls }))
            .collect();
        let pid = self.pid.as_raw();
        let mut json = json!({ "pid": pid, "program": self.program, "functions": functions });
        if let Some(blocks) = &self.blocks {
            json["blocks"] = blocks.iter().map(BlockCount::to_json).collect();
        }
        json
    }
}
