//! Tests that `hmtt tag --auto` finds and tags the functions in which time is spent.

use std::process::Stdio;

use serde_json::Value;

use crate::tag::{build, hmtt_tag};

/// A program that spends most time in `heavy`, which `some` calls, and a part in `light`; `tiny` is
/// called most often.
const PROGRAM: &str = r#"
#include <stdio.h>
#include <stdlib.h>
static volatile unsigned sink;
__attribute__((noipa)) unsigned tiny(unsigned n) { return n + 1; }
__attribute__((noipa)) unsigned heavy(unsigned n) {
    unsigned sum = n;
    for (unsigned i = 0; i < 20000; i++) { sum = sum * 1664525 + 1013904223 + (sum >> 7); sum ^= sum << 3; sink = sum; }
    return tiny(sum);
}
__attribute__((noipa)) unsigned light(unsigned n) {
    unsigned sum = n;
    for (unsigned i = 0; i < 4000; i++) { sum = sum * 69069 + 5 + (sum >> 9); sum ^= sum << 5; sink = sum; }
    return tiny(sum);
}
int main(int argc, char **argv) {
    long turns = argc > 1 ? atol(argv[1]) : 1;
    unsigned sum = 0;
    for (long turn = 0; turn < turns; turn++) sum += heavy(turn) + light(turn);
    printf("%u\n", sum);
    return 7;
}
"#;

fn names(counts: &std::path::Path) -> Vec<String> {
    let counts: Value = serde_json::from_slice(&std::fs::read(counts).unwrap()).unwrap();
    let functions = counts["functions"].as_array().unwrap().iter();
    functions.map(|function| function["name"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn functions_in_which_time_is_spent_are_tagged() {
    let Some(program) = build("tag-auto", PROGRAM, &[]) else { return };
    let plain = std::process::Command::new(&program).arg("40000").output().unwrap();
    // A sixth of the samples are in `light`; a busy machine takes few.
    for (count, time, expected) in
        [("1", "300ms", &["heavy"][..]), ("2", "1s", &["heavy", "light"])]
    {
        let folder = tempfile::tempdir().unwrap();
        let counts = folder.path().join("counts.json");
        let words = ["run", "--auto", count, "--auto-for", time, "-o"];
        let mut command = hmtt_tag(&words);
        let output = command.arg(&counts).arg("--").arg(&program).arg("40000").output().unwrap();
        let text = String::from_utf8_lossy(&output.stderr);
        assert_eq!((&output.stdout, output.status.code()), (&plain.stdout, Some(7)), "{text}");
        assert!(text.contains("chose heavy: "), "{text}");
        let mut functions = names(&counts);
        functions.sort();
        assert_eq!(functions, expected, "{text}");
    }
}

#[test]
fn a_program_that_ends_during_sampling_keeps_its_status() {
    let Some(program) = build("tag-auto-short", PROGRAM, &[]) else { return };
    let output =
        hmtt_tag(&["run", "--auto", "3", "--auto-for", "100s", "--"]).arg(&program).output();
    let output = output.unwrap();
    assert_eq!(output.status.code(), Some(7));
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(text.contains("nothing was tagged"), "{text}");
}

#[test]
fn an_idle_process_continues() {
    let mut child = std::process::Command::new("cat")
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let pid = child.id().to_string();
    let output = hmtt_tag(&["attach", "--auto", "1", "--auto-for", "50ms", &pid]).output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    drop(child.stdin.take());
    assert!(child.wait().unwrap().success(), "{text}");
    if output.status.code() == Some(1) && text.contains("Operation not permitted") {
        eprintln!("skipped: {text}");
        return;
    }
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains("no time was spent"), "{text}");
}

#[test]
fn no_functions_are_chosen_in_children() {
    let output = hmtt_tag(&["run", "-f", "--auto", "1", "--", "/bin/true"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
}
