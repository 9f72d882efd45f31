//! Tests superblocks: they change no count and nothing that the program does, and save numbers.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use super::counts::executions;
use super::hmtt_monitor;
use crate::tag::build;
use crate::{callgrind, scratch};

const PATHS: &str = include_str!("paths.c");
const REWRITES: &str = include_str!("rewrites.c");
const REPLACES: &str = include_str!("replaces.c");

/// Sum of a count of all elements of a list.
fn sum(list: &Value, name: &str) -> u64 {
    list.as_array().unwrap().iter().map(|one| one[name].as_u64().unwrap()).sum()
}

/// The file of the profile of a program that is run with more options.
fn profile_of(name: &str, program: &Path, options: &[&str]) -> PathBuf {
    let file = scratch(&format!("monitor-{name}.json"));
    let plain = Command::new(program).output().unwrap();
    let mut command = hmtt_monitor(&["run", "--overwrite", "-o", file.to_str().unwrap()]);
    let output = command.args(options).arg("--").arg(program).output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!((output.status.code(), output.stdout), (Some(0), plain.stdout), "{error}");
    file
}

/// As `profile_of`, but returns the content.
fn profile(name: &str, program: &Path, options: &[&str]) -> Value {
    serde_json::from_slice(&std::fs::read(profile_of(name, program, options)).unwrap()).unwrap()
}

#[test]
fn counts_with_superblocks_equal_those_of_callgrind() {
    let name = "monitor-superblocks-paths";
    let Some(program) = build(name, PATHS, &["-w", "-O1", "-no-pie"]) else { return };
    let Some(expected) = callgrind::instructions(name, &program, &[]) else { return };
    let counts = profile("superblocks", &program, &[]);
    for name in ["dropped_numbers", "invalid_numbers", "cut_threads", "unbalanced_blocks"] {
        assert_eq!(counts[name], 0, "{name}");
    }
    assert_eq!(executions(&counts, &program, &expected), expected);
    let superblocks = &counts["superblocks"];
    let executed = sum(&counts["blocks"], "entries");
    let saved = sum(superblocks, "executed_blocks") - sum(superblocks, "entries");
    assert!(saved > executed * 3 / 10, "{saved} of {executed} numbers");
    for superblock in superblocks.as_array().unwrap() {
        let [entries, completions, executed] = ["entries", "completions", "executed_blocks"]
            .map(|name| superblock[name].as_u64().unwrap());
        let length = superblock["blocks"].as_array().unwrap().len() as u64;
        assert!(entries <= executed && executed <= entries * length, "{superblock}");
        assert!(completions * length <= executed, "{superblock}");
    }
    let without = profile("superblocks-without", &program, &["--no-superblocks"]);
    assert_eq!(without.get("superblocks"), None);
    assert_eq!(executions(&without, &program, &expected), expected);
}

#[test]
fn thresholds_decide_how_many_superblocks_are_built() {
    let Some(program) = build("monitor-superblocks-few", PATHS, &["-w", "-O1"]) else { return };
    let count = |options: &[&str]| {
        let profile = profile("superblocks-few", &program, options);
        profile["superblocks"].as_array().map_or(0, Vec::len)
    };
    let few = count(&["--hot-block", "1000000000", "--hot-edge", "1000000000"]);
    let by_edges = count(&["--hot-block", "1000000000", "--hot-edge", "2"]);
    assert_eq!(few, 0);
    assert!(by_edges > 0);
}

#[test]
fn superblocks_of_changed_code_are_not_executed() {
    let name = "monitor-superblocks-rewrites";
    let Some(program) = build(name, REWRITES, &["-w", "-O1", "-pthread"]) else { return };
    let counts = profile("superblocks-rewrites", &program, &[]);
    assert!(counts["superblocks"].as_array().is_some_and(|all| !all.is_empty()));
}

#[test]
fn threads_leave_superblocks_whose_code_another_thread_replaces() {
    let name = "monitor-superblocks-replaces";
    let Some(program) = build(name, REPLACES, &["-w", "-O1", "-pthread"]) else { return };
    // When a superblock is built depends on how fast the monitor reads.
    let has_undone = (0..10).any(|_| {
        let counts = profile("superblocks-replaces", &program, &[]);
        assert_eq!(counts["unbalanced_blocks"], 0);
        let superblocks = counts["superblocks"].as_array();
        superblocks.is_some_and(|all| all.iter().any(|one| one["undone"] == true))
    });
    assert!(has_undone);
}

#[test]
fn a_report_lists_superblocks_by_what_they_save() {
    let Some(program) = build("monitor-superblocks-report", PATHS, &["-w", "-O1"]) else { return };
    let file = profile_of("superblocks-report", &program, &[]);
    let report = |options: &[&str]| {
        let mut command: Command = hmtt_monitor(&["report", file.to_str().unwrap()]);
        String::from_utf8(command.args(options).output().unwrap().stdout).unwrap()
    };
    let text = report(&[]);
    let (_, table) = text.split_once("superblock that begins with\n").expect("a table");
    let saved: Vec<u64> = table
        .lines()
        .take_while(|line| !line.is_empty())
        .map(|line| line.split_whitespace().next().unwrap().parse().unwrap())
        .collect();
    assert!(saved.len() > 1 && saved.is_sorted_by(|one, next| one >= next), "{text}");
    let json: Value = serde_json::from_str(&report(&["--json", "--top", "2"])).unwrap();
    let first = &json["superblocks"][0];
    let of_first = first["executed_blocks"].as_u64().unwrap() - first["entries"].as_u64().unwrap();
    assert_eq!((json["superblocks"].as_array().unwrap().len(), of_first), (2, saved[0]));
}
