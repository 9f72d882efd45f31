//! The program as people meet it: help, messages, exit status, files.

mod support;

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};

fn vector(suffix: &str) -> String {
    support::vectors().join(format!("v01_ddr1_tiny_open.{suffix}")).to_str().unwrap().to_owned()
}

fn run_in(directory: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_hmtt-sim"))
        .args(arguments)
        .current_dir(directory)
        // Help is as wide as the terminal, if there is one.
        .stdin(Stdio::null())
        .env_remove("COLUMNS")
        .output()
        .unwrap()
}

fn run(arguments: &[&str]) -> (i32, String, String) {
    let output = run_in(Path::new("."), arguments);
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

#[test]
fn help_says_what_there_is() {
    insta::assert_snapshot!("help", run(&["--help"]).1);
    insta::assert_snapshot!("help_replay", run(&["replay", "--help"]).1);
}

#[test]
fn mistakes_on_the_command_line_are_explained() {
    let input = vector("cmd.gz");
    let cases: [&[&str]; 6] = [
        &["replay", "no-such.cmd.gz"],
        &["replay", &input, "--slice", "3ms"],
        &["replay", &input, "--speed", "2"],
        &["replay", &input, "--memory", "no-such.toml"],
        &["replay", &input, "--truth", "no-such.truth"],
        &["replay", &input, "-i", "no-such-if"],
    ];
    let messages: Vec<_> = cases
        .iter()
        .map(|case| {
            let (status, stdout, stderr) = run(case);
            assert_eq!((status, &stdout[..]), (2, ""), "{case:?}");
            stderr
        })
        .collect();
    insta::assert_snapshot!(messages.join("\n"));
}

#[test]
fn a_right_truth_is_status_0_and_a_wrong_one_status_1() {
    let truth = vector("truth.gz");
    let replay = |truth: &str| {
        run(&["replay", &vector("cmd.gz"), "--truth", truth, "--engine", "verilator"])
    };
    let (status, stdout, _) = replay(&truth);
    assert_eq!((status, &stdout[..]), (0, "truth: 645 accesses, all equal\n"));
    let directory = tempfile::tempdir().unwrap();
    let wrong = directory.path().join("wrong");
    fs::write(&wrong, "6 R 1500ffc0\n14 W 216f8c0\n").unwrap();
    let (status, stdout, _) = replay(wrong.to_str().unwrap());
    assert_eq!(status, 1);
    insta::assert_snapshot!(stdout);
}

#[test]
fn both_engines_write_the_same_bytes_and_no_file_is_overwritten_unasked() {
    let directory = tempfile::tempdir().unwrap();
    let input = vector("cmd.gz");
    let write = |engine: &str, output: &str, more: &[&str]| {
        let arguments = ["replay", &input, "--engine", engine, "-q", "-o", output];
        run_in(directory.path(), &[&arguments, more].concat())
    };
    assert_eq!(write("rust", "a.pcapng", &[]).status.code(), Some(0));
    assert_eq!(write("verilator", "b.pcapng", &[]).status.code(), Some(0));
    let read = |name: &str| fs::read(directory.path().join(name)).unwrap();
    assert!(read("a.pcapng") == read("b.pcapng"));
    let again = write("verilator", "a.pcapng", &[]);
    assert_eq!(again.status.code(), Some(2));
    let message = String::from_utf8(again.stderr).unwrap();
    assert_eq!(message, "hmtt-sim: a.pcapng exists; -f overwrites it\n");
    assert_eq!(write("verilator", "a.pcapng", &["-f"]).status.code(), Some(0));
}

#[test]
fn a_recording_that_breaks_off_leaves_no_file() {
    let directory = tempfile::tempdir().unwrap();
    let whole = fs::read(vector("cmd.gz")).unwrap();
    fs::write(directory.path().join("cut.gz"), &whole[..whole.len() - 100]).unwrap();
    let arguments = ["replay", "cut.gz", "--engine", "verilator", "-o", "cut.pcapng"];
    let output = run_in(directory.path(), &arguments);
    assert_eq!(output.status.code(), Some(2));
    let message = String::from_utf8(output.stderr).unwrap();
    assert!(message.contains("cut.gz:") && message.contains("cannot read on"), "{message}");
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
}

#[test]
fn the_summary_is_there_for_programs_too() {
    let truth = vector("truth.gz");
    let arguments =
        ["replay", &vector("cmd.gz"), "--truth", &truth, "--engine", "verilator", "--json"];
    let (status, stdout, stderr) = run(&arguments);
    assert_eq!((status, &stderr[..]), (0, ""));
    let mut summary: serde_json::Value = serde_json::from_str(&stdout).unwrap();
    summary["clocks_per_second"] = 0.into();
    insta::assert_snapshot!(serde_json::to_string_pretty(&summary).unwrap());
}
