//! Tests `hmtt tag report` as users run it.
//!
//! Golden files are in `tests/snapshots`. `INSTA_UPDATE=always cargo test -p hmtt-cli` updates
//! them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use hmtt_files::tag_log::{
    ClockPair, Content, Ending, FunctionId, Header, LossReason, Mark, TagEvent,
};
use hmtt_files::tag_map::{self, Exits, TagMap, TaggedBlock, TaggedFunction};
use hmtt_test_support::programs::transcript;
use hmtt_test_support::tag_log::Log;
use serde_json::Value;

use crate::command_line::check;
use crate::{hmtt, scratch, skipped};

const ID: [u8; 8] = *b"\x01\x02\x03\x04\x05\x06\x07\x08";
const NAMES: [&str; 5] =
    ["main", "work", "std::vector<int, a<b>>::push_back(int&&)", "twin", "twin"];

fn map(is_timed: bool) -> TagMap {
    let function = |(number, name): (u32, &&str)| TaggedFunction {
        number: FunctionId(number),
        name: (*name).into(),
        symbols: vec![format!("_{name}")],
        object: "/opt/prog".into(),
        code_address: 0x40_1000 + u64::from(number) * 0x100,
        file_address: Some(0x1000 + u64::from(number) * 0x100),
        size_bytes: 0x80,
        tagged_exits: Exits::All,
        removed: None,
    };
    TagMap {
        version: tag_map::VERSION,
        id: ID,
        program: "/opt/prog".into(),
        pid: 4711,
        sink: "log".into(),
        timed: is_timed,
        tsc_hz: 2_000_000_000,
        window: None,
        functions: (0..).zip(&NAMES).map(function).collect(),
        blocks: vec![TaggedBlock {
            number: FunctionId(9),
            function_number: FunctionId(1),
            code_address: 0x40_1110,
            size_bytes: 16,
            loop_number: None,
        }],
        loops: Vec::new(),
        refused: Vec::new(),
    }
}

/// Builds a log of two threads. One makes calls of every kind; the other leaves `work` by a jump
/// and does not end.
fn log(header: Header, has_loss: bool) -> Log {
    let mut log = Log::new(&header);
    log.chunk(4711, Content::ThreadStart { name: b"prog" });
    log.chunk(4712, Content::ThreadStart { name: b"worker" });
    let mut write = |thread, base: u64, events: &[(u64, u32, u32, bool)]| {
        let event = |&(micros, number, sp, is_exit): &(u64, u32, u32, bool)| TagEvent {
            tsc: base + micros * 2000,
            number: FunctionId(number),
            sp,
            is_exit,
        };
        let events: Vec<TagEvent> = events.iter().map(event).collect();
        log.events(thread, &events, header.is_timed);
    };
    let (enter, exit) = (false, true);
    write(4711, 1 << 40, &[(0, 0, 0x8000, enter), (10, 1, 0x7f00, enter), (15, 9, 0x7ef0, enter)]);
    let inner = [(20, 1, 0x7e00, enter), (30, 2, 0x7d00, enter), (31, 2, 0x7d00, exit)];
    write(4711, 1 << 40, &inner);
    write(4711, 1 << 40, &[(40, 1, 0x7e00, exit), (60, 1, 0x7f00, exit), (61, 3, 0x7f00, enter)]);
    write(4711, 1 << 40, &[(62, 4, 0x7f00, exit), (63, 4, 0x7f00, enter), (1064, 4, 0x7f00, exit)]);
    write(4711, 1 << 40, &[(2_000_000, 0, 0x8000, exit), (2_000_001, 0, 0x9000, exit)]);
    write(
        4712,
        (1 << 40) + 900_000,
        &[(0, 1, 0x4000, enter), (5, 2, 0x3f00, enter), (9, 3, 0x3f80, enter)],
    );
    if has_loss {
        log.chunk(4712, Content::Lost { count: 7, reason: LossReason::BufferFull });
        log.chunk(4712, Content::Lost { count: 1, reason: LossReason::Interrupted });
    }
    log.chunk(4711, Content::Mark(Mark::default()));
    log.chunk(0, Content::Unknown { kind: 99, payload: b"later" });
    log.chunk(0, Content::End(Ending::Exited(0)));
    log
}

const HEADER: Header =
    Header { is_timed: true, pid: 4711, tsc_hz: 2_000_000_000, start_ns: 5, map_id: ID };

/// Writes a log and its map.
fn files(name: &str, log: &Log, map: Option<&TagMap>) -> PathBuf {
    let path = scratch(&format!("{name}.log"));
    fs::write(&path, &log.0).unwrap();
    let beside = scratch(&format!("{name}.log.json"));
    map.iter().for_each(|map| map.save(&beside).unwrap());
    path
}

fn report(path: &Path, options: &[&str]) -> std::process::Output {
    hmtt(&[&["tag", "report", path.to_str().unwrap()], options].concat())
}

#[test]
fn a_log_is_printed_as_tables() {
    let path = files("tag-text", &log(HEADER, false), Some(&map(true)));
    check("tag-report", &transcript(&report(&path, &["--threads", "--graph"])));
}

#[test]
fn a_log_is_printed_as_json() {
    let path = files("tag-json", &log(HEADER, true), Some(&map(true)));
    let output = report(&path, &["--json"]);
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    let pretty = serde_json::to_string_pretty(&json).unwrap().into_bytes();
    check("tag-report-json", &transcript(&std::process::Output { stdout: pretty, ..output }));
}

#[test]
fn a_log_without_times_has_no_time_columns() {
    let header = Header { is_timed: false, ..HEADER };
    let path = files("tag-ordered", &log(header, false), Some(&map(false)));
    check("tag-report-ordered", &transcript(&report(&path, &["--graph"])));
    let output = report(&path, &["--perfetto", "x.json"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("no timeline"));
}

#[test]
fn without_a_map_functions_have_numbers_and_without_a_clock_times_are_ticks() {
    let header = Header { tsc_hz: 0, ..HEADER };
    let path = files("tag-mapless", &log(header, false), None);
    check("tag-report-mapless", &transcript(&report(&path, &[])));
}

#[test]
fn a_log_that_was_cut_or_lost_events_is_reported_as_incomplete() {
    let mut log = log(HEADER, false);
    let path = files("tag-cut", &log, Some(&map(true)));
    assert_eq!(report(&path, &[]).status.code(), Some(0));
    log.0.truncate(log.0.len() - 30);
    let path = files("tag-cut", &log, Some(&map(true)));
    let output = report(&path, &[]);
    let complaint = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(3), "{complaint}");
    let expected = format!("ends within the chunk at offset {}", log.0.len() - 15);
    assert!(complaint.contains(&expected), "{complaint}");
    assert!(complaint.contains("the log has no end"), "{complaint}");
}

#[test]
fn errors_state_their_position() {
    let mut damaged = log(HEADER, false);
    damaged.0[70] ^= 1;
    let path = files("tag-damaged", &damaged, Some(&map(true)));
    let output = report(&path, &[]);
    let complaint = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1));
    assert!(complaint.ends_with("tag-damaged.log: offset 68: a damaged chunk\n"), "{complaint}");
    let other = TagMap { id: *b"eventual", ..map(true) };
    let path = files("tag-other-map", &log(HEADER, false), Some(&other));
    let output = report(&path, &[]);
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("is the map of another log"));
    let output = hmtt(&["tag", "report", "/dev/null"]);
    assert_eq!(output.status.code(), Some(1));
    let complaint = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(complaint, "hmtt: /dev/null: offset 0: not a tag log\n");
}

#[test]
fn files_are_overwritten_only_with_force() {
    let path = files("tag-kept", &log(HEADER, false), Some(&map(true)));
    for option in ["--flame", "--folded", "--callgrind", "--perfetto"] {
        let kept = scratch(&format!("tag-kept{option}"));
        fs::write(&kept, "kept").unwrap();
        let words = [option, kept.to_str().unwrap()];
        let output = report(&path, &words);
        assert_eq!(output.status.code(), Some(1), "{option}");
        assert!(String::from_utf8_lossy(&output.stderr).contains("give -f"), "{option}");
        assert_eq!(fs::read(&kept).unwrap(), b"kept");
        assert!(report(&path, &[&words[..], &["-f"]].concat()).status.success(), "{option}");
        assert_ne!(fs::read(&kept).unwrap(), b"kept");
        let output = report(&path, &["-f", option, path.to_str().unwrap()]);
        assert!(String::from_utf8_lossy(&output.stderr).contains("is the log itself"), "{option}");
    }
}

/// Returns the file that an option writes.
fn written(name: &str, header: Header, option: &str) -> String {
    let path = files(name, &log(header, false), Some(&map(header.is_timed)));
    let file = scratch(&format!("{name}.out"));
    let output = report(&path, &[option, file.to_str().unwrap()]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    fs::read_to_string(file).unwrap()
}

#[test]
fn stacks_are_folded_and_drawn() {
    let folded = written("tag-folded", HEADER, "--folded");
    check("tag-report-folded", &folded);
    let calls = written("tag-folded-calls", Header { is_timed: false, ..HEADER }, "--folded");
    assert!(calls.contains("main;work;work 1\n"), "{calls}");
    let svg = written("tag-flame", HEADER, "--flame");
    assert!(svg.contains("<title>main (2,000,000,000 ns, 100.00%)</title>"), "{svg}");
    let svg = written("tag-flame-calls", Header { is_timed: false, ..HEADER }, "--flame");
    for text in ["<svg", "</svg>", "work (2 calls", "std::vector&lt;int", "twin (401300) (1 calls"]
    {
        assert!(svg.contains(text), "{text}: {svg}");
    }
}

#[test]
fn a_timeline_opens_and_closes_each_call() {
    let timeline: Value =
        serde_json::from_str(&written("tag-timeline", HEADER, "--perfetto")).unwrap();
    let events = timeline["traceEvents"].as_array().unwrap();
    let matching = |phase: &str| -> Vec<&Value> {
        events.iter().filter(|event| event["ph"] == phase).collect()
    };
    assert_eq!((matching("B").len(), matching("E").len(), matching("M").len()), (9, 9, 3));
    let (first, second) = (matching("B")[0], matching("B")[1]);
    assert_eq!((&first["name"], &first["tid"]), (&"main".into(), &4711.into()));
    let between = second["ts"].as_f64().unwrap() - first["ts"].as_f64().unwrap();
    assert!((between - 10.0).abs() < 0.01, "{between}");
}

#[test]
fn a_timeline_uses_the_monotonic_clock_and_has_a_limit() {
    let mut log = Log::new(&HEADER);
    let clocks = ClockPair { tsc: 2_000_000, monotonic_ns: 5_000_000, realtime_ns: 9 };
    log.chunk(0, Content::Clocks(clocks));
    let event = |tsc, is_exit| TagEvent { tsc, sp: 800, number: FunctionId(0), is_exit };
    log.events(
        1,
        &[event(1_999_000, false), event(2_000_001, true), event(2_000_003, false)],
        true,
    );
    let path = files("tag-clock", &log, Some(&map(true)));
    let file = scratch("tag-clock.out");
    let output = report(&path, &["--perfetto", file.to_str().unwrap(), "--limit", "1"]);
    let complaint = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(complaint.contains("not in the timeline, see --limit: 1 calls"), "{complaint}");
    let text = fs::read_to_string(file).unwrap();
    let begins = "{\"ph\":\"B\",\"pid\":4711,\"tid\":1,\"ts\":4999.500,\"name\":\"main\"},\n\
                  {\"ph\":\"E\",\"pid\":4711,\"tid\":1,\"ts\":5000.000},\n";
    assert!(text.contains(begins), "{text}");
    assert!(serde_json::from_str::<Value>(&text).is_ok(), "{text}");
}

#[test]
fn callgrind_annotate_reads_the_profile() {
    for (name, is_timed) in [("tag-callgrind", true), ("tag-callgrind-calls", false)] {
        let header = Header { is_timed, ..HEADER };
        let profile = written(name, header, "--callgrind");
        check(&format!("{name}-profile"), &profile.replace(env!("CARGO_PKG_VERSION"), "VERSION"));
        let path = scratch(&format!("{name}.profile"));
        fs::write(&path, profile).unwrap();
        let annotate = |options: &[&str]| {
            let output = Command::new("callgrind_annotate").args(options).arg(&path).output();
            let output = match output {
                Err(error) => {
                    skipped(format_args!("callgrind_annotate: {error}"));
                    return None;
                }
                Ok(output) => output,
            };
            let complaint = String::from_utf8_lossy(&output.stderr).into_owned();
            assert!(output.status.success() && complaint.is_empty(), "{complaint}");
            Some(String::from_utf8(output.stdout).unwrap().replace(',', ""))
        };
        let Some(own) = annotate(&["--threshold=100"]) else { return };
        let cost = |text: &str, function: &str| -> u64 {
            let line = text.lines().find(|line| line.contains(&format!("???:{function} [")));
            let line = line.unwrap_or_else(|| panic!("{function}: {text}"));
            line.split_whitespace().next().unwrap().parse().unwrap()
        };
        let inclusive = annotate(&["--inclusive=yes", "--threshold=100", "--tree=both"]).unwrap();
        if is_timed {
            // The costs equal those of the table.
            assert_eq!((cost(&own, "main"), cost(&own, "work")), (1_998_948_000, 54_000));
            assert_eq!(cost(&inclusive, "main"), 2_000_000_000);
            assert!(inclusive.contains("(2x)"), "{inclusive}");
        } else {
            assert_eq!((cost(&own, "main"), cost(&own, "work")), (1, 3));
        }
    }
}
