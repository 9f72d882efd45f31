//! Threads that start and end quickly are all counted, and those that are not, because too many are
//! alive, are a loss.

use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

use super::hmtt_monitor;
use crate::scratch;
use crate::tag::build;

pub const CROWDS: &str = include_str!("crowds.c");
/// Calls of the function by each thread.
const CALLS: u64 = 50;

fn hmtt_trace() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_hmtt"));
    command.args(["trace", "run", "--overwrite", "-o"]);
    command
}

fn run(mut command: Command, file: &Path, program: &Path, words: [&str; 2]) -> Output {
    let output = command.arg(file).arg("--").arg(program).args(words).output().unwrap();
    let plain = Command::new(program).args(words).output().unwrap();
    assert_eq!(output.stdout, plain.stdout);
    output
}

/// Executions of the first block of the function.
fn calls(file: &Path) -> (u64, Value) {
    let profile: Value = serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap();
    let is_entry = |block: &&Value| block["function"] == "leaf" && block["offset"] == 0;
    let blocks = profile["blocks"].as_array().unwrap();
    let entries = blocks.iter().filter(is_entry).map(|block| block["entries"].as_u64().unwrap());
    (entries.sum(), profile["native_threads"].clone())
}

/// Forty threads end while the next forty start, and there are 64 areas.
#[test]
fn threads_that_start_while_others_end_are_all_counted() {
    let Some(program) = build("monitor-crowds", CROWDS, &[]) else { return };
    let (rounds, threads) = (20, 40);
    let file = scratch("monitor-crowds.json");
    let words = [&*rounds.to_string(), &*threads.to_string()];
    let output = run(hmtt_monitor(&["run", "--overwrite", "-o"]), &file, &program, words);
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!((output.status.code(), &*error), (Some(0), ""));
    assert_eq!(calls(&file), (rounds * threads * CALLS, 0.into()));

    let trace = scratch("monitor-crowds.trace");
    let output = run(hmtt_trace(), &trace, &program, words);
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{error}");
    assert!(!error.contains("too many"), "{error}");
}

#[test]
fn threads_beyond_64_at_once_are_a_loss() {
    let Some(program) = build("monitor-crowds", CROWDS, &[]) else { return };
    let words = ["1", "80"];
    // With the first thread, 81 are alive.
    let beyond = 81 - 64;
    let file = scratch("monitor-too-many.json");
    let output = run(hmtt_monitor(&["run", "--overwrite", "-o"]), &file, &program, words);
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{error}");
    let warning = format!("warning: {beyond} threads were too many at the same time");
    assert!(error.contains(&warning), "{error}");
    assert_eq!(calls(&file), (63 * CALLS, beyond.into()));

    let trace = scratch("monitor-too-many.trace");
    let output = run(hmtt_trace(), &trace, &program, words);
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{error}");
    assert!(error.contains(&format!("{beyond} threads were too many")), "{error}");
}
