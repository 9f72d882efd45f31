//! Tests `hmtt tag run -f`: children, and programs that processes execute, have their own tags and
//! counts.

mod handlers;
mod leaving;
mod logs;
mod programs;
mod sharing;

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use hmtt_files::tag_log::Ending;
use hmtt_files::tag_map::TagMap;
use hmtt_probe::elf::Image;
use serde_json::Value;

use crate::tag::{FORKS, THREADS, build, hmtt_tag};
use crate::tag_log::log::{Log, number};
use crate::{callgrind, scratch, skipped};
use programs::*;
use sharing::*;

/// Calls of a program's functions in one process, by name.
type Calls = BTreeMap<String, u64>;

/// Processes, their programs and their calls, in the order in which they started.
struct Counts {
    processes: Vec<(u64, PathBuf, Calls)>,
    sums: Vec<(PathBuf, String, u64)>,
}

fn name_and_calls(function: &Value) -> (String, u64) {
    (function["name"].as_str().unwrap().to_owned(), function["calls"].as_u64().unwrap())
}

fn path(value: &Value) -> PathBuf {
    value.as_str().unwrap().into()
}

impl Counts {
    fn read(file: &Path) -> Counts {
        let counts: Value = serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap();
        let elements = |value: &Value| value.as_array().unwrap().clone();
        let processes = elements(&counts["processes"]).into_iter().map(|process| {
            let functions = elements(&process["functions"]);
            let calls = functions.iter().map(name_and_calls).collect();
            (process["pid"].as_u64().unwrap(), path(&process["program"]), calls)
        });
        let sums = elements(&counts["functions"]).into_iter().map(|function| {
            let (name, calls) = name_and_calls(&function);
            (path(&function["program"]), name, calls)
        });
        let counts = Counts { processes: processes.collect(), sums: sums.collect() };
        counts.check();
        counts
    }

    /// Checks that the sums are those of the processes.
    fn check(&self) {
        for (program, name, calls) in &self.sums {
            let matching = self.processes.iter().filter(|(_, other, _)| other == program);
            let sum = matching.filter_map(|(_, _, calls)| calls.get(name)).sum::<u64>();
            assert_eq!(sum, *calls, "{name} of {}", program.display());
        }
    }

    /// Returns the calls of a function in each process that has it, in the order in which they
    /// started.
    fn calls_of(&self, name: &str) -> Vec<u64> {
        self.processes.iter().filter_map(|(_, _, calls)| calls.get(name).copied()).collect()
    }

    fn pids(&self) -> BTreeSet<u64> {
        self.processes.iter().map(|(pid, ..)| *pid).collect()
    }
}

fn seen(output: &Output) -> (Option<i32>, String) {
    (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Runs a program with `-f` and without tags, checks that it behaves the same, and returns the
/// counts.
fn follow(name: &str, rules: &[&str], words: &[&str]) -> Counts {
    let counts = scratch(&format!("{name}.json"));
    let plain = Command::new(words[0]).args(&words[1..]).output().unwrap();
    let options = [&["run", "-f", "-o", counts.to_str().unwrap()], rules, &["--"], words].concat();
    let tagged = hmtt_tag(&options).output().unwrap();
    let text = String::from_utf8_lossy(&tagged.stderr);
    assert_eq!(seen(&tagged), seen(&plain), "{text}");
    assert!(!text.contains("untagged"), "{text}");
    Counts::read(&counts)
}

#[test]
fn a_child_has_its_own_counts_from_its_first_instruction() {
    for (name, flags) in [("tag-f-forks", &[][..]), ("tag-f-forks-static", &["-static"])] {
        let Some(program) = build(name, FORKS, flags) else { return };
        let counts = follow(name, &[], &[program.to_str().unwrap()]);
        assert_eq!(counts.calls_of("step"), [10, 1000], "{name}");
        assert_eq!(counts.calls_of("main"), [1, 0], "{name}");
    }
}

#[test]
fn without_follow_a_child_counts_for_the_thread_whose_memory_it_shares() {
    let Some(program) = build("tag-f-sharers", SHARERS, &[]) else { return };
    for sink in ["count", "log"] {
        let file = scratch(&format!("tag-f-sharers-{sink}"));
        scratch(&format!("tag-f-sharers-{sink}.json"));
        let words = ["run", "--sink", sink, "-o", file.to_str().unwrap(), "--"];
        let tagged = hmtt_tag(&words).arg(&program).output().unwrap();
        assert_eq!(seen(&tagged), (Some(0), "3 0 5\n".into()), "{tagged:?}");
        let steps = match sink {
            "log" => Log::read(&file).entries(number(&file, "step")).iter().sum(),
            _ => crate::tag::calls(&file)["step"],
        };
        assert_eq!(steps, 250, "{sink}");
    }
}

#[test]
fn blocks_of_each_process_are_counted() {
    let Some(program) = build("tag-f-blocks", NESTED, &["-O1"]) else { return };
    let file = scratch("tag-f-blocks.json");
    let rules = ["-i", "leaf", "-i", "node", "--blocks", "node", "-o", file.to_str().unwrap()];
    let words = [&["run", "-f"][..], &rules, &["--", program.to_str().unwrap()]].concat();
    let output = hmtt_tag(&words).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let json: Value = serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap();
    let blocks = |value: &Value| {
        let blocks = value["blocks"].as_array().unwrap().clone();
        let counts = blocks.into_iter().map(|block| {
            (block["code_address"].as_str().unwrap().to_owned(), block["entries"].as_u64().unwrap())
        });
        counts.collect::<BTreeMap<String, u64>>()
    };
    let mut sums = BTreeMap::<String, u64>::new();
    let processes = json["processes"].as_array().unwrap();
    assert_eq!(processes.len(), 31);
    for process in processes {
        let functions = process["functions"].as_array().unwrap().iter().map(name_and_calls);
        let calls: Calls = functions.collect();
        let blocks = blocks(process);
        // The block of the loop that calls `leaf`.
        assert!(blocks.values().any(|count| *count == calls["leaf"]), "{process}");
        for (address, count) in blocks {
            *sums.entry(address).or_default() += count;
        }
    }
    assert_eq!(blocks(&json), sums);
}

#[test]
fn without_follow_children_are_not_traced() {
    let Some(program) = build("tag-f-not", FORKS, &[]) else { return };
    let counts = scratch("tag-f-not.json");
    let words = ["run", "-o", counts.to_str().unwrap(), "--", program.to_str().unwrap()];
    assert!(hmtt_tag(&words).output().unwrap().status.success());
    let counts: Value = serde_json::from_slice(&std::fs::read(counts).unwrap()).unwrap();
    assert_eq!(counts.as_object().unwrap().len(), 1);
}

#[test]
fn programs_that_are_started_have_the_counts_of_callgrind() {
    let Some(program) = build("tag-f-called", SAYS, &[]) else { return };
    let Some(starter) = build("tag-f-calling", STARTS, &[]) else { return };
    let words = [starter.to_str().unwrap(), program.to_str().unwrap()];
    let counts = follow("tag-f-calling", &[], &words);
    let Some(expected) = callgrind::calls_of_started("tag-f-calling", &words) else { return };
    let image = Image::read(&program).unwrap();
    let call_counts = |function: &str| {
        let mut expected: Vec<u64> =
            expected.iter().map(|calls| callgrind::by_name(&image, calls)[function]).collect();
        let is_called = |(_, other, _): &&(u64, PathBuf, Calls)| other.ends_with("tag-f-called");
        let processes = counts.processes.iter().filter(is_called);
        let mut numbers: Vec<u64> = processes.map(|(_, _, calls)| calls[function]).collect();
        expected.sort_unstable();
        numbers.sort_unstable();
        assert_eq!(numbers, expected, "{function}");
        numbers
    };
    assert_eq!(call_counts("main"), [1; 4]);
    assert_eq!(call_counts("say"), [11, 22, 33, 44]);
}

#[test]
fn nested_children_all_have_counts() {
    let Some(program) = build("tag-f-nested", NESTED, &[]) else { return };
    let counts = follow("tag-f-nested", &[], &[program.to_str().unwrap()]);
    // A process of each depth starts two of the next one, down to depth 4.
    let mut nodes = counts.calls_of("leaf");
    nodes.sort_unstable();
    let expected = (0..=4u64).flat_map(|depth| vec![100 + depth; 1 << depth]);
    assert_eq!(nodes, expected.collect::<Vec<u64>>());
    assert_eq!(counts.pids().len(), 31);
}

#[test]
fn a_program_with_threads_forks() {
    let Some(program) = build("tag-f-threads", FORKING_THREADS, &[]) else { return };
    let counts = follow("tag-f-threads", &[], &[program.to_str().unwrap()]);
    let mut numbers = counts.calls_of("leaf");
    // First the threads of the first process, then those of the children, whose first thread is the
    // one that forked.
    assert_eq!(numbers.remove(0), 4 * 50 * 30);
    numbers.sort_unstable();
    let expected = (0..4).flat_map(|thread| vec![1000 + thread; 50]);
    assert_eq!(numbers, expected.collect::<Vec<u64>>());
}

#[test]
fn a_child_starts_threads() {
    let Some(program) = build("tag-f-starts-threads", THREADS, &[]) else { return };
    let Some(starter) = build("tag-f-starter", FORKS_AND_EXECS, &[]) else { return };
    let words = [starter.to_str().unwrap(), program.to_str().unwrap()];
    let counts = follow("tag-f-starts-threads", &[], &words);
    assert_eq!(counts.calls_of("leaf"), [3 * 5 * 20 * 1000]);
    assert_eq!(counts.calls_of("starts"), [1, 0]);
}

#[test]
fn programs_are_tagged_however_they_are_started() {
    let Some(program) = build("tag-f-started", SAYS, &[]) else { return };
    let Some(starter) = build("tag-f-starting", STARTS, &[]) else { return };
    let words = [starter.to_str().unwrap(), program.to_str().unwrap()];
    let counts = follow("tag-f-starting", &["-i", "say", "-i", "begin"], &words);
    // The ways are posix_spawn, system, popen and vfork.
    let mut calls = counts.calls_of("say");
    calls.sort_unstable();
    assert_eq!(calls, [11, 22, 33, 44]);
    assert_eq!(counts.calls_of("begin"), [4]);
}

#[test]
fn a_child_that_shares_its_parents_memory_counts_for_it() {
    let Some(program) = build("tag-f-vfork", VFORKS, &[]) else { return };
    let counts = follow("tag-f-vfork", &[], &[program.to_str().unwrap()]);
    assert_eq!(counts.calls_of("step"), [20 * (100 + 7)]);
    let Some(program) = build("tag-f-clone", CLONES, &[]) else { return };
    let counts = follow("tag-f-clone", &[], &[program.to_str().unwrap()]);
    assert_eq!(counts.calls_of("step"), [2 * 3_000_000]);
}

#[test]
fn a_program_executes_itself() {
    let Some(program) = build("tag-f-becomes", EXECS, &[]) else { return };
    let counts = follow("tag-f-becomes", &[], &[program.to_str().unwrap(), "5"]);
    assert_eq!(counts.calls_of("step"), [5, 4, 3, 2, 1, 0]);
    assert_eq!(counts.pids().len(), 1);
}

#[test]
fn a_thread_executes_a_program() {
    let Some(program) = build("tag-f-thread-becomes", THREAD_EXECS, &[]) else { return };
    let counts = follow("tag-f-thread-becomes", &[], &[program.to_str().unwrap(), "3"]);
    assert_eq!(counts.calls_of("step"), [3, 2, 1, 0]);
    assert_eq!(counts.pids().len(), 1);
}

#[test]
fn a_pipeline_of_a_shell_is_followed() {
    let Some(program) = build("tag-f-pipeline", SAYS, &[]) else { return };
    let line = format!("{0} 5 | {0} 6; {0} 7 & wait; (exec {0} 8)", program.display());
    let counts = follow("tag-f-pipeline", &["-i", "say"], &["sh", "-c", &line]);
    let mut calls = counts.calls_of("say");
    calls.sort_unstable();
    assert_eq!(calls, [5, 6, 7, 8]);
}

#[test]
fn a_failed_exec_changes_nothing() {
    let Some(program) = build("tag-f-missing", MISSING, &[]) else { return };
    let counts = follow("tag-f-missing", &[], &[program.to_str().unwrap()]);
    assert_eq!(counts.calls_of("step"), [2, 1, 1]);
}

#[test]
fn a_child_outlives_its_parent() {
    let Some(program) = build("tag-f-outlives", OUTLIVES, &[]) else { return };
    let counts = follow("tag-f-outlives", &[], &[program.to_str().unwrap()]);
    assert_eq!(counts.calls_of("step"), [3, 5000]);
}

#[test]
fn a_killed_child_ends_no_other_process() {
    let Some(program) = build("tag-f-killed", KILLED, &[]) else { return };
    let counts = follow("tag-f-killed", &[], &[program.to_str().unwrap()]);
    let numbers = counts.calls_of("step");
    assert_eq!((numbers.len(), numbers[0]), (61, 60), "{numbers:?}");
    assert!(numbers[1..].iter().all(|calls| *calls > 0), "{numbers:?}");
}

#[test]
fn libraries_of_children_are_tagged() {
    let Some(program) = build("tag-f-libraries", FORKS, &[]) else { return };
    let rules = ["-i", "library=libc.so*/_exit", "-i", "step"];
    let counts = follow("tag-f-libraries", &rules, &[program.to_str().unwrap()]);
    assert_eq!(counts.calls_of("step"), [10, 1000]);
    // The program exists under two names.
    let exits = |name: &str| counts.calls_of(name).get(1).copied().unwrap_or(0);
    assert_eq!(exits("_exit") + exits("_Exit"), 1);
}

#[test]
fn a_program_that_cannot_be_tagged_is_named_and_its_children_are_tagged() {
    let Some(program) = build("tag-f-after", SAYS, &[]) else { return };
    let (source, object, other) =
        (scratch("tag-f-32.s"), scratch("tag-f-32.o"), scratch("tag-f-32"));
    std::fs::write(&source, BITS_32).unwrap();
    let run = |program: &str, words: &[&str]| {
        Command::new(program).args(words).output().is_ok_and(|output| output.status.success())
    };
    let [source, object, other] = [&source, &object, &other].map(|path| path.to_str().unwrap());
    if !run("as", &["--32", "-o", object, source])
        || !run("ld", &["-m", "elf_i386", "-o", other, object])
        || Command::new(other).status().map(|status| status.code()).ok() != Some(Some(7))
    {
        return skipped("no programs of 32 bits");
    }
    let counts = scratch("tag-f-after.json");
    let line = format!("{other}; echo $?; {} 3", program.display());
    let options = ["run", "-f", "-i", "say", "-i", "fn_*", "-o", counts.to_str().unwrap()];
    let output = hmtt_tag(&options).args(["--", "sh", "-c", &line]).output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(seen(&output), (Some(3), "7\n3\n".to_owned()), "{text}");
    assert!(text.contains("tag-f-32") && text.contains("continues untagged"), "{text}");
    assert_eq!(Counts::read(&counts).calls_of("say"), [3]);
    let line = format!("{other}; true");
    let output =
        hmtt_tag(&options).args(["--overwrite", "--", "sh", "-c", &line]).output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{text}");
}

#[test]
fn sinks_of_a_single_process_are_rejected_with_follow() {
    let Some(program) = build("tag-f-refused", SAYS, &[]) else { return };
    for (words, message) in [
        (&["--sink", "card", "--window", "/dev/null"][..], "--sink card"),
        (&["--sink", "log", "-o", "/dev/null", "--marks", "/dev/null"], "--marks"),
    ] {
        let run = [&["run", "-f"], words, &["--", program.to_str().unwrap()]].concat();
        let output = hmtt_tag(&run).output().unwrap();
        let text = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{text}");
        assert!(text.contains("--follow") && text.contains(message), "{text}");
    }
}
