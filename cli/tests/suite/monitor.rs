//! Tests `hmtt monitor`: programs behave as without it, counts equal those of callgrind, and what
//! is not supported runs natively.

mod address_space;
mod attach;
mod block_lists;
mod blocked;
mod counts;
mod cpus;
mod crowds;
mod follow;
mod forbidden_clock;
mod killed;
mod models;
mod perf_map;
mod programs;
mod reports;
mod selection;
mod stopped;
mod superblocks;
mod survived;
mod system_calls;
mod times;

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

use crate::tag::build;
use crate::{hmtt, scratch};

/// A program with threads, signals, children and indirect calls, which runs for a while. With an
/// argument it gets signals.
const BUSY: &str = include_str!("monitor/busy.c");
const TIMERS: &str = include_str!("monitor/timers.c");
const SPINS: &str = include_str!("monitor/spins.c");
const WRITES_CODE: &str = include_str!("monitor/writes_code.c");
const STARTS: &str = include_str!("monitor/starts.c");
const RESTRICTS: &str = include_str!("monitor/restricts.c");
const THROWS: &str = include_str!("tag_signals/throws.cc");
const REPAIRS: &str = include_str!("tag_signals/repairs.c");
const JUMPS: &str = include_str!("tag_real/programs/jumps.c");
const MACHINE: &str = include_str!("tag_real/programs/machine.c");
const THREADS: &str = include_str!("tag_real/programs/threads.c");
const UNWINDS: &str = include_str!("tag_real/programs/throws.cc");

/// `hmtt monitor`. All tests share lists of executed blocks, so most runs use those of other
/// programs' libraries.
fn hmtt_monitor(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_hmtt"));
    let (subcommand, others) = arguments.split_first().unwrap();
    command.args(["monitor", subcommand]);
    if matches!(*subcommand, "run" | "attach") {
        let lists = Path::new(env!("CARGO_TARGET_TMPDIR")).join("monitor-block-lists");
        command.arg("--block-lists").arg(lists);
    }
    command.args(others);
    command
}

/// Runs a program with its blocks counted, and checks that it behaves as it does alone. Returns the
/// counts.
fn run_monitored(name: &str, program: &Path, words: &[&str]) -> Value {
    let file = profile_of(name, program, words);
    let counts: Value = serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap();
    for name in ["dropped_numbers", "invalid_numbers", "cut_threads", "unbalanced_blocks"] {
        assert_eq!(counts[name], 0, "{name}");
    }
    counts
}

/// As `run_monitored`, but returns the file of the counts.
fn profile_of(name: &str, program: &Path, words: &[&str]) -> PathBuf {
    let file = scratch(&format!("monitor-{name}.json"));
    let plain = Command::new(program).args(words).output().unwrap();
    let mut command = hmtt_monitor(&["run", "--overwrite", "-o", file.to_str().unwrap(), "--"]);
    let monitored = command.arg(program).args(words).output().unwrap();
    let seen = |output: &Output| (output.status.code(), output.stdout.clone());
    let error = String::from_utf8_lossy(&monitored.stderr);
    assert_eq!(seen(&monitored), seen(&plain), "{name}: {error}");
    file
}

#[test]
fn progress_is_printed_each_second() {
    let Some(program) = build("monitor-spins", SPINS, &[]) else { return };
    let file = scratch("monitor-spins.json");
    let mut command = hmtt_monitor(&["run", "--progress", "--overwrite", "-o"]);
    let output = command.arg(&file).arg("--").arg(program).output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{text}");
    let line = text.lines().next_back().unwrap();
    let rest = line.strip_prefix("hmtt: ").unwrap();
    let (blocks, rest) = rest.split_once(" M blocks/s, rings at most ").unwrap();
    let (full, rest) = rest.split_once(" % full, hottest function spins (").unwrap();
    let part = rest.strip_suffix(" %)").unwrap();
    let number = |text: &str| text.parse::<f64>().unwrap();
    assert!(number(blocks) > 0.0, "{text}");
    assert!((0.0..=100.0).contains(&number(full)), "{text}");
    assert!((50.0..=100.0).contains(&number(part)), "{text}");
}

#[test]
fn children_and_executed_programs_run_natively() {
    let Some(program) = build("monitor-starts", STARTS, &[]) else { return };
    let file = profile_of("starts", &program, &[]);
    let counts: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    assert_eq!(counts["native_children"], 20);
    assert_eq!(counts["ending"], "replaced");
    let report = hmtt(&["monitor", "report", file.to_str().unwrap()]);
    let error = String::from_utf8_lossy(&report.stderr);
    assert_eq!(report.status.code(), Some(3), "{error}");
    for what in ["20 child processes ran natively", "has executed another one"] {
        assert!(error.contains(what), "{what}: {error}");
    }
}

#[test]
fn a_program_that_restricts_its_calls_or_uses_gs_goes_on_natively() {
    let Some(program) = build("monitor-restricts", RESTRICTS, &["-w"]) else { return };
    for (word, why) in
        [("gs", "it uses gs"), ("seccomp", "it restricts its system calls by seccomp")]
    {
        let counts = run_monitored(word, &program, &[word]);
        assert_eq!(counts["left"], why);
        assert_eq!(counts["ending"], "detached");
    }
}

#[test]
fn code_that_may_change_unseen_is_counted() {
    let Some(program) = build("monitor-writes-code", WRITES_CODE, &[]) else { return };
    let counts = run_monitored("changes", &program, &[]);
    assert_eq!(counts["native"], serde_json::json!([]));
    // mov eax, VALUE; ret
    let is_written = |block: &&Value| {
        let code = block["code"].as_str().unwrap();
        let is_file = block["object"].as_str().unwrap().starts_with("/usr/");
        code.len() == 12 && code.starts_with("b8") && code.ends_with("c3") && !is_file
    };
    let written = counts["blocks"].as_array().unwrap().iter().filter(is_written);
    let times: u64 = written.map(|block| block["entries"].as_u64().unwrap()).sum();
    assert_eq!(times, 20 * 3 + 5 * 2 + 20 + 20);
}

/// A file of counts of a small program.
fn profile(name: &str) -> Option<PathBuf> {
    let program = build("monitor-writes-code", WRITES_CODE, &[])?;
    Some(profile_of(name, &program, &[]))
}

#[test]
fn a_report_lists_functions_and_blocks() {
    let Some(file) = profile("reported") else { return };
    let text = hmtt(&["monitor", "report", "--top", "0", file.to_str().unwrap()]);
    let text = String::from_utf8(text.stdout).unwrap();
    assert!(text.contains("  main (monitor-writes-code)\n"), "{text}");
    assert!(text.contains("  main+0x0 (monitor-writes-code)\n"), "{text}");
    let json = hmtt(&["monitor", "report", "--json", "--top", "3", file.to_str().unwrap()]);
    let json: Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!(json["functions"].as_array().unwrap().len(), 3);
    let whole = json["instructions"].as_u64().unwrap();
    assert!(text.starts_with(&format!("{whole} instructions in ")), "{text}");
}

#[test]
fn names_in_profiles_are_documented() {
    let Some(file) = profile("names") else { return };
    let written: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    hmtt_test_support::names::assert_json_documented("hmtt monitor run", &written);
    let json = hmtt(&["monitor", "report", "--json", file.to_str().unwrap()]).stdout;
    let json: Value = serde_json::from_slice(&json).unwrap();
    hmtt_test_support::names::assert_json_documented("hmtt monitor report --json", &json);
}

#[test]
fn outputs_are_private_and_never_overwritten_unasked() {
    let file = scratch("monitor-output.json");
    let _ = std::fs::remove_file(&file);
    let path = file.to_str().unwrap();
    assert_eq!(hmtt(&["monitor", "run", "-o", path, "true"]).status.code(), Some(0));
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    let before = std::fs::read(&file).unwrap();
    let again = hmtt(&["monitor", "run", "-o", path, "true"]);
    assert_eq!(again.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&again.stderr).contains("give --overwrite"), "{again:?}");
    assert_eq!(std::fs::read(&file).unwrap(), before);
    // A program that cannot be started leaves no file.
    let none = scratch("monitor-none.json");
    let failed = hmtt(&["monitor", "run", "-o", none.to_str().unwrap(), "/no/such/program"]);
    assert_eq!(failed.status.code(), Some(1));
    assert!(!none.exists());
}

#[test]
fn the_end_of_a_program_is_that_of_the_command() {
    assert_eq!(hmtt(&["monitor", "run", "sh", "-c", "exit 7"]).status.code(), Some(7));
    let killed = hmtt(&["monitor", "run", "sh", "-c", "kill -TERM $$"]);
    assert_eq!(std::os::unix::process::ExitStatusExt::signal(&killed.status), Some(libc::SIGTERM));
}
