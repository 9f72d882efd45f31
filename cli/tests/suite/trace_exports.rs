//! Tests what `hmtt convert` and `hmtt info` make of traces of accesses, with readers that are
//! written from the public definitions of the formats.

mod built_simulators;
mod champsim;
mod forged;
mod imported;
mod info;
mod regions;
mod simulators;
mod tables;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use hmtt_probe::elf::Image;

use crate::convert::samples::everything;
use crate::tag::build;
use crate::trace::{ACCESSES, FIXED, decoded, each_access, lackey_file, number, traced};
use crate::{LargeFile, capture_file, hmtt, scratch};

/// A program, its trace, and that as text.
struct Sample {
    program: PathBuf,
    image: Image,
    file: PathBuf,
    text: String,
}

/// `None` if there is no compiler.
static SAMPLE: LazyLock<Option<Sample>> = LazyLock::new(|| {
    let program = build("trace-exports", ACCESSES, &["-no-pie", "-w"])?;
    let image = Image::read(&program).unwrap();
    let file = traced("exports", &program, &[]);
    let text = decoded(&file);
    Some(Sample { program, image, file, text })
});

/// Converts a file. Returns the output, and what is printed on standard error.
fn converted(file: &Path, to: &str, options: &[&str]) -> (LargeFile, String) {
    let test = std::thread::current().name().unwrap().replace("::", "-");
    let output = LargeFile::new(&format!("{test}.{to}"));
    let paths = [file, &output].map(|path| path.to_str().unwrap());
    let arguments = [&["convert", "-f", "--to", to], options, &paths].concat();
    let run = hmtt(&arguments);
    let error = String::from_utf8(run.stderr).unwrap();
    assert_eq!(run.status.code(), Some(0), "{arguments:?}: {error}");
    (output, error)
}

/// The number of accesses with unknown addresses in a decoded trace, as a warning has it.
fn unknown(text: &str) -> String {
    let count = text.lines().filter(|line| line.split(' ').nth(3) == Some("?")).count();
    format!("does not hold: {count} accesses with unknown addresses\n")
}

/// A line of lackey: kind, address and size. `None` for other lines.
fn lackey_line(line: &str) -> Option<(char, u64, u64)> {
    let (kind, rest) = line.split_at_checked(3)?;
    let (address, size) = rest.split_once(',')?;
    let kind = match kind {
        "I  " => 'I',
        " L " => 'L',
        " S " => 'S',
        " M " => 'M',
        _ => return None,
    };
    Some((kind, u64::from_str_radix(address, 16).ok()?, size.parse().ok()?))
}

/// Whether there is a string instruction with a repeat prefix at an address.
fn is_repeated(image: &Image, pc: u64) -> bool {
    let text = image.text.iter().find(|text| (text.start..).contains(&pc));
    let code = text.and_then(|text| text.bytes.get((pc - text.start) as usize..));
    matches!(code, Some([0xf2 | 0xf3, 0xa4..=0xa7 | 0xaa..=0xaf, ..]))
        || matches!(code, Some([0xf2 | 0xf3, 0x48, 0xa4..=0xa7 | 0xaa..=0xaf, ..]))
}

/// Lines of the program's own instructions by instruction, kind and size.
fn lackey_counts(image: &Image, text: &str) -> BTreeMap<(u64, char, u64), u64> {
    let (mut counts, mut pc) = (BTreeMap::new(), u64::MAX);
    for (kind, address, size) in text.lines().filter_map(lackey_line) {
        if kind == 'I' {
            pc = address;
        }
        // Lackey has one more line where a string instruction finds that nothing is left.
        if pc < FIXED && (kind != 'I' || !is_repeated(image, pc)) {
            *counts.entry((pc, kind, size)).or_default() += 1;
        }
    }
    counts
}

#[test]
fn lackey_lines_are_those_of_lackey() {
    let Some(Sample { program, image, file, text }) = &*SAMPLE else { return };
    let (output, warning) = converted(file, "lackey", &[]);
    assert!(warning.contains(&unknown(text)), "{warning}");
    let written = output.text();
    assert!(written.lines().all(|line| lackey_line(line).is_some()));
    let counts = lackey_counts(image, &written);
    assert!(counts.keys().any(|(_, kind, _)| *kind == 'M'));
    assert!(counts.values().sum::<u64>() > 1_000_000);
    let Some(expected) = lackey_file("valgrind", program, &[]) else { return };
    let expected = lackey_counts(image, &expected.text());
    let keys: BTreeSet<_> = counts.keys().chain(expected.keys()).collect();
    let differs = |key: &&&(u64, char, u64)| counts.get(key) != expected.get(key);
    let different: Vec<_> = keys.iter().filter(differs).collect();
    assert!(different.is_empty(), "{different:x?}");
}

/// Direction and address of the requests for the cache lines of each access.
fn requests(text: &str) -> Vec<(char, u64)> {
    let mut requests = Vec::new();
    each_access(text, |(_, direction), address, size| {
        requests.push((direction, address));
        let mut next = (address | 63) + 1;
        while next < address + size {
            requests.push((direction, next));
            next += 64;
        }
    });
    requests
}

/// The value of a number with the prefix `0x`.
fn prefixed(text: &str) -> u64 {
    number(text.strip_prefix("0x").unwrap())
}

#[test]
fn ramulator_requests_are_the_accesses() {
    let Some(Sample { file, text, .. }) = &*SAMPLE else { return };
    let (output, _) = converted(file, "ramulator", &[]);
    let written = output.text();
    let records = written.lines().map(|line| {
        // Two words that a space separates; the address is a signed number.
        let (kind, address) = line.split_once(' ').unwrap();
        let address = i64::from_str_radix(address.strip_prefix("0x").unwrap(), 16).unwrap();
        let direction = match kind {
            "LD" => 'R',
            "ST" => 'W',
            other => panic!("{other}"),
        };
        (direction, address as u64)
    });
    assert!(records.eq(requests(text)));
}

#[test]
fn dramsim3_requests_are_the_accesses_in_order_of_time() {
    let Some(Sample { file, text, .. }) = &*SAMPLE else { return };
    let (output, _) = converted(file, "dramsim3", &[]);
    let written = output.text();
    let mut times = Vec::new();
    let records = written.lines().map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [address, kind, time] = words[..] else { panic!("{line}") };
        times.push(time.parse::<u64>().unwrap());
        let direction = match kind {
            "READ" => 'R',
            "WRITE" => 'W',
            other => panic!("{other}"),
        };
        (direction, prefixed(address))
    });
    assert!(records.eq(requests(text)));
    let (lackey, _) = converted(file, "lackey", &[]);
    let instructions = lackey.text().lines().filter(|line| line.starts_with('I')).count();
    assert!(times.is_sorted() && *times.last().unwrap() < instructions as u64);
}

#[test]
fn drmemtrace_lines_are_instructions_and_accesses() {
    let Some(Sample { file, .. }) = &*SAMPLE else { return };
    let outputs = ["drmemtrace", "lackey"].map(|to| converted(file, to, &[]).0);
    let [written, lackey] = outputs.each_ref().map(LargeFile::text);
    let (head, body) = written.split_at_checked(128).unwrap();
    assert!(head.starts_with("Output format:\n<--record#-> <--instr#->: <---tid---> <record"));
    let body = body.split_once("-\n").unwrap().1;
    let (body, end) = body.split_once("View tool results:\n").unwrap();
    let (mut fetched, mut shown, mut pc) = (0, 0, 0);
    let mut records = Vec::new();
    for (index, line) in body.lines().enumerate() {
        let (columns, record) = line.split_at(38);
        assert_eq!(columns[..12].trim(), (index + 1).to_string(), "{line}");
        assert!(&columns[24..26] == ": " && columns.ends_with(' '), "{line}");
        let (size, rest) = record[12..].split_once(" byte(s) @ ").unwrap();
        let (address, rest) = rest.split_at(18);
        let (address, size) = (prefixed(address), size.trim().parse::<u64>().unwrap());
        let kind = record[..12].trim_end();
        if kind == "ifetch" {
            fetched += u64::from(rest != " non-fetched instruction");
            shown += 1;
            pc = address;
        } else {
            assert_eq!(rest.strip_prefix(" by PC ").map(prefixed), Some(pc), "{line}");
        }
        assert_eq!(columns[12..24].trim(), fetched.to_string(), "{line}");
        let kind = match kind {
            "ifetch" => 'I',
            "read" => 'L',
            "write" => 'S',
            other => panic!("{other}"),
        };
        records.push((kind, address, size));
    }
    assert_eq!(end, format!("{shown:>15} : total instructions\n"));
    // Loads that are stores too have two records.
    let expected = lackey.lines().filter_map(lackey_line).flat_map(|(kind, address, size)| {
        let kinds = if kind == 'M' { &['L', 'S'][..] } else { &[kind] };
        kinds.iter().map(|kind| (*kind, address, size)).collect::<Vec<_>>()
    });
    assert!(expected.eq(records));
}

#[test]
fn requests_of_captures_are_their_accesses() {
    let capture = capture_file("exports-requests.pcapng", &everything());
    let csv = hmtt(&["decode", "--format", "csv", capture.to_str().unwrap()]).stdout;
    let csv = String::from_utf8(csv).unwrap();
    let mut expected = Vec::new();
    for line in csv.lines() {
        let fields: Vec<&str> = line.split(',').collect();
        if fields[0] == "access" {
            expected.push((fields[2].to_owned(), number(fields[3])));
        }
    }
    assert!(expected.len() > 5);
    for (to, words) in [("ramulator", ["LD", "ST"]), ("dramsim3", ["READ", "WRITE"])] {
        let output = scratch(&format!("exports-requests.{to}"));
        let paths = [&capture, &output].map(|path| path.to_str().unwrap());
        let run = hmtt(&["convert", "-f", "--to", to, paths[0], paths[1]]);
        let error = String::from_utf8(run.stderr).unwrap();
        assert!(error.contains("does not hold:"), "{error}");
        let mut records = Vec::new();
        for line in std::fs::read_to_string(&output).unwrap().lines() {
            let mut places = line.split(' ').collect::<Vec<_>>();
            if to == "dramsim3" {
                assert!(places.pop().unwrap().parse::<u64>().is_ok());
                places.swap(0, 1);
            }
            let [kind, address] = places[..] else { panic!("{line}") };
            let direction = if kind == words[1] { "W" } else { "R" };
            assert!(words.contains(&kind));
            records.push((direction.to_owned(), prefixed(address)));
        }
        assert_eq!(records, expected, "{to}");
    }
}

#[test]
fn what_a_format_cannot_hold_is_refused() {
    let capture = capture_file("exports-refused.pcapng", &everything());
    let output = scratch("exports-refused.out");
    let refused = |from: &Path, options: &[&str], why: &str| {
        let paths = [from, &output].map(|path| path.to_str().unwrap());
        let run = hmtt(&[&["convert", "-f"], options, &paths].concat());
        let error = String::from_utf8(run.stderr).unwrap();
        assert_eq!(run.status.code(), Some(1), "{error}");
        assert!(error.contains(why), "{error}");
    };
    for to in ["champsim", "lackey", "drmemtrace"] {
        refused(&capture, &["--to", to], "has instructions, which only traces of programs have");
    }
    refused(&capture, &["--to", "csv", "--thread", "1"], "it has no threads");
    let Some(Sample { file, .. }) = &*SAMPLE else { return };
    refused(file, &["--to", "hmtt6"], "hmtt6 holds what cards send");
    refused(file, &["--to", "lackey", "--thread", "1"], "has no thread 1");
}
