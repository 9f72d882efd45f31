//! Programs that notice what is mapped besides their own memory behave as without monitoring.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

use crate::built::built;
use crate::tag::build;
use crate::{scratch, skipped};

const ADDRESS_SPACE: &str = include_str!("address_space.c");
const WORKERS: &str = include_str!("workers.c");
/// What a program with few threads has mapped for `hmtt`, at most.
const MOST_MIB: i64 = 96;

/// Runs a program with `hmtt monitor` or `hmtt trace`.
fn followed(command: &str, name: &str, program: &Path, words: &[&str]) -> (Output, PathBuf) {
    let file = scratch(&format!("address-space-{name}.{command}"));
    let mut hmtt = Command::new(env!("CARGO_BIN_EXE_hmtt"));
    hmtt.args([command, "run", "--overwrite", "-o"]).arg(&file).arg("--").arg(program).args(words);
    let options = "detect_leaks=0";
    let output = hmtt.env("LSAN_OPTIONS", options).env("ASAN_OPTIONS", options).output().unwrap();
    (output, file)
}

/// Checks that a program does what it does alone.
fn compare(command: &str, name: &str, program: &Path, words: &[&str]) -> PathBuf {
    let plain = Command::new(program).args(words).output().unwrap();
    let (output, file) = followed(command, name, program, words);
    let error = String::from_utf8_lossy(&output.stderr);
    let text = |output: &Output| String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(text(&output), text(&plain), "{command} {name}: {error}");
    assert_eq!(output.status.code(), plain.status.code(), "{command} {name}: {error}");
    file
}

#[test]
fn limits_and_locks_concern_the_programs_own_memory() {
    let Some(program) = build("monitor-address-space", ADDRESS_SPACE, &[]) else { return };
    for command in ["monitor", "trace"] {
        for how in ["limits", "locks", "low"] {
            compare(command, how, &program, &[how]);
        }
    }
    let flags = ["-no-pie"];
    let Some(program) = build("monitor-address-space-fixed", ADDRESS_SPACE, &flags) else { return };
    for how in ["limits", "locks", "low"] {
        compare("monitor", &format!("{how}-fixed"), &program, &[how]);
    }
}

#[test]
fn little_is_mapped_for_a_small_program() {
    let Some(program) = build("monitor-address-space", ADDRESS_SPACE, &[]) else { return };
    let size = |output: &Output| {
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        text.lines().next().and_then(|line| line.parse::<i64>().ok()).unwrap()
    };
    let plain = Command::new(&program).arg("size").output().unwrap();
    let (monitored, _) = followed("monitor", "size", &program, &["size"]);
    let more = size(&monitored) - size(&plain);
    assert!((1..MOST_MIB).contains(&more), "{more} MiB");
}

/// 150,000 blocks need more than one arena near their code.
#[test]
fn arenas_are_mapped_as_code_is_executed() {
    let Some(program) = build("monitor-address-space", ADDRESS_SPACE, &[]) else { return };
    let file = compare("monitor", "executes", &program, &["executes"]);
    let profile: Value = serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap();
    assert_eq!(profile["native"].as_array().unwrap().len(), 0, "{}", profile["native"]);
    let bytes = |block: &&Value| block["code"] == "8d4701c3";
    let blocks = profile["blocks"].as_array().unwrap();
    let entries = blocks.iter().filter(bytes).map(|block| block["entries"].as_u64().unwrap());
    assert_eq!(entries.sum::<u64>(), 150_000);
}

/// They end a program that has mappings where their shadow memory is.
#[test]
fn programs_with_sanitizers_behave_as_without_monitoring() {
    let kinds = [("thread", "cc"), ("address", "cc"), ("memory", "clang"), ("thread", "clang")];
    for (kind, compiler) in kinds {
        let name = format!("monitor-sanitized-{kind}-{compiler}");
        let flag = format!("-fsanitize={kind}");
        let program = built(&name, WORKERS, |program| {
            let source = scratch(&format!("{name}.c"));
            std::fs::write(&source, WORKERS).unwrap();
            let mut command = Command::new(compiler);
            command.args(["-O1", "-g", "-pthread", &flag, "-o"]).arg(program).arg(source);
            command
        });
        let runs = |program: &PathBuf| {
            Command::new(program).output().is_ok_and(|output| output.status.code() == Some(6))
        };
        let Some(program) = program.filter(runs) else {
            skipped(format!("{compiler} {flag} builds no program that runs here"));
            continue;
        };
        for command in ["monitor", "trace"] {
            compare(command, &format!("{kind}-{compiler}"), &program, &[]);
        }
    }
}
