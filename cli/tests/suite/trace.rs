//! Tests `hmtt trace`: programs behave as without it, and accesses are those that Valgrind's lackey
//! sees.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use hmtt_probe::elf::Image;
use serde_json::Value;

use crate::tag::build;
use crate::{LargeFile, hmtt, scratch, skipped};

pub const ACCESSES: &str = include_str!("trace/accesses.c");
const BUSY: &str = include_str!("monitor/busy.c");
const TIMERS: &str = include_str!("monitor/timers.c");
const WRITES_CODE: &str = include_str!("monitor/writes_code.c");
const THREADS: &str = include_str!("tag_real/programs/threads.c");
const UNWINDS: &str = include_str!("tag_real/programs/throws.cc");

/// End of the addresses of code and data of programs that are linked to fixed addresses.
pub const FIXED: u64 = 0x50_0000;

/// Accesses of a program by instruction, direction and size.
type Counts = BTreeMap<(u64, char, u64), u64>;

/// Accesses to fixed addresses by fixed instructions, in order.
type Fixed = Vec<(u64, char, u64)>;

/// What was found of a program.
#[derive(Default)]
struct Found {
    counts: Counts,
    fixed: Fixed,
}

impl Found {
    /// Adds an access by an instruction of the program itself, outside the handler of signals.
    fn add(&mut self, image: &Image, (pc, direction): (u64, char), address: u64, size: u64) {
        if pc < FIXED && image.function_at(pc).is_none_or(|one| one.name != "handles") {
            *self.counts.entry((pc, direction, size)).or_default() += 1;
            if address < FIXED {
                self.fixed.push((pc, direction, address));
            }
        }
    }
}

pub fn number(text: &str) -> u64 {
    u64::from_str_radix(text.trim_start_matches("0x"), 16).unwrap()
}

/// Runs a program with its accesses recorded, and checks that it behaves as it does alone. Returns
/// the file.
pub fn traced(name: &str, program: &Path, words: &[&str]) -> PathBuf {
    let file = scratch(&format!("trace-{name}.acc"));
    let plain = Command::new(program).args(words).output().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_hmtt"));
    command.args(["trace", "run", "--overwrite", "-o"]).arg(&file).arg("--").arg(program);
    let traced = command.args(words).output().unwrap();
    let seen = |output: &Output| (output.status.code(), output.stdout.clone());
    let error = String::from_utf8_lossy(&traced.stderr);
    assert_eq!(seen(&traced), seen(&plain), "{name}: {error}");
    file
}

/// The lines of a decoded file, whose last ones begin with `#`.
pub fn decoded(file: &Path) -> String {
    let output = hmtt(&["decode", file.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Passes on instruction, direction, address and size of all accesses whose addresses are known,
/// with each element of strings.
pub fn each_access(text: &str, mut add: impl FnMut((u64, char), u64, u64)) {
    let mut strings = Vec::new();
    let mut lines = text.lines().filter(|line| !line.starts_with('#')).peekable();
    while let Some(line) = lines.next() {
        let words: Vec<&str> = line.split(' ').collect();
        let (pc, direction) = (number(words[1]), words[2].chars().next().unwrap());
        if words[3] == "?" {
            continue;
        }
        let address = number(words[3]);
        let Some((size, elements)) = words[4].split_once('*') else {
            add((pc, direction), address, words[4].parse().unwrap());
            continue;
        };
        // The elements of all operands are accessed in turn.
        strings.push((direction, address, size.parse::<u64>().unwrap()));
        let is_next = |next: &&str| next.split(' ').nth(1) == Some(words[1]);
        if strings.len() < 2 && lines.peek().is_some_and(is_next) {
            continue;
        }
        for element in 0..elements.parse().unwrap() {
            for (direction, address, size) in &strings {
                add((pc, *direction), address + element * size, *size);
            }
        }
        strings.clear();
    }
}

/// What `hmtt trace` finds.
fn found(image: &Image, text: &str) -> Found {
    let mut accesses = Found::default();
    each_access(text, |place, address, size| accesses.add(image, place, address, size));
    accesses
}

/// What lackey prints; `None` if it is not installed.
pub fn lackey_file(name: &str, program: &Path, words: &[&str]) -> Option<LargeFile> {
    let file = LargeFile::new(&format!("trace-{name}.lackey"));
    let mut command = Command::new("valgrind");
    command.args(["--tool=lackey", "--trace-mem=yes"]);
    command.arg(format!("--log-file={}", file.display())).arg(program).args(words);
    if let Err(error) = command.output() {
        skipped(format!("valgrind: {error}"));
        return None;
    }
    Some(file)
}

/// What lackey finds; `None` if it is not installed.
fn of_lackey(image: &Image, name: &str, program: &Path, words: &[&str]) -> Option<Found> {
    let text = lackey_file(name, program, words)?.text();
    let (mut accesses, mut pc) = (Found::default(), u64::MAX);
    for line in text.lines() {
        let Some((kind, rest)) = line.split_at_checked(3) else { continue };
        let Some((address, size)) = rest.split_once(',') else { continue };
        let Ok(address) = u64::from_str_radix(address, 16) else { continue };
        let directions = match kind {
            "I  " => {
                pc = address;
                continue;
            }
            " L " => "R",
            " S " => "W",
            " M " => "RW",
            _ => continue,
        };
        for direction in directions.chars() {
            accesses.add(image, (pc, direction), address, size.parse().unwrap());
        }
    }
    Some(accesses)
}

#[test]
fn accesses_are_those_of_lackey() {
    let Some(program) = build("trace-accesses", ACCESSES, &["-no-pie", "-w"]) else { return };
    let image = Image::read(&program).unwrap();
    let runs: [(&str, &[&[&str]]); 2] =
        [("plain", &[&[]]), ("signals", &[&["signals"], &["often"]])];
    for (name, all_words) in runs {
        let Some(expected) = of_lackey(&image, name, &program, all_words[0]) else { return };
        for words in all_words {
            let text = decoded(&traced(name, &program, words));
            let accesses = found(&image, &text);
            assert!(accesses.counts.values().sum::<u64>() > 1_000_000);
            let differs =
                |key: &&(u64, char, u64)| accesses.counts.get(key) != expected.counts.get(key);
            let keys = accesses.counts.keys().chain(expected.counts.keys());
            let different: Vec<_> = keys.filter(differs).collect();
            assert!(different.is_empty(), "{words:?}: {different:x?}");
            let mut pairs = accesses.fixed.iter().zip(&expected.fixed);
            let first = pairs.position(|(one, other)| one != other);
            assert_eq!((first, accesses.fixed.len()), (None, expected.fixed.len()), "{words:?}");
        }
    }
}

#[test]
fn programs_behave_as_without_tracing() {
    let programs: [(&str, &str, &[&str], &[&str]); 5] = [
        ("busy", BUSY, &[], &["signals"]),
        ("timers", TIMERS, &[], &[]),
        ("writes-code", WRITES_CODE, &[], &[]),
        ("threads", THREADS, &["-w", "-no-pie"], &[]),
        ("unwinds", UNWINDS, &["-w"], &[]),
    ];
    for (name, source, flags, words) in programs {
        let Some(program) = build(&format!("trace-{name}"), source, flags) else { continue };
        let file = traced(name, &program, words);
        let output = hmtt(&["stats", "--json", file.to_str().unwrap()]);
        let result: Value = serde_json::from_slice(&output.stdout).unwrap();
        // Nothing is missing but what children have done.
        let missing: Vec<String> = serde_json::from_value(result["missing"].clone()).unwrap();
        assert!(missing.iter().all(|text| text.contains("child process")), "{name}: {missing:?}");
        let expected = if missing.is_empty() { 0 } else { 3 };
        assert_eq!(output.status.code(), Some(expected), "{name}");
        assert!(result["stats"]["accesses"].as_u64() > Some(10_000), "{name}: {result}");
    }
}

#[test]
fn traces_are_private_and_never_overwritten_unasked() {
    use std::os::unix::fs::PermissionsExt;
    let file = scratch("trace-output.acc");
    let _ = std::fs::remove_file(&file);
    let path = file.to_str().unwrap();
    assert_eq!(hmtt(&["trace", "run", "-o", path, "true"]).status.code(), Some(0));
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    let again = hmtt(&["trace", "run", "-o", path, "true"]);
    assert_eq!(again.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&again.stderr).contains("give --overwrite"), "{again:?}");
    for (options, why) in [
        (&["--card", "1"][..], "and not of a card"),
        (&["--thread", "1"], "has no thread 1"),
        (&["-f", "-o", path], "is the trace itself"),
    ] {
        let refused = hmtt(&[&["decode", path], options].concat());
        assert_eq!(refused.status.code(), Some(1));
        assert!(String::from_utf8_lossy(&refused.stderr).contains(why), "{refused:?}");
    }
    // A cut file is read to its last whole chunk.
    let whole = std::fs::read(&file).unwrap();
    std::fs::write(&file, &whole[..whole.len() - 5]).unwrap();
    let cut = hmtt(&["decode", path]);
    assert_eq!(cut.status.code(), Some(3));
    let text = String::from_utf8_lossy(&cut.stdout);
    assert!(text.ends_with("# the file is cut: what follows is missing\n"));
    assert!(text.lines().next().is_some_and(|first| first.contains(" in ")), "{text}");
}

#[test]
fn a_full_disk_does_not_harm_the_program() {
    if !Path::new("/dev/full").exists() {
        return skipped("no /dev/full");
    }
    let output = hmtt(&["trace", "run", "-o", "/dev/full", "--", "echo", "done"]);
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.stdout, b"done\n");
    assert_eq!(output.status.code(), Some(1), "{error}");
    assert!(error.contains("cannot write /dev/full"), "{error}");
}

#[test]
fn accesses_have_the_names_of_their_functions() {
    let Some(program) = build("trace-names", ACCESSES, &["-no-pie", "-w"]) else { return };
    let file = traced("names", &program, &[]);
    let image = Image::read(&program).unwrap();
    std::fs::remove_file(&program).unwrap();
    let mut own = 0;
    for line in decoded(&file).lines().filter(|line| !line.starts_with('#')) {
        let pc = number(line.split(' ').nth(1).unwrap());
        let Some(function) = image.function_at(pc) else { continue };
        assert!(line.ends_with(&format!(" in {}", function.name)), "{line}: {}", function.name);
        own += 1;
    }
    assert!(own > 10_000);
}
