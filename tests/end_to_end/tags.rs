//! Attributes accesses to functions of a real program, with tags that pass through a simulated
//! card, and compares `hmtt tag report` with a simple model of the same inputs.

mod blocks;
mod by_marks;
mod loops;
mod marked;
mod program;
mod truth;

use std::path::PathBuf;

use hmtt_format::config::{TAG_NIBBLE_FIRST, TAG_OFF, TAG_ON};
use hmtt_format::{Direction, MemoryDescription, toml_memory};
use hmtt_sim::traffic::Traffic;
use hmtt_test_support::names::assert_json_documented;
use hmtt_tests::{run, skip, succeed};
use serde_json::{Value, json};

use crate::captures::{path, replay_file};
use crate::loss;
use crate::recording::write_vector;
use crate::wire;
use program::Program;
use truth::Truth;

/// Base of the tag window.
const WINDOW: u64 = 0x1234_0000;
const STRIDE: u64 = 64;
/// Clocks within which the card sends the report that follows each command.
const REPORT: u64 = 3000;
/// Addresses that the test may use: above the registers and below the window.
const SPACE: std::ops::Range<u64> = 0x10_0000..0x1000_0000;

fn memory() -> MemoryDescription {
    toml_memory::parse(include_str!("../../gateware/memories/ddr1-512m.toml")).unwrap()
}

/// Repeats the addresses and directions of a real program's accesses.
fn recorded() -> impl Iterator<Item = (Direction, u64)> {
    let accesses = hmtt_tests::accesses("v03_ddr1_medium_open");
    let accesses: Vec<_> = accesses
        .into_iter()
        .map(|access| (access.direction, access.address.0))
        .filter(|(_, address)| SPACE.contains(address))
        .collect();
    accesses.into_iter().cycle()
}

/// Returns the number of accesses after each event: mostly few, occasionally many.
fn runs() -> impl Iterator<Item = u64> {
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    std::iter::repeat_with(move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        if state.is_multiple_of(50) { 40 } else { state >> 33 & 3 }
    })
}

/// Adds accesses to the traffic and to the truth.
fn add_accesses(
    accesses: impl Iterator<Item = (Direction, u64)>,
    traffic: &mut Traffic,
    truth: &mut Truth,
    count: u64,
) {
    for (direction, address) in accesses.take(count as usize) {
        match direction {
            Direction::Read => traffic.read(address),
            Direction::Write => traffic.write(address),
        };
        truth.access(direction, address);
    }
}

/// Converts events into writes to the window with accesses between them. Returns the traffic, and
/// the accesses of each function.
fn traffic(program: &Program) -> (Traffic, Truth) {
    let (mut traffic, mut truth) = (Traffic::new(memory()), Truth::new(program));
    for nibble in (0..8).rev() {
        traffic.configure(TAG_NIBBLE_FIRST + (WINDOW >> (nibble * 4) & 15) as u16).idle(REPORT);
    }
    traffic.configure(TAG_ON).idle(REPORT);
    let (mut accesses, mut runs) = (recorded(), runs());
    let mut add_accesses = |traffic: &mut Traffic, truth: &mut Truth, count: u64| {
        add_accesses(accesses.by_ref(), traffic, truth, count);
    };
    add_accesses(&mut traffic, &mut truth, 100);
    for event in &program.events {
        let place = u64::from(2 * event.number + u32::from(event.is_exit));
        traffic.write(WINDOW + STRIDE * place);
        truth.event(*event);
        if program.has_accesses_after(*event) {
            add_accesses(&mut traffic, &mut truth, runs.next().unwrap());
        }
    }
    add_accesses(&mut traffic, &mut truth, 50);
    traffic.configure(TAG_OFF);
    (traffic, truth)
}

/// Writes the map of the program as `--sink card` does.
fn card_map(program: &Program) -> std::path::PathBuf {
    let mut map = program.map();
    map["sink"] = json!("card");
    map["window"] =
        json!({ "address": format!("{WINDOW:x}"), "stride_bytes": STRIDE, "bytes": 1 << 16 });
    let file = program.folder.path().join("card.json");
    std::fs::write(&file, map.to_string()).unwrap();
    file
}

fn report(arguments: &[&str]) -> Value {
    let output = run("hmtt", &[&["tag", "report", "--json"], arguments].concat());
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {}\n{errors}", output.status);
    let report = serde_json::from_slice(&output.stdout).unwrap();
    assert_json_documented("hmtt tag report --json", &report);
    report
}

/// Compares the report on every function, and on accesses outside all functions, with the truth.
fn compare(reported: &Value, truth: &Truth, program: &Program) {
    let functions = reported["functions"].as_array().unwrap();
    assert_eq!(functions.len(), truth.functions.len());
    for function in functions {
        let number = function["number"].as_u64().unwrap() as u32;
        let name = &program.names[&number];
        assert_eq!(function["name"], json!(name));
        let expected = &truth.functions[&number];
        assert_eq!(function["calls"], json!(expected.calls), "{name}");
        assert_eq!(function["exits"]["returned"], json!(expected.calls), "{name}");
        expected.inclusive.check(&function["accesses"]["inclusive"], name);
        expected.own.check(&function["accesses"]["self"], name);
    }
    truth.outside.check(&reported["trace"]["outside"]["self"], "(outside)");
    truth.several.check(&reported["trace"]["several_threads"]["self"], "(several threads)");
    assert_eq!(reported["trace"]["accesses"], json!(truth.accesses));
    assert_eq!(reported["trace"]["gap_count"], json!(0));
    assert_eq!(reported["unmatched_exits"], json!(0));
}

/// Compares the groups of `hmtt stats --by function` with the truth.
fn compare_groups(capture: &str, map: &str, truth: &Truth, program: &Program) {
    for options in [&[][..], &["--inclusive"]] {
        let words = [&["stats", "--json", "--by", "function", "--map", map, capture], options];
        let results: Value = serde_json::from_str(&succeed("hmtt", &words.concat())).unwrap();
        let groups = results["split"]["groups"].as_array().unwrap();
        let counts = |name: &str| {
            let group = groups.iter().find(|group| group["group"] == name);
            let count = |key: &str| group.map_or(0, |group| group["stats"][key].as_u64().unwrap());
            [count("reads"), count("writes")]
        };
        for (number, function) in &truth.functions {
            let share = if options.is_empty() { &function.own } else { &function.inclusive };
            let name = &program.names[number];
            assert_eq!(counts(name), [share.reads, share.writes], "{name} {options:?}");
        }
        let sum: u64 =
            groups.iter().map(|group| group["stats"]["accesses"].as_u64().unwrap()).sum();
        assert!(!options.is_empty() || results["stats"]["accesses"] == sum);
        // The accesses to the card's registers are of no function, and are not in the truth.
        let outside = counts("(no function)").iter().sum::<u64>();
        let registers = results["stats"]["accesses"].as_u64().unwrap() - truth.accesses;
        assert_eq!(outside, truth.outside.reads + truth.outside.writes + registers);
    }
}

/// Replays traffic with a program's tags through the simulated card. Returns the capture, and the
/// truth.
fn captured(program: &Program) -> (PathBuf, Truth) {
    let (traffic, truth) = traffic(program);
    let folder = program.folder.path();
    let (input, capture) = (folder.join("made_up.cmd"), folder.join("c.pcapng"));
    write_vector(&input, &traffic);
    replay_file(&input, &["--granularity", "burst"], &capture);
    (capture, truth)
}

#[test]
fn tags_on_the_bus_split_accesses_by_function() {
    let Some(program) = Program::run("tags_on_the_bus_split_accesses_by_function") else { return };
    let (capture, truth) = captured(&program);
    let map = card_map(&program);
    compare(&report(&[path(&capture), "--map", path(&map)]), &truth, &program);
    compare_groups(path(&capture), path(&map), &truth, &program);
    let text = succeed("hmtt", &["tag", "report", path(&capture), "--map", path(&map)]);
    let outside = text.lines().find(|line| line.ends_with("  (outside)")).unwrap();
    let count = (truth.outside.reads + truth.outside.writes).to_string();
    assert!(outside.split_whitespace().take(2).all(|word| word == count), "{text}");
    // A map without a base uses the window that the card reports.
    let mut unplaced: Value = serde_json::from_slice(&std::fs::read(&map).unwrap()).unwrap();
    unplaced["window"]["address"] = json!("0");
    std::fs::write(&map, unplaced.to_string()).unwrap();
    compare(&report(&[path(&capture), "--map", path(&map)]), &truth, &program);
}

#[test]
fn tags_on_the_bus_pass_over_a_wire() {
    let test = "tags_on_the_bus_pass_over_a_wire";
    if !wire::wires_work() {
        return skip(test, "no user namespaces or veth pairs here");
    }
    let Some(program) = Program::run(test) else { return };
    let (traffic, truth) = traffic(&program);
    let folder = program.folder.path();
    let (input, capture) = (folder.join("made_up.cmd"), folder.join("c.pcapng"));
    write_vector(&input, &traffic);
    wire::capture_file(&input, "verilator", &capture);
    compare(&report(&[path(&capture), "--map", path(&card_map(&program))]), &truth, &program);
}

#[test]
fn losses_make_the_counts_lower_bounds() {
    let Some(program) = Program::run("losses_make_the_counts_lower_bounds") else { return };
    let (capture, truth) = captured(&program);
    let (blocks, packets) = loss::split(&capture);
    let is_kept = |(at, _): &(usize, _)| at % 7 != 6;
    let kept: Vec<_> =
        packets.into_iter().enumerate().filter(is_kept).map(|(_, one)| one).collect();
    loss::join(&capture, &blocks, &kept);
    let map = card_map(&program);
    let output = run("hmtt", &["tag", "report", "--json", path(&capture), "--map", path(&map)]);
    assert_eq!(output.status.code(), Some(3));
    let errors = String::from_utf8(output.stderr).unwrap();
    assert!(errors.contains("lower bounds"), "{errors}");
    let reported: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(
        reported["trace"]["gap_count"].as_u64() > Some(3),
        "{}",
        reported["trace"]["gap_count"]
    );
    let mut calls = 0;
    for function in reported["functions"].as_array().unwrap() {
        let truth = &truth.functions[&(function["number"].as_u64().unwrap() as u32)];
        calls += function["calls"].as_u64().unwrap();
        assert!(function["calls"].as_u64().unwrap() <= truth.calls, "{function}");
        for (sense, share) in [("self", &truth.own), ("inclusive", &truth.inclusive)] {
            let count = function["accesses"][sense]["accesses"].as_u64().unwrap();
            assert!(count <= share.reads + share.writes, "{function}");
        }
    }
    assert!(
        calls > 100 && reported["trace"]["accesses"].as_u64().unwrap() < truth.accesses,
        "{calls}"
    );
}
