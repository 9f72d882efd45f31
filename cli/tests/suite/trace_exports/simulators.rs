//! What is written for simulators of memories and caches, and what is stated about it.

use std::collections::HashMap;

use hmtt::CardId;
use hmtt::table::parquet::ParquetWriter;
use hmtt::table::{Card, Row, Writer};
use hmtt_format::{Access, Cycles, Direction, PhysAddr};

use super::*;

/// As many instructions as the tests need.
pub const COUNT: [&str; 2] = ["--count", "50000"];

/// The requests of a file for DRAMsim3: direction, address and clock.
fn dramsim3(text: &str) -> Vec<(char, u64, u64)> {
    let line = |line: &str| {
        let words: Vec<&str> = line.split(' ').collect();
        let [address, kind, clock] = words[..] else { panic!("{line}") };
        let direction = if kind == "WRITE" { 'W' } else { 'R' };
        (direction, prefixed(address), clock.parse().unwrap())
    };
    text.lines().map(line).collect()
}

/// The paragraph about a file; nothing follows it.
pub fn paragraph(error: &str) -> &str {
    let line = error.lines().last().unwrap();
    assert!(line.starts_with("hmtt: ") && !line.contains("warning"), "{error}");
    line
}

/// The number behind some words.
pub fn number_behind(text: &str, words: &str) -> u64 {
    let (_, rest) = text.split_once(words).unwrap_or_else(|| panic!("no `{words}` in {text}"));
    let digits = rest.split(|letter: char| !letter.is_ascii_digit()).next().unwrap();
    digits.parse().unwrap_or_else(|_| panic!("no number behind `{words}` in {text}"))
}

#[test]
fn the_paragraph_states_requests_and_how_to_run_dramsim3() {
    let Some(Sample { file, .. }) = &*SAMPLE else { return };
    let (output, error) = converted(file, "dramsim3", &COUNT);
    let text = paragraph(&error);
    let requests = dramsim3(&output.text());
    let writes = requests.iter().filter(|(direction, ..)| *direction == 'W').count() as u64;
    let reads = requests.len() as u64 - writes;
    let last = requests.last().unwrap().2;
    assert!(
        text.contains(&format!("requests: {reads} reads and {writes} writes, last cycle {last} ")),
        "{text}"
    );
    assert!(text.contains("`unified_queue = true` in the section [system]"), "{text}");
    assert!(number_behind(text, " -c ") >= last + requests.len() as u64, "{text}");
    assert!(text.contains(&format!(" -t {}", output.to_str().unwrap())), "{text}");
    assert_eq!(number_behind(text, "has counted "), reads + 1);
}

#[test]
fn each_simulator_has_a_command_line() {
    let Some(Sample { file, .. }) = &*SAMPLE else { return };
    for (to, words) in [
        ("ramulator", "ramulator2 -f CONFIG.yaml"),
        ("dramsys", "DRAMSys CONFIG.json"),
        ("libcachesim", "oracleGeneral lru"),
        ("champsim", "champsim --warmup-instructions 0 --simulation-instructions 5 "),
    ] {
        let (output, error) = converted(file, to, &["--count", "5"]);
        let text = paragraph(&error);
        assert!(text.contains(words) && text.contains(output.to_str().unwrap()), "{text}");
    }
    let (_, error) = converted(file, "lackey", &["--count", "5"]);
    assert!(paragraph(&error).contains(": 5 instructions with "), "{error}");
}

/// The requests of a cache with one line for each set.
fn requests_of_direct_cache(accesses: &[(char, u64, u64)], sets: u64) -> Vec<(char, u64, u64)> {
    let mut lines: HashMap<u64, (u64, bool)> = HashMap::new();
    let mut requests = Vec::new();
    for (direction, address, clock) in accesses {
        let line = address / 64;
        let (is_write, before) = (*direction == 'W', lines.get(&(line % sets)).copied());
        if before.is_none_or(|(other, _)| other != line) {
            requests.push(('R', line * 64, *clock));
            if let Some((other, true)) = before {
                requests.push(('W', other * 64, *clock));
            }
            lines.insert(line % sets, (line, is_write));
        } else if is_write {
            lines.insert(line % sets, (line, true));
        }
    }
    requests
}

#[test]
fn misses_and_write_backs_are_the_requests_behind_a_cache() {
    let Some(Sample { file, .. }) = &*SAMPLE else { return };
    let (requests, _) = converted(file, "dramsim3", &COUNT);
    let expected = requests_of_direct_cache(&dramsim3(&requests.text()), 4096 / 64);
    drop(requests);
    let cache = [&COUNT[..], &["--cache", "l1=4K,1,64,lru"]].concat();
    assert!(expected.iter().any(|(direction, ..)| *direction == 'W'));
    let (output, error) = converted(file, "dramsim3", &cache);
    assert!(dramsim3(&output.text()) == expected);
    assert!(paragraph(&error).contains("what the caches have read from memory and written back"));
    let (output, _) = converted(file, "dramsys", &cache);
    let records = output
        .text()
        .lines()
        .map(|line| {
            let (clock, rest) = line.split_once(": ").unwrap();
            let (kind, address) = rest.split_once(' ').unwrap();
            let direction = if kind == "write" { 'W' } else { 'R' };
            (direction, prefixed(address), clock.parse().unwrap())
        })
        .collect::<Vec<_>>();
    assert!(records == expected);
}

#[test]
fn records_of_libcachesim_state_the_next_request() {
    let Some(Sample { file, .. }) = &*SAMPLE else { return };
    let requests = dramsim3(&converted(file, "dramsim3", &COUNT).0.text());
    let bytes = converted(file, "libcachesim", &COUNT).0.bytes();
    let (records, []) = bytes.as_chunks::<24>() else { panic!("a record is cut") };
    assert_eq!(records.len(), requests.len());
    let mut next: HashMap<u64, i64> = HashMap::new();
    for (index, (record, (_, address, clock))) in records.iter().zip(&requests).enumerate().rev() {
        let object = address / 64;
        let expected = next.insert(object, index as i64 + 1).unwrap_or(-1);
        let written = [
            &(*clock as u32).to_le_bytes()[..],
            &object.to_le_bytes(),
            &64u32.to_le_bytes(),
            &expected.to_le_bytes(),
        ];
        assert_eq!(record[..], written.concat(), "{index}");
    }
    assert!(next.len() > 10);
}

#[test]
fn bursts_of_a_line_are_one_request_and_unknown_bytes_are_stated() {
    let [table, requests, csv] =
        ["burst-requests.parquet", "burst-requests.stl", "burst-requests.csv"].map(scratch);
    let file = std::fs::File::create(&table).unwrap();
    let mut writer: Box<dyn Writer> = Box::new(ParquetWriter::new(file).unwrap());
    let (tck_ps, unit_bytes, format_version) = (2500, 32, 3);
    writer.card(CardId(0), Card { tck_ps, unit_bytes, format_version, digest: String::new() });
    for index in 0..100 {
        let (clock, address) = (Cycles(10 * index), PhysAddr(0x8000 + 32 * index));
        let access = Access { clock, direction: Direction::Read, address };
        writer.row(&Row { card: CardId(0), entry: access.into() }).unwrap();
    }
    writer.finish().unwrap();
    let convert = |from: &Path, to: &Path| {
        let [from, to] = [from, to].map(|path| path.to_str().unwrap());
        let run = hmtt(&["convert", "-f", from, to]);
        assert_eq!(run.status.code(), Some(0), "{run:?}");
        (std::fs::read_to_string(to).unwrap(), String::from_utf8(run.stderr).unwrap())
    };
    let (written, error) = convert(&table, &requests);
    let line = |index: u64| format!("{}: read {:#x}\n", 20 * index, 0x8000 + 64 * index);
    assert_eq!(written, (0..50).map(line).collect::<String>());
    let text = paragraph(&error);
    assert!(text.contains("50 reads and 0 writes, last cycle 980 "), "{text}");
    assert!(text.contains("50 bursts of fewer than 64 bytes are merged"), "{text}");
    assert!(text.contains("\"clkMhz\": 400, \"dataLength\": 64,"), "{text}");
    // A table as text states no bytes.
    convert(&table, &csv);
    let (written, error) = convert(&csv, &requests);
    assert_eq!(written.lines().count(), 100);
    assert!(paragraph(&error).contains("Of 100 accesses the bytes are not known"), "{error}");
}

#[test]
fn decode_and_merge_state_how_to_run_simulators() {
    let capture = capture_file("exports-commands.pcapng", &everything());
    let capture = capture.to_str().unwrap();
    for (format, extension) in
        [("dramsys", "stl"), ("libcachesim", "oracleGeneral"), ("ramulator", "ld")]
    {
        let output = scratch(&format!("exports-commands.{extension}"));
        let path = output.to_str().unwrap();
        let run = |arguments: &[&str]| {
            let run = hmtt(arguments);
            let error = String::from_utf8(run.stderr).unwrap();
            (run.status.code(), paragraph(&error).to_owned(), std::fs::read(&*output).unwrap())
        };
        let expected = run(&["convert", "-f", "--to", format, capture, path]);
        assert!(expected.1.contains("requests: ") && expected.1.contains(path), "{expected:?}");
        assert_eq!(run(&["decode", "-f", "--format", format, capture, "-o", path]), expected);
        // Of a capture with restarts, merge takes each session for a card.
        let (_, merged, _) = run(&["merge", "-f", "--format", format, capture, "-o", path]);
        assert!(merged.starts_with(&format!("hmtt: {path}: requests: ")), "{merged}");
        assert!(merged.contains(" Run: "), "{merged}");
        if extension != "ld" {
            assert_eq!(run(&["decode", "-f", capture, "-o", path]), expected);
        }
        let printed = hmtt(&["decode", "--format", format, capture]);
        assert_eq!(printed.stdout, expected.2);
        let error = String::from_utf8(printed.stderr).unwrap();
        assert!(paragraph(&error).starts_with("hmtt: standard output: requests: "), "{error}");
    }
    let refused =
        hmtt(&["decode", capture, "-o", scratch("exports-commands.pcap").to_str().unwrap()]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(String::from_utf8(refused.stderr).unwrap().contains("cannot write pcapng"));
}

#[test]
fn caches_are_refused_where_there_is_nothing_for_them() {
    let refused = |words: &[&str], why: &str| {
        let run = hmtt(&[&["convert", "-f"], words].concat());
        let error = String::from_utf8(run.stderr).unwrap();
        assert_eq!(run.status.code(), Some(1), "{error}");
        assert!(error.contains(why), "{error}");
    };
    let capture = capture_file("exports-caches.pcapng", &everything());
    let output = scratch("exports-caches.out");
    let [capture, output] = [&capture, &output].map(|path| path.to_str().unwrap());
    let cache = ["--cache", "desktop", "--to"];
    refused(&[&cache[..], &["ramulator", capture, output]].concat(), "behind the caches");
    let Some(Sample { file, .. }) = &*SAMPLE else { return };
    let file = file.to_str().unwrap();
    refused(&[&cache[..], &["champsim", file, output]].concat(), "--cache is for requests");
    let short = ["--cache", "l1=4K,1,64,lru", "--cache", "desktop", "--to", "dramsys"];
    refused(&[&short[..], &[file, output]].concat(), "desktop cannot be given with other caches");
}
