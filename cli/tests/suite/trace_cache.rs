//! Tests `hmtt trace run --cache`: the counts are those that Valgrind finds, and those of the same
//! accesses in a file.

use std::path::Path;
use std::process::Command;

use hmtt::cache::{AccessKind, Hierarchy};
use hmtt_test_support::names::assert_json_documented;
use serde_json::Value;

use crate::tag::build;
use crate::{LargeFile, hmtt, scratch, skipped};

const WALKS: &str = include_str!("trace/walks.c");

/// The program, without libraries.
fn walks() -> Option<std::path::PathBuf> {
    let options = ["-O1", "-static", "-nostdlib", "-ffreestanding", "-fno-stack-protector"];
    build(
        "trace-cache-walks",
        WALKS,
        &[&options[..], &["-no-pie", "-fcf-protection=none"]].concat(),
    )
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// Runs the program with caches. Returns the JSON that is written.
fn counted(program: &Path, name: &str, more: &[&str]) -> Value {
    let file = scratch(&format!("trace-cache-{name}.json"));
    let options = ["trace", "run", "--overwrite", "--cache-json", text(&file)];
    let output = hmtt(&[&options[..], more, &["--", text(program)]].concat());
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap()
}

/// Runs a tool of Valgrind. Returns the text that it has written; `None` if it is not installed.
fn valgrind(program: &Path, name: &str, options: &[&str], file_option: &str) -> Option<String> {
    let file = LargeFile::new(&format!("trace-cache-{name}"));
    let mut command = Command::new("valgrind");
    command.args(options).arg(format!("{file_option}={}", file.display())).arg(program);
    match command.output() {
        Ok(output) => assert!(output.status.success(), "{output:?}"),
        Err(error) => {
            skipped(format!("valgrind: {error}"));
            return None;
        }
    }
    Some(file.text())
}

/// Misses of data in the first level that cachegrind counts. Its last level has instructions, too.
fn of_cachegrind(program: &Path) -> Option<u64> {
    let options = ["--tool=cachegrind", "--cache-sim=yes", "--D1=2048,2,64", "--LL=16384,4,64"];
    let text = valgrind(program, "cachegrind", &options, "--cachegrind-out-file")?;
    let words = |name: &str| -> Vec<&str> {
        text.lines().find_map(|line| line.strip_prefix(name)).unwrap().split_whitespace().collect()
    };
    let (events, counts) = (words("events:"), words("summary:"));
    let count = |name: &str| -> u64 {
        let at = events.iter().position(|event| *event == name).unwrap();
        counts[at].parse().unwrap()
    };
    Some(count("D1mr") + count("D1mw"))
}

/// Reads, writes, and misses of each level, of the accesses to data that lackey reports.
fn of_lackey(program: &Path) -> Option<[u64; 4]> {
    let options = ["--tool=lackey", "--trace-mem=yes"];
    let text = valgrind(program, "lackey", &options, "--log-file")?;
    let levels = ["2K,2,64,lru", "16K,4,64,lru"].map(|level| level.parse().unwrap());
    let mut caches = Hierarchy::new(&levels, None).unwrap();
    let (mut reads, mut writes) = (0, 0);
    for line in text.lines() {
        let Some((kind, rest)) = line.split_at_checked(3) else { continue };
        let Some((address, size)) = rest.split_once(',') else { continue };
        let Ok(address) = u64::from_str_radix(address, 16) else { continue };
        let size = size.parse().unwrap();
        if [" L ", " M "].contains(&kind) {
            reads += 1;
            caches.access(AccessKind::Read, address, size, &mut |_| {});
        }
        if [" S ", " M "].contains(&kind) {
            writes += 1;
            caches.access(AccessKind::Write, address, size, &mut |_| {});
        }
    }
    let misses: Vec<u64> = caches.counters().map(|level| level.misses).collect();
    Some([reads, writes, misses[0], misses[1]])
}

const SMALL: [&str; 4] = ["--cache", "l2=16K,4,64,lru", "--cache", "l1=2K,2,64,lru"];

#[test]
fn counts_are_those_of_valgrind() {
    let Some(program) = walks() else { return };
    let counts = counted(&program, "small", &SMALL);
    assert_json_documented("--cache-json", &counts);
    let number = |value: &Value| value.as_u64().unwrap();
    let misses = [0, 1].map(|level| number(&counts["caches"][level]["cache_misses"]));
    assert!(misses[0] > 20_000 && misses[1] > 5_000, "{counts}");
    for list in ["functions", "instructions"] {
        let list = counts[list].as_array().unwrap();
        let sum: u64 = list.iter().map(|one| number(&one["cache_misses"][1])).sum();
        assert_eq!(sum, misses[1]);
    }
    let names: Vec<_> = counts["functions"].as_array().unwrap().iter().collect();
    let missed = |name: &str| {
        names.iter().any(|one| one["function"] == name && one["object"] == text(&program))
    };
    assert!(missed("walk") && missed("fill"), "{names:?}");
    if let Some(expected) = of_lackey(&program) {
        let [reads, writes] = ["reads", "writes"].map(|name| number(&counts[name]));
        assert_eq!([reads, writes, misses[0], misses[1]], expected);
    }
    if let Some(expected) = of_cachegrind(&program) {
        assert_eq!(misses[0], expected);
    }
}

#[test]
fn caches_and_a_file_are_made_of_the_same_accesses() {
    let Some(program) = walks() else { return };
    let file = scratch("trace-cache.acc");
    let with_file = counted(&program, "file", &[&SMALL[..], &["-o", text(&file)]].concat());
    assert_eq!(with_file, counted(&program, "alone", &SMALL));
    let decoded = hmtt(&["decode", text(&file)]);
    let decoded = String::from_utf8(decoded.stdout).unwrap();
    let count = ["reads", "writes"].map(|name| with_file[name].as_u64().unwrap());
    let sums = format!("# {} accesses in ", count[0] + count[1]);
    assert!(decoded.contains(&sums), "{sums}");
}

#[test]
fn counts_are_printed_after_the_program_has_ended() {
    let output = hmtt(&["trace", "run", "--cache", "--", "sh", "-c", "echo out; exit 5"]);
    let printed = String::from_utf8_lossy(&output.stderr);
    assert_eq!((output.status.code(), &output.stdout[..]), (Some(5), &b"out\n"[..]), "{printed}");
    for words in [
        "caches: ",
        "\nl1            32     8    64",
        "\nl3          8192    16    64",
        "\nmemory: ",
    ] {
        assert!(printed.contains(words), "{printed}");
    }
}

#[test]
fn caches_that_cannot_be_are_refused_before_the_program_runs() {
    for (options, words) in [
        (&["--cache", "l2=1K,2,64,lru"][..], "--cache: l2: l1 is missing"),
        (
            &["--cache", "l1=1K,2,64,lru", "--cache", "i1=1K,2,64,lru"],
            "--cache i1: only accesses to",
        ),
        (&["--cache", "l1=1K,2,64,lru", "--cache", "desktop"], "cannot be given with other caches"),
        (
            &["--cache", "l1=1K,2,64,lru", "--cache", "l2=1K,2,32,lru"],
            "a level has lines of 32 bytes",
        ),
    ] {
        let output = hmtt(&[&["trace", "run"], options, &["--", "echo", "out"]].concat());
        let printed = String::from_utf8_lossy(&output.stderr);
        assert_eq!((output.status.code(), &output.stdout[..]), (Some(1), &b""[..]), "{printed}");
        assert!(printed.contains(words), "{printed}");
    }
    let neither = hmtt(&["trace", "run", "--", "true"]);
    assert_eq!(neither.status.code(), Some(2));
}
