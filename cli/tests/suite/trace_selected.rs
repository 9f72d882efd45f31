//! Tests which accesses `hmtt trace` records if not all are wanted: those of a full trace, in its
//! order.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::tag::build;
use crate::trace::{ACCESSES, decoded};
use crate::{LargeFile, hmtt, scratch, skipped};

const BUSY: &str = include_str!("monitor/busy.c");
const LOOP: &str = include_str!("trace/loop_of_blocks.c");

/// A variable of the environment without which the C library uses AVX-512. With it, no access of
/// the library is masked: the programs in `tests/readers` that count accesses know of no masks.
pub const TUNABLES: (&str, &str) = ("GLIBC_TUNABLES", "glibc.cpu.hwcaps=-AVX512VL");

/// Records a program at the same addresses each time. `None`: that is not possible here.
pub fn traced(name: &str, program: &Path, options: &[&str]) -> Option<PathBuf> {
    let file = scratch(&format!("trace-selected-{name}.acc"));
    let mut command = Command::new("setarch");
    command.args(["-R", env!("CARGO_BIN_EXE_hmtt"), "trace", "run", "--overwrite", "-o"]);
    let plain = Command::new(program).output().unwrap().status.code();
    command.env(TUNABLES.0, TUNABLES.1);
    let output = command.arg(&file).args(options).arg("--").arg(program).output();
    let output = match output {
        Ok(output) if output.status.code() == plain => output,
        other => {
            skipped(format!("setarch: {other:?}"));
            return None;
        }
    };
    assert!(!output.stdout.is_empty(), "{output:?}");
    Some(file)
}

/// The lines of accesses, without the thread. `main` and what it calls come after what differs
/// between runs.
fn lines(file: &Path) -> Vec<String> {
    let text = decoded(file);
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines.map(|line| line.split_once(' ').unwrap().1.to_owned()).collect()
}

fn is_write(line: &str) -> bool {
    line.split(' ').nth(1) == Some("W")
}

/// Whether lines are among others, in order.
fn are_among(some: &[String], whole: &[String]) -> bool {
    let mut rest = whole.iter();
    some.iter().all(|one| rest.any(|other| other == one))
}

/// What `hmtt info` states.
pub fn info(file: &Path) -> Value {
    let output = hmtt(&["info", "--json", file.to_str().unwrap()]);
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn directions_and_functions_are_those_of_the_full_trace() {
    let flags = ["-static", "-no-pie", "-w"];
    let Some(program) = build("trace-selected", ACCESSES, &flags) else { return };
    let Some(file) = traced("full", &program, &[]) else { return };
    let full = lines(&file);
    type Wanted = fn(&str) -> bool;
    let cases: [(&str, &[&str], Wanted); 4] = [
        ("reads", &["--reads"], |line| !is_write(line)),
        ("writes", &["--writes"], is_write),
        ("main", &["-i", "main"], |line| line.ends_with(" in main")),
        ("others", &["-x", "main", "--writes"], |line| {
            is_write(line) && !line.ends_with(" in main")
        }),
    ];
    for (name, options, is_wanted) in cases {
        let Some(file) = traced(name, &program, options) else { return };
        let expected: Vec<&String> = full.iter().filter(|line| is_wanted(line)).collect();
        let recorded_lines = lines(&file);
        let differs = recorded_lines.iter().zip(&expected).position(|(one, other)| one != *other);
        assert_eq!((differs, recorded_lines.len()), (None, expected.len()), "{name}");
        assert!(!recorded_lines.is_empty(), "{name}");
        let output = LargeFile::new("trace-selected.lackey");
        let (from, to) = (file.to_str().unwrap(), output.to_str().unwrap());
        let converted = hmtt(&["convert", "--to", "lackey", "-f", from, to]);
        let warning = String::from_utf8_lossy(&converted.stderr);
        assert!(warning.contains("only some of the accesses were to be recorded"), "{warning}");
    }
}

#[test]
fn representatives_are_among_the_accesses_of_the_full_trace() {
    let flags = ["-static", "-no-pie", "-w"];
    let Some(program) = build("trace-selected", ACCESSES, &flags) else { return };
    let Some(file) = traced("all", &program, &[]) else { return };
    let full = lines(&file);
    let total = info(&file)["chosen"]["all_accesses"].as_u64().unwrap();
    let count = full.len() as u64;
    assert!(are_as_many(count, total), "{total} of {count}");
    let mut shares = Vec::new();
    for omega in ["10%", "50%", "100%"] {
        let options = ["--omega", omega, "--chunk", "16", "--all-blocks"];
        let Some(file) = traced("omega", &program, &options) else { return };
        let recorded_lines = lines(&file);
        assert!(
            are_among(&recorded_lines, &full),
            "{omega}: {} of {}",
            recorded_lines.len(),
            full.len()
        );
        let chosen = &info(&file)["chosen"];
        let number = |name: &str| chosen[name].as_u64().unwrap();
        assert_eq!(number("all_accesses"), total, "{omega}");
        let recorded = recorded_lines.len() as u64;
        assert!(are_as_many(recorded, number("recorded_accesses")), "{omega}");
        let weighted = hmtt(&["decode", "--weighted", file.to_str().unwrap()]);
        let text = String::from_utf8(weighted.stdout).unwrap();
        let output = LargeFile::new("trace-selected-weighted.txt");
        let paths = [&*file, &*output].map(|path| path.to_str().unwrap());
        let converted = hmtt(&[&["convert", "--weighted", "-f"], &paths[..]].concat());
        assert_eq!((converted.status.code(), output.text() == text), (Some(0), true), "{omega}");
        let represented = weights(&text).sum::<u64>();
        let account = number("represented_accesses");
        assert!(are_as_many(represented, account), "{omega}");
        shares.push((recorded_lines.len(), chosen["minimal_accuracy"].as_f64().unwrap()));
        let Some(file) = traced("silent", &program, &options[..4]) else { return };
        assert_eq!(
            lines(&file),
            recorded_lines,
            "{omega}: blocks without chosen accesses have none"
        );
    }
    assert!(shares.is_sorted(), "{shares:?}");
    assert!(shares[0].0 < full.len() / 4, "{shares:?}");
    assert_eq!(shares[2].1, 1.0, "all addresses are known: {shares:?}");
}

/// Whether there are as many lines as accesses of blocks. String instructions without elements, and
/// masks without active lanes, have no lines, and masked accesses of the C library may have
/// several.
fn are_as_many(lines: u64, accesses: u64) -> bool {
    lines.abs_diff(accesses) < 50
}

/// How many accesses each line represents.
fn weights(text: &str) -> impl Iterator<Item = u64> {
    text.lines().filter(|line| !line.starts_with('#')).map(|line| {
        let word = line.split(" x").nth(1).unwrap();
        word.split(' ').next().unwrap().parse().unwrap()
    })
}

#[test]
fn representatives_of_superblocks_are_fewer_and_account_for_as_much() {
    let Some(program) = build("trace-scopes", LOOP, &["-static", "-no-pie", "-O1"]) else { return };
    let Some(file) = traced("whole", &program, &[]) else { return };
    let full = lines(&file);
    let total = info(&file)["chosen"]["all_accesses"].as_u64().unwrap();
    let mut lengths = Vec::new();
    for scope in ["block", "superblock"] {
        let options = ["--omega", "100%", "--chunk", "16", "--all-blocks", "--scope", scope];
        let Some(file) = traced("scope", &program, &options) else { return };
        let recorded_lines = lines(&file);
        assert!(
            are_among(&recorded_lines, &full),
            "{scope}: {} of {}",
            recorded_lines.len(),
            full.len()
        );
        let chosen = &info(&file)["chosen"];
        assert_eq!(chosen["all_accesses"], total, "{scope}");
        assert_eq!(chosen["represented_accesses"], total, "{scope}");
        let weighted = hmtt(&["decode", "--weighted", file.to_str().unwrap()]);
        let represented = weights(&String::from_utf8(weighted.stdout).unwrap()).sum::<u64>();
        assert!(are_as_many(represented, total), "{scope}: {represented} of {total}");
        lengths.push(recorded_lines.len());
    }
    assert!(lengths[1] < lengths[0], "{lengths:?}");
}

#[test]
fn refused_options_are_explained() {
    for (options, why) in [
        (&["--omega", "0%"][..], "the share is 1 to 100 %"),
        (&["--omega", "all"], "is no share, such as 25%"),
        (&["--omega", "10%", "--chunk", "0"], "at least one byte"),
        (&["--chunk", "64"], "--omega"),
        (&["--scope", "superblock"], "--omega"),
        (&["--omega", "10%", "--scope", "superblock", "--no-superblocks"], "cannot be used with"),
        (&["--reads", "--writes"], "cannot be used with"),
        (&["--writes", "--cache"], "caches are simulated with all accesses"),
        (&["-i", "main", "--all-blocks", "--cache"], "caches are simulated with all accesses"),
    ] {
        let refused =
            hmtt(&[&["trace", "run", "-o", "/dev/null"], options, &["--", "true"]].concat());
        let error = String::from_utf8_lossy(&refused.stderr);
        assert!(!refused.status.success() && error.contains(why), "{options:?}: {error}");
    }
}

#[test]
fn a_running_process_is_traced_until_it_is_detached() {
    let Some(program) = build("trace-busy", BUSY, &[]) else { return };
    let words = ["signals", "600"];
    let plain = Command::new(&program).args(words).output().unwrap();
    let mut command = Command::new(&program);
    let running = command.args(words).stdout(Stdio::piped()).spawn().unwrap();
    let pid = running.id().to_string();
    let file = scratch("trace-attached.acc");
    let mut command = Command::new(env!("CARGO_BIN_EXE_hmtt"));
    command.args(["trace", "attach", "--overwrite", "-o"]).arg(&file).arg(&pid);
    let tracer = command.stderr(Stdio::piped()).spawn().unwrap();
    let begin = Instant::now();
    // The file has chunks once the process runs in the cache.
    let has_grown = || std::fs::metadata(&file).is_ok_and(|file| file.len() > 100_000);
    while !has_grown() && begin.elapsed() < Duration::from_secs(60) {
        std::thread::sleep(Duration::from_millis(10));
    }
    let detached = hmtt(&["trace", "detach", &pid]);
    assert!(detached.status.success(), "{detached:?}");
    let output = tracer.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let traced = running.wait_with_output().unwrap();
    assert_eq!((traced.status.code(), traced.stdout), (plain.status.code(), plain.stdout));
    let info = info(&file);
    assert!(info["accesses"].as_u64().unwrap() > 10_000, "{info}");
    assert_eq!(info["cut"], false);
}
