//! Tests what traces state of what ran natively: its place, its number, and whether accesses of the
//! program are missing.

use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

use crate::tag::build;
use crate::trace_selected::info;
use crate::{hmtt, scratch};

const NATIVE: &str = include_str!("trace/native.c");
const RAISES: &str = include_str!("trace/raises.c");
const RESTRICTS: &str = include_str!("monitor/restricts.c");
const STARTS: &str = include_str!("monitor/starts.c");
/// Turns of the first program, and writes in each.
const TURNS: usize = 5;
const WRITES: usize = 1000;

/// Runs a program with its accesses recorded, and checks that it prints and ends as it does alone.
/// Returns the file, and what `hmtt` has printed.
fn traced(name: &str, program: &Path, words: &[&str]) -> (std::path::PathBuf, Output) {
    let file = scratch(&format!("trace-native-{name}.acc"));
    let plain = Command::new(program).args(words).output().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_hmtt"));
    command.args(["trace", "run", "-o"]).arg(&file).arg("--").arg(program).args(words);
    let output = command.output().unwrap();
    assert_eq!(output.stdout, plain.stdout, "{name}: {output:?}");
    let code = output.status.code();
    assert!(code == plain.status.code() || code == Some(3), "{name}: {output:?}");
    (file, output)
}

fn decoded(file: &Path) -> (Option<i32>, String) {
    let output = hmtt(&["decode", file.to_str().unwrap()]);
    (output.status.code(), String::from_utf8(output.stdout).unwrap())
}

#[test]
fn code_that_runs_natively_is_placed_and_counted() {
    let Some(program) = build("trace-native", NATIVE, &["-no-pie"]) else { return };
    let (file, output) = traced("code", &program, &[]);
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{error}");
    let warning = format!("threads came {TURNS} times to code that ran natively");
    assert!(error.contains(&warning), "{error}");
    let (code, text) = decoded(&file);
    assert_eq!(code, Some(3));
    assert!(text.contains(&format!("\n# {warning}")), "the sums state it");
    // Each time, the writes of a turn are before the place.
    let (mut writes, mut places) = (0, Vec::new());
    for line in text.lines() {
        if line.contains(" has executed code natively here, ") {
            places.push(writes);
        }
        writes += usize::from(line.contains(" W ") && line.ends_with(" 8 in writes"));
    }
    // A call of the function writes its return address, too, but that is in `main`.
    let expected: Vec<usize> = (1..=TURNS).map(|turn| turn * WRITES).collect();
    assert_eq!((places, writes), (expected, (TURNS + 1) * WRITES));
    let stated = info(&file);
    assert_eq!((&stated["native_code"], &stated["continuation"]), (&TURNS.into(), &"none".into()));
    let table = scratch("trace-native-code.csv");
    let converted = hmtt(&["convert", file.to_str().unwrap(), table.to_str().unwrap()]);
    assert_eq!(converted.status.code(), Some(3), "{converted:?}");
    assert!(String::from_utf8_lossy(&converted.stderr).contains(&warning), "{converted:?}");
}

#[test]
fn instructions_that_raise_a_signal_miss_no_accesses() {
    let Some(program) = build("trace-raises", RAISES, &["-O1"]) else { return };
    let (file, output) = traced("raises", &program, &[]);
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!((output.status.code(), &*error), (Some(0), ""));
    let (code, text) = decoded(&file);
    assert_eq!((code, text.contains("natively")), (Some(0), false));
    assert_eq!(info(&file)["native_code"], 0);
}

#[test]
fn children_are_counted_and_make_analyses_incomplete() {
    let script = "(exit 3); (exit 4); exit 0";
    let (file, output) = traced("children", Path::new("/bin/sh"), &["-c", script]);
    let error = String::from_utf8_lossy(&output.stderr);
    let note = "2 child processes ran natively, and are not recorded";
    assert_eq!((output.status.code(), &*error), (Some(0), &*format!("hmtt: {note}\n")));
    let (code, text) = decoded(&file);
    assert_eq!(code, Some(3));
    assert!(text.contains(&format!("\n# {note}\n")));
    let stated = info(&file);
    assert_eq!((&stated["native_children"], &stated["native_code"]), (&2.into(), &0.into()));
    let text = hmtt(&["info", file.to_str().unwrap()]);
    assert_eq!(text.status.code(), Some(3));
    assert!(
        String::from_utf8_lossy(&text.stdout).contains(&format!("missing                 {note}"))
    );
    let table = scratch("trace-native-children.csv");
    let words = ["convert", "-f", file.to_str().unwrap(), table.to_str().unwrap()];
    let converted = hmtt(&words);
    assert_eq!(converted.status.code(), Some(3), "{converted:?}");
    assert!(String::from_utf8_lossy(&converted.stderr).contains(note), "{converted:?}");
    let stats = hmtt(&["stats", file.to_str().unwrap()]);
    let text = String::from_utf8_lossy(&stats.stdout);
    assert_eq!(stats.status.code(), Some(3), "{text}");
    assert!(text.starts_with("INCOMPLETE: ") && text.contains(note), "{text}");
}

#[test]
fn children_of_all_kinds_and_another_program_run_unharmed() {
    let Some(program) = build("trace-starts", STARTS, &["-w"]) else { return };
    let (file, output) = traced("starts", &program, &[]);
    // The status is that of the program that was executed last.
    assert_eq!(output.status.code(), Some(9), "{output:?}");
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(error.contains("the program has executed another one"), "{error}");
    assert!(error.contains("20 child processes ran natively"), "{error}");
    let stated = info(&file);
    assert_eq!(stated["native_children"], 20);
    assert_eq!(stated["continuation"], "replaced");
    assert_eq!(decoded(&file).0, Some(3));
}

#[test]
fn a_program_that_goes_on_natively_is_so_in_its_trace() {
    let Some(program) = build("trace-restricts", RESTRICTS, &["-w"]) else { return };
    for (word, why) in
        [("gs", "until it uses gs"), ("seccomp", "until it restricts its system calls by seccomp")]
    {
        let (file, output) = traced(word, &program, &[word]);
        assert_eq!(output.status.code(), Some(8), "the status of the program: {output:?}");
        assert!(String::from_utf8_lossy(&output.stderr).contains(why), "{output:?}");
        let (code, text) = decoded(&file);
        assert_eq!(code, Some(3), "{word}");
        let line = "\n# the program went on natively before its end, without being recorded\n";
        assert!(text.contains(line), "{word}");
        let stated: Value = info(&file);
        assert_eq!((&stated["continuation"], &stated["cut"]), (&"natively".into(), &false.into()));
    }
}
