//! Counts the calls of programs with callgrind.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use hmtt_probe::elf::Image;

use crate::{scratch, skipped};

/// How often each instruction was executed, by its file address.
pub type Executions = BTreeMap<u64, u64>;

/// Returns the calls of a program's own functions by the file addresses that were called; `None` if
/// the test is skipped.
pub fn calls(name: &str, program: &Path, words: &[&str]) -> Option<BTreeMap<u64, u64>> {
    let text = run(name, program, words)?;
    Some(parse(&text, program.canonicalize().unwrap().to_str().unwrap()))
}

/// Returns the calls of functions of a library that the program uses.
pub fn calls_of_library(
    name: &str,
    program: &Path,
    words: &[&str],
    library: &Path,
) -> Option<BTreeMap<u64, u64>> {
    let text = run(name, program, words)?;
    Some(parse(&text, library.to_str().unwrap()))
}

/// Returns how often each instruction of a program was executed, by its file address; `None` if the
/// test is skipped. Each repetition of a string instruction counts.
pub fn instructions(name: &str, program: &Path, words: &[&str]) -> Option<BTreeMap<u64, u64>> {
    let text = run(name, program, words)?;
    Some(parse_instructions(&text, program))
}

/// Returns how often each instruction of a program was executed in each process, with the process's
/// command, in the order in which they were started. The first word starts the program. A child
/// that does not execute a program has its parent's counts at its start too.
pub fn instructions_of_all(
    name: &str,
    program: &Path,
    words: &[&str],
) -> Option<Vec<(String, Executions)>> {
    let parse = |text: &String| {
        let value = |name| text.lines().find_map(|line| line.strip_prefix(name)).unwrap().trim();
        let command = value("cmd:").to_owned();
        (value("pid:").parse().unwrap(), (command, parse_instructions(text, program)))
    };
    let mut processes: Vec<(u64, (String, Executions))> =
        run_all(name, words)?.iter().map(parse).collect();
    processes.sort_by_key(|(pid, _)| *pid);
    // Numbers begin again after the greatest one: the first process is the one behind the largest
    // gap.
    let gap = |place: &usize| match place.checked_sub(1) {
        Some(before) => processes[*place].0 - processes[before].0,
        None => processes[0].0 + pid_max() - processes[processes.len() - 1].0,
    };
    let first = (0..processes.len()).max_by_key(gap).unwrap_or(0);
    processes.rotate_left(first);
    Some(processes.into_iter().map(|(_, one)| one).collect())
}

/// The number of processes after which their numbers begin again.
fn pid_max() -> u64 {
    std::fs::read_to_string("/proc/sys/kernel/pid_max").unwrap().trim().parse().unwrap()
}

fn parse_instructions(text: &str, program: &Path) -> BTreeMap<u64, u64> {
    let (path, mut object, mut is_inclusive) = (program.canonicalize().unwrap(), "", false);
    let mut counts = BTreeMap::new();
    for line in text.lines() {
        if let Some(name) = line.strip_prefix("ob=") {
            object = name;
        } else if line.starts_with("calls=") {
            // The line after this one has the cost of the call.
            is_inclusive = true;
        } else if let Some(rest) = line.strip_prefix("0x") {
            let words: Vec<&str> = rest.split(' ').collect();
            if !std::mem::take(&mut is_inclusive) && object == path.to_str().unwrap() {
                let address = u64::from_str_radix(words[0], 16).unwrap();
                *counts.entry(address).or_default() += words[2].parse::<u64>().unwrap();
            }
        }
    }
    counts
}

/// Runs callgrind and returns its output. The linker's stubs are kept as separate code; otherwise
/// callgrind adds what they do to the calling instruction.
fn run(name: &str, program: &Path, words: &[&str]) -> Option<String> {
    let file = scratch(&format!("{name}.callgrind"));
    let output = format!("--callgrind-out-file={}", file.display());
    let mut command = Command::new("valgrind");
    command.args(["--tool=callgrind", "--dump-instr=yes", "--compress-strings=no"]);
    command.args(["--compress-pos=no", "--skip-plt=no", &output]).arg(program).args(words);
    if let Err(error) = command.output() {
        skipped(format!("valgrind: {error}"));
        return None;
    }
    Some(std::fs::read_to_string(file).unwrap())
}

/// Returns the calls of each process that a program starts, in no order. The first argument of the
/// program is what it starts.
pub fn calls_of_started(name: &str, words: &[&str]) -> Option<Vec<BTreeMap<u64, u64>>> {
    let texts = run_all(name, words)?;
    let started = Path::new(words[1]).canonicalize().unwrap();
    let command = format!("{} ", words[1]);
    let is_wanted = |text: &String| {
        let mut commands = text.lines().filter_map(|line| line.strip_prefix("cmd:"));
        commands.any(|words| words.trim_start().starts_with(&command))
    };
    let texts = texts.into_iter().filter(is_wanted);
    Some(texts.map(|text| parse(&text, started.to_str().unwrap())).collect())
}

/// Runs callgrind on a program and the processes that it starts. Returns the output of each.
fn run_all(name: &str, words: &[&str]) -> Option<Vec<String>> {
    let folder = tempfile::tempdir().unwrap();
    let output = format!("--callgrind-out-file={}", folder.path().join("%p").display());
    let mut command = Command::new("valgrind");
    command.args(["--tool=callgrind", "--dump-instr=yes", "--compress-strings=no"]);
    command
        .args(["--compress-pos=no", "--skip-plt=no", "--trace-children=yes", &output])
        .args(words);
    if let Err(error) = command.output() {
        skipped(format!("{name}: valgrind: {error}"));
        return None;
    }
    let files = std::fs::read_dir(folder.path()).unwrap().flatten();
    Some(files.map(|entry| std::fs::read_to_string(entry.path()).unwrap()).collect())
}

/// Parses the format of callgrind's manual: `ob=` and `cob=` name the files of callers and callees,
/// and `calls=` the number and target of calls. Without `cob=` the callee is in the caller's file.
fn parse(text: &str, program: &str) -> BTreeMap<u64, u64> {
    let (mut object, mut called, mut calls) = ("", None, BTreeMap::new());
    for line in text.lines() {
        match line.split_once('=') {
            Some(("ob", name)) => object = name,
            Some(("cob", name)) => called = Some(name),
            Some(("calls", rest)) => {
                let mut words = rest.split(' ');
                let count: u64 = words.next().unwrap().parse().unwrap();
                let address = words.next().unwrap().trim_start_matches("0x");
                if called.take().unwrap_or(object) == program {
                    *calls.entry(u64::from_str_radix(address, 16).unwrap()).or_default() += count;
                }
            }
            _ => {}
        }
    }
    calls
}

/// Sums calls by the names of the functions at the called addresses.
pub fn by_name(image: &Image, calls: &BTreeMap<u64, u64>) -> BTreeMap<String, u64> {
    let mut sums = BTreeMap::new();
    for function in &image.functions {
        *sums.entry(function.name.clone()).or_default() +=
            calls.get(&function.start).copied().unwrap_or(0);
    }
    sums
}
