//! Tests `--by` of the commands that analyse accesses: groups of captures and of programs, and
//! files with profiles.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use hmtt_format::Direction;
use hmtt_format::record::{TagSource, WordRecord};
use hmtt_test_support::names::{assert_documented, assert_json_documented};
use hmtt_test_support::programs::transcript;
use serde_json::Value;

use crate::card::Card;
use crate::command_line::check;
use crate::{capture_file, hmtt, scratch, skipped};

const COMMANDS: [&[&str]; 6] = [
    &["stats"],
    &["hot", "--top", "1"],
    &["reuse"],
    &["mrc", "--cache", "2K,4,64,lru"],
    &["streams"],
    &["phases"],
];

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// Accesses of each group of marks.
pub type Sides = [(&'static str, u64); 3];

/// A capture: accesses of the user, of the kernel, between two marks, and after a gap. Returns the
/// accesses of each side of the marks `kernel_enter` and `kernel_exit`, and of free marks 1 and 2.
pub fn marked(name: &str) -> (PathBuf, Sides, Sides) {
    let mut card = Card::new();
    let mark = |register| [WordRecord::Tag { delta: 3, source: TagSource::Mark, value: register }];
    let mut frames = vec![card.info(), card.data(100).0];
    frames.push(card.records(&mark(0x60), 0, 3));
    frames.push(card.data(70).0);
    frames.push(card.records(&mark(0x101), 0, 3));
    frames.push(card.data(50).0);
    frames.push(card.records(&mark(0x61), 0, 3));
    frames.push(card.data(30).0);
    frames.push(card.records(&mark(0x102), 0, 3));
    frames.push(card.data(7).0);
    card.data(5);
    frames.push(card.data(11).0);
    frames.push(card.end());
    let kernel = [("(not known)", 100 + 11), ("kernel", 120), ("user", 37)];
    let marks = [("inside", 80), ("outside", 177), ("(not known)", 11)];
    (capture_file(name, &frames), kernel, marks)
}

fn json(words: &[&str], file: &Path) -> Value {
    let output = hmtt(&[words, &["--json", text(file)]].concat());
    serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{output:?}"))
}

/// Accesses of each group.
fn accesses(split: &Value) -> BTreeMap<String, u64> {
    let groups = split["groups"].as_array().unwrap();
    let entry = |group: &Value| {
        let name = group["group"].as_str().unwrap().to_owned();
        (name, group["stats"]["accesses"].as_u64().unwrap())
    };
    groups.iter().map(entry).collect()
}

#[test]
fn marks_of_a_capture_divide_every_analysis() {
    let (file, kernel, marks) = marked("split-marks.pcapng");
    for (by, expected) in [("kernel", kernel), ("mark=1,2", marks)] {
        let expected: BTreeMap<String, u64> =
            expected.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect();
        for words in COMMANDS {
            let with = [words, &["--by", by]].concat();
            let document = json(&with, &file);
            assert_eq!(accesses(&document["split"]), expected, "{with:?}");
            assert_json_documented(&with.join(" "), &document);
            // The whole is the same as without groups.
            assert_eq!(document[words[0]], json(words, &file)[words[0]], "{with:?}");
            let csv = hmtt(&[&with[..], &["--csv", text(&file)]].concat());
            assert_eq!(csv.status.code(), Some(3));
            let csv = String::from_utf8(csv.stdout).unwrap();
            let heading: Vec<&str> = csv.lines().next().unwrap().split(',').collect();
            assert_documented("CSV", heading.iter().copied());
            assert!(csv.lines().skip(1).all(|line| line.split(',').count() == heading.len()));
            let names: std::collections::BTreeSet<_> = csv
                .lines()
                .skip(1)
                .map(|line| line.split(',').next().unwrap().to_owned())
                .collect();
            assert!(names.iter().all(|name| expected.contains_key(name)), "{names:?}");
        }
    }
}

#[test]
fn groups_are_readable() {
    let (file, ..) = marked("split-text.pcapng");
    let mut shown = String::new();
    for words in COMMANDS {
        let output = hmtt(&[words, &["--by", "kernel", text(&file)]].concat());
        let lines = transcript(&output);
        let groups = lines.find("split by").unwrap();
        shown += &format!("$ hmtt {} --by kernel\n{}\n", words.join(" "), &lines[groups..]);
    }
    for by in ["mark=3,4", "function", "thread"] {
        let lines = transcript(&hmtt(&["stats", "--by", by, text(&file)]));
        let groups = lines.find("split by").unwrap();
        shown += &format!("$ hmtt stats --by {by}\n{}\n", &lines[groups..]);
    }
    check("accesses-split", &shown);
}

#[test]
fn options_that_do_not_fit_are_errors() {
    let (file, ..) = marked("split-errors.pcapng");
    let folded = scratch("split-errors.folded");
    for words in [
        &["--by", "mark"][..],
        &["--by", "mark=1"],
        &["--by", "process"],
        &["--inclusive"],
        &["--by", "thread", "--inclusive"],
        &["--by", "thread", "--folded", text(&folded)],
        &["--by", "function", "--inclusive", "--folded", text(&folded)],
    ] {
        let output = hmtt(&[&["stats"], words, &[text(&file)]].concat());
        assert_eq!(output.status.code(), Some(2), "{words:?}: {output:?}");
        assert!(output.stderr.starts_with(b"error: "), "{words:?}: {output:?}");
    }
}

#[test]
fn files_of_profiles_stay_as_they_are_after_an_error() {
    let (file, ..) = marked("split-kept.pcapng");
    let [kept, absent, missing, damaged] = ["kept", "absent", "missing.pcapng", "damaged.map"]
        .map(|end| scratch(&format!("split-{end}")));
    std::fs::write(&damaged, "no map of pages").unwrap();
    std::fs::write(&kept, "old").unwrap();
    let _ = std::fs::remove_file(&absent);
    let input = std::fs::read(&file).unwrap();
    let outputs = ["--folded", text(&kept), "--callgrind", text(&absent)];
    for (words, status, error) in [
        (&[text(&missing)][..], 1, "split-missing.pcapng"),
        (&["--pagemap", text(&damaged), text(&file)], 1, "split-damaged.map"),
        (&["--inclusive", text(&file)], 2, "functions themselves"),
    ] {
        let arguments = [&["stats", "--by", "function", "-f"], &outputs[..], words].concat();
        let output = hmtt(&arguments);
        assert_eq!(output.status.code(), Some(status), "{output:?}");
        assert!(String::from_utf8_lossy(&output.stderr).contains(error), "{output:?}");
        assert_eq!((std::fs::read(&kept).unwrap(), absent.exists()), (b"old".to_vec(), false));
    }
    for (words, error) in [
        (&["--folded", text(&file)][..], "is also an input"),
        (&["--callgrind", text(&damaged), "--pagemap", text(&damaged)], "is also an input"),
        (&["--folded", text(&absent), "--callgrind", text(&absent)], "two outputs"),
        (&["--folded", text(&kept), "--callgrind", text(&kept)], "two outputs"),
    ] {
        let output = hmtt(&[&["stats", "--by", "function", "-f"], words, &[text(&file)]].concat());
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        assert!(String::from_utf8_lossy(&output.stderr).contains(error), "{words:?}: {output:?}");
        assert_eq!((std::fs::read(&kept).unwrap(), absent.exists()), (b"old".to_vec(), false));
    }
    assert_eq!(std::fs::read(&file).unwrap(), input);
    assert_eq!(std::fs::read(&damaged).unwrap(), b"no map of pages");
}

/// Reads and writes of each function, and accesses of each thread, of a table that `hmtt convert`
/// has written.
#[cfg(feature = "tag")]
type Counts = (BTreeMap<(String, String), [u64; 2]>, BTreeMap<String, u64>);

#[cfg(feature = "tag")]
fn count_rows(table: &Path) -> Counts {
    let (mut functions, mut threads) = Counts::default();
    for row in std::fs::read_to_string(table).unwrap().lines() {
        let row: Value = serde_json::from_str(row).unwrap();
        if row["address"].is_null() {
            continue;
        }
        let count = row["elements"].as_u64().unwrap();
        let name = |key: &str| row[key].as_str().map(str::to_owned);
        let object = name("object").unwrap_or_default();
        let usual = if object.is_empty() { "(not known)" } else { "(no function)" };
        let key = (name("function").unwrap_or_else(|| usual.to_owned()), object);
        let is_write = row["direction"] == "W";
        functions.entry(key).or_default()[usize::from(is_write)] += count;
        *threads.entry(row["thread"].to_string()).or_default() += count;
    }
    (functions, threads)
}

#[cfg(feature = "tag")]
#[test]
fn functions_and_threads_of_a_program_are_those_of_its_table() {
    let file = scratch("split-program.acc");
    let traced = hmtt(&["trace", "run", "--overwrite", "-o", text(&file), "--", "true"]);
    assert_eq!(traced.status.code(), Some(0), "{traced:?}");
    let table = scratch("split-program.jsonl");
    assert!(hmtt(&["convert", "-f", text(&file), text(&table)]).status.success());
    let (functions, threads) = count_rows(&table);
    assert!(functions.len() > 10);
    let document = json(&["stats", "--by", "function"], &file);
    let mut groups = BTreeMap::new();
    for group in document["split"]["groups"].as_array().unwrap() {
        let name = |key: &str| group[key].as_str().unwrap_or_default().to_owned();
        let counts = ["reads", "writes"].map(|key| group["stats"][key].as_u64().unwrap());
        groups.insert((name("group"), name("object")), counts);
    }
    assert_eq!(groups, functions);
    let document = json(&["hot", "--by", "thread"], &file);
    assert_eq!(accesses(&document["split"]), threads);
    let document = json(&["stats", "--by", "kernel"], &file);
    assert_eq!(
        accesses(&document["split"]),
        BTreeMap::from([("user".to_owned(), threads.values().sum())])
    );
    profiles(&file, &functions);
    let sums = counters(&file, "function");
    let expected = functions.iter().map(|((name, object), counts)| {
        let file = object.rsplit('/').next().unwrap();
        let name = if file.is_empty() { name.clone() } else { format!("{name} [{file}]") };
        (name, counts.iter().sum())
    });
    let mut by_name: BTreeMap<String, u64> = BTreeMap::new();
    expected.for_each(|(name, count): (String, u64)| *by_name.entry(name).or_default() += count);
    // There may be more functions than tracks; the others are in one.
    let others = sums.get("(others)").copied().unwrap_or(0);
    assert_eq!(sums.values().sum::<u64>(), by_name.values().sum::<u64>());
    assert_eq!(others > 0, by_name.len() > 256);
    for (name, count) in sums.iter().filter(|(name, _)| *name != "(others)") {
        assert_eq!(by_name.get(name), Some(count), "{name}");
    }
}

/// Accesses of each track of a timeline: the sum over its slices, of which those without a change
/// are not written.
fn counters(file: &Path, by: &str) -> BTreeMap<String, u64> {
    let timeline = file.with_extension(format!("{}.json", by.replace(['=', ','], "-")));
    let words = ["stats", "--by", by, "-f", "--perfetto", text(&timeline), text(file)];
    let output = hmtt(&words);
    assert!(matches!(output.status.code(), Some(0 | 3)), "{output:?}");
    let written = std::fs::read_to_string(&timeline).unwrap();
    // Times are exact, as thousandths of a microsecond.
    let ns = |value: &Value| (value.as_f64().unwrap() * 1000.0).round() as u64;
    let trace: Value = serde_json::from_str(&written).unwrap();
    let slices = &trace["otherData"]["slices"][0];
    let number = |name: &str| slices[name].as_u64().unwrap();
    let length = number("slice_length") * number("unit_ps") / 1000;
    // A clock of the cards here is 10 ns long; an access takes the place of 1 ns.
    let expected = if slices["slice_unit"] == "clocks" { (10_000, true) } else { (1000, false) };
    assert_eq!((number("unit_ps"), &slices["is_time_known"]), (expected.0, &expected.1.into()));
    let (mut sums, mut last) = (BTreeMap::new(), BTreeMap::new());
    for event in trace["traceEvents"].as_array().unwrap() {
        if event["ph"] != "C" {
            assert_eq!((&event["ph"], &event["name"]), (&"M".into(), &"process_name".into()));
            continue;
        }
        let key = (event["pid"].as_u64().unwrap(), event["name"].as_str().unwrap().to_owned());
        let now = (ns(&event["ts"]), event["args"]["accesses"].as_u64().unwrap());
        if let Some((since, value)) = last.insert(key.clone(), now) {
            assert!(since < now.0 && value != now.1, "{event}");
            *sums.entry(key.1).or_default() += value * ((now.0 - since) / length);
        }
    }
    assert!(last.values().all(|(_, value)| *value == 0), "{last:?}");
    sums
}

#[test]
fn accesses_over_time_add_up_to_those_of_the_groups() {
    let (file, kernel, marks) = marked("split-timeline.pcapng");
    for (by, expected) in [("kernel", kernel), ("mark=1,2", marks)] {
        let expected: BTreeMap<String, u64> =
            expected.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect();
        assert_eq!(counters(&file, by), expected, "{by}");
    }
    let timeline = scratch("split-timeline-alone.json");
    let output = hmtt(&["stats", "--perfetto", text(&timeline), text(&file)]);
    assert_eq!(output.status.code(), Some(2), "{output:?}");
}

/// Compares the files for programs that draw with the accesses of each function.
#[cfg(feature = "tag")]
fn profiles(file: &Path, functions: &BTreeMap<(String, String), [u64; 2]>) {
    let [folded, callgrind, flame] =
        ["folded", "callgrind", "svg"].map(|end| scratch(&format!("split-profile.{end}")));
    let files =
        ["--folded", text(&folded), "--callgrind", text(&callgrind), "--flame", text(&flame)];
    let words = [&["stats", "--by", "function", "-f"], &files[..], &[text(file)]].concat();
    let output = hmtt(&words);
    assert!(output.status.success(), "{output:?}");
    let access_count: u64 = functions.values().flatten().sum();
    let lines = std::fs::read_to_string(&folded).unwrap();
    let counts = lines.lines().map(|line| line.rsplit(' ').next().unwrap().parse::<u64>().unwrap());
    assert_eq!((counts.sum::<u64>(), lines.lines().count()), (access_count, functions.len()));
    assert!(std::fs::read_to_string(&flame).unwrap().contains("accesses of functions"));
    let mut command = Command::new("callgrind_annotate");
    let Ok(output) = command.args(["--threshold=100"]).arg(&callgrind).output() else {
        return skipped("callgrind_annotate");
    };
    let shown = String::from_utf8(output.stdout).unwrap();
    let number = |word: &str| word.replace(',', "").parse::<u64>().unwrap();
    let total = shown.lines().find(|line| line.contains("PROGRAM TOTALS")).unwrap();
    let columns: Vec<&str> = total.split_whitespace().collect();
    let sum = |at: usize| functions.values().map(|counts| counts[at]).sum::<u64>();
    assert_eq!([number(columns[0]), number(columns[2])], [sum(0), sum(1)], "{shown}");
    let most = functions.iter().max_by_key(|(_, counts)| counts[0]).unwrap();
    let line = shown.lines().find(|line| line.contains(&*most.0.0)).unwrap();
    assert_eq!(number(line.split_whitespace().next().unwrap()), most.1[0], "{shown}");
}

/// A window's tags of functions 1 and 2, between which a card sees accesses: calls 1, 1 -> 2, and
/// recursion of 2.
#[cfg(feature = "tag")]
#[test]
fn tags_of_a_capture_divide_accesses_among_functions() {
    let mut card = Card::new();
    card.tag_window = Some(0x1000_0000);
    let tag =
        |value| [WordRecord::Tag { delta: 3, source: TagSource::Window(Direction::Write), value }];
    let mut frames = vec![card.info(), card.data(10).0];
    // Event numbers, 2 for each function, and accesses after them.
    for (event, count) in [(2, 20), (4, 30), (4, 1), (5, 2), (5, 40), (3, 5), (4, 3), (5, 4)] {
        frames.push(card.records(&tag(event * 64), 1, 3));
        frames.push(card.data(count).0);
    }
    frames.push(card.end());
    let file = capture_file("split-tags.pcapng", &frames);
    let function = |number: u32, name: &str| {
        serde_json::json!({
            "number": number, "name": name, "symbols": [], "object": "/bin/o", "code_address": "10",
            "size_bytes": 1, "tagged_exits": "all", "removed": null,
        })
    };
    let map = serde_json::json!({
        "version": 2, "id": "0000000000000000", "program": "p", "pid": 1, "sink": "card",
        "timed": true, "tsc_hz": 1, "blocks": [], "refused": [],
        "window": { "address": "0", "stride_bytes": 64, "bytes": 65536 },
        "functions": [function(1, "outer"), function(2, "inner")],
    });
    let names = scratch("split-tags.json");
    std::fs::write(&names, map.to_string()).unwrap();
    let by = ["reuse", "--by", "function", "--map", text(&names)];
    let counts = |pairs: &[(&str, u64)]| -> BTreeMap<String, u64> {
        pairs.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect()
    };
    let document = json(&by, &file);
    let own = [("(no function)", 10 + 5 + 4), ("outer", 20 + 40), ("inner", 30 + 1 + 2 + 3)];
    assert_eq!(accesses(&document["split"]), counts(&own), "{document}");
    let document = json(&[&by[..], &["--inclusive"]].concat(), &file);
    let inclusive = [("(no function)", 19), ("outer", 20 + 33 + 40), ("inner", 36)];
    assert_eq!(accesses(&document["split"]), counts(&inclusive), "{document}");
    // A table has the tags, too.
    let table = scratch("split-tags.csv");
    assert!(hmtt(&["convert", "-f", text(&file), text(&table)]).status.success());
    assert_eq!(accesses(&json(&by, &table)["split"]), counts(&own));
}

/// The card's window has addresses for 512 functions. Tags of others are no tags in the trace.
#[cfg(feature = "tag")]
#[test]
fn functions_outside_of_the_cards_window_are_no_complete_report() {
    let mut card = Card { tag_window: Some(0x38_0000_0000), ..Card::new() };
    let frames = [card.info(), card.data(20).0, card.end()];
    let file = capture_file("few-tags.pcapng", &frames);
    let names = scratch("few-tags.json");
    let report = |number: u32| {
        let function = serde_json::json!({
            "number": number, "name": "last", "symbols": [], "object": "/bin/o", "code_address": "10",
            "size_bytes": 1, "tagged_exits": "all", "removed": null,
        });
        let map = serde_json::json!({
            "version": 2, "id": "0000000000000000", "program": "p", "pid": 1, "sink": "card",
            "timed": true, "tsc_hz": 1, "blocks": [], "refused": [], "functions": [function],
            "window": { "address": "3800000000", "stride_bytes": 64, "bytes": 1 << 20 },
        });
        std::fs::write(&names, map.to_string()).unwrap();
        let output = hmtt(&["tag", "report", text(&file), "--map", text(&names)]);
        let by = ["--by", "function", "--map", text(&names)];
        for words in [&["stats"][..], &["hot"], &["report", "--json"]] {
            let other = hmtt(&[words, &[text(&file)], &by].concat());
            assert_eq!(other.status.code(), output.status.code(), "{words:?}");
            let shown = String::from_utf8_lossy(&other.stdout).into_owned();
            let is_missing = shown.contains("outside of the card's window");
            assert_eq!(is_missing, other.status.code() == Some(3), "{words:?}: {shown}");
        }
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    assert_eq!(report(511).0, Some(0));
    let (status, warning) = report(512);
    let sizes = "none of their calls: 1 (the window has 65536 bytes, and 65664 are needed)";
    assert!(status == Some(3) && warning.contains(sizes), "{status:?} {warning}");
    // A card whose window was off has seen none.
    let mut card = Card::new();
    let frames = [card.info(), card.data(20).0, card.end()];
    let off = capture_file("no-tags.pcapng", &frames);
    let words = ["tag", "report", text(&off), "--map", text(&names)];
    let output = hmtt(&words);
    let warning = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(3) && warning.contains("window was off"), "{warning}");
}
