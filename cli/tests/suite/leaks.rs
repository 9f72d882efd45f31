//! Every command that traces a program warns once if the program contains LeakSanitizer, which does
//! not work then.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::tag::build;
use crate::{scratch, skipped};

/// Ends with status 8; with an argument when its input ends, after a line.
const LEAKS: &str = r#"
#include <stdio.h>
int main(int count, char **words) {
    (void)words;
    if (count > 1) {
        puts("ready");
        fflush(stdout);
        getchar();
    }
    return 8;
}
"#;
const WARNING: &str = "LSAN_OPTIONS=detect_leaks=0";

fn hmtt(words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_hmtt"));
    command.args(words);
    command
}

/// A program with a sanitizer, if the compiler has it.
fn sanitized(name: &str, flags: &[&str]) -> Option<PathBuf> {
    let program = build(&format!("leaks-{name}"), LEAKS, flags);
    if program.is_none() {
        skipped(format!("the compiler does not build programs with {flags:?}"));
    }
    program
}

fn outputs(name: &str) -> [Vec<String>; 3] {
    let file = |end: &str| scratch(&format!("leaks-{name}.{end}")).display().to_string();
    let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
    [
        words(&["tag", "run", "--sink", "none", "--"]),
        words(&["monitor", "run", "--overwrite", "-o", &file("json"), "--"]),
        words(&["trace", "run", "--overwrite", "-o", &file("trace"), "--"]),
    ]
}

fn run(words: &[String], program: &Path, variables: &[(&str, &str)]) -> Output {
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let mut command = hmtt(&words);
    command.env_remove("LSAN_OPTIONS").env_remove("ASAN_OPTIONS");
    command.envs(variables.iter().copied()).arg(program).output().unwrap()
}

#[test]
fn each_command_names_the_option_for_programs_with_leak_sanitizer() {
    let kinds: [(&str, &[&str]); 4] = [
        ("leak", &["-fsanitize=leak"]),
        ("address", &["-fsanitize=address"]),
        ("leak-static", &["-fsanitize=leak", "-static-liblsan"]),
        ("address-static", &["-fsanitize=address", "-static-libasan"]),
    ];
    for (name, flags) in kinds {
        let Some(program) = sanitized(name, flags) else { continue };
        let off = [("LSAN_OPTIONS", "detect_leaks=0")];
        let plain = Command::new(&program).env_remove("ASAN_OPTIONS").envs(off).output().unwrap();
        for words in outputs(name) {
            let output = run(&words, &program, &[]);
            let error = String::from_utf8_lossy(&output.stderr);
            assert_eq!(error.matches(WARNING).count(), 1, "{name} {words:?}: {error}");
            let output = run(&words, &program, &off);
            let error = String::from_utf8_lossy(&output.stderr);
            assert!(!error.contains(WARNING), "{name} {words:?}: {error}");
            assert_eq!(output.status.code(), plain.status.code(), "{name} {words:?}: {error}");
        }
    }
}

#[test]
fn programs_without_it_are_not_warned_of() {
    let Some(program) = build("leaks-none", LEAKS, &[]) else { return };
    for words in outputs("none") {
        let output = run(&words, &program, &[]);
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(!error.contains("Sanitizer"), "{words:?}: {error}");
        assert_eq!(output.status.code(), Some(8), "{words:?}: {error}");
    }
}

#[test]
fn a_program_that_runs_already_is_recognised() {
    let Some(program) = sanitized("leak", &["-fsanitize=leak"]) else { return };
    let trace = scratch("leaks-attached.trace").display().to_string();
    let profile = scratch("leaks-attached.json").display().to_string();
    let commands: [&[&str]; 3] = [
        &["tag", "attach", "--sink", "none"],
        &["monitor", "attach", "--overwrite", "-o", &profile],
        &["trace", "attach", "--overwrite", "-o", &trace],
    ];
    for words in commands {
        let mut command = Command::new(&program);
        command.arg("waits").env_remove("LSAN_OPTIONS").env_remove("ASAN_OPTIONS");
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut running = command.spawn().unwrap();
        let mut line = String::new();
        let mut output = BufReader::new(running.stdout.take().unwrap());
        output.read_line(&mut line).unwrap();
        let mut command = hmtt(words);
        command.arg(running.id().to_string()).stderr(Stdio::piped());
        let mut attached = command.spawn().unwrap();
        let mut error = BufReader::new(attached.stderr.take().unwrap());
        let mut warnings = String::new();
        while !warnings.contains(WARNING) && error.read_line(&mut warnings).unwrap() > 0 {}
        let _ = kill(Pid::from_raw(attached.id().cast_signed()), Signal::SIGINT);
        attached.wait().unwrap();
        drop(running.stdin.take());
        let _ = running.wait();
        assert!(warnings.contains(WARNING), "{words:?}: {warnings}");
    }
}
