//! Tests the commands that analyse accesses: on recordings with independent truth, on all kinds of
//! files, with losses.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use hmtt_test_support::names::assert_json_documented;
use hmtt_test_support::programs::transcript;
use serde_json::Value;

use crate::card::Card;
use crate::command_line::check;
use crate::{LargeFile, capture, capture_file, hmtt, scratch, skipped};

const COMMANDS: [&[&str]; 10] = [
    &["stats"],
    &["stats", "--slice", "10us", "--slice-accesses", "1000"],
    &["hot", "--top", "3"],
    &["reuse"],
    &["reuse", "--pages", "--sample", "0.5"],
    &["mrc", "--cache", "2K,4,64,lru"],
    &["streams"],
    &["rows"],
    &["phases", "--slice", "1ms", "--working-set"],
    &["check"],
];

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// The part of a command's JSON object with its result.
fn result(words: &[&str], file: &Path) -> Value {
    let output = hmtt(&[words, &["--json", text(file)]].concat());
    let object: Value = serde_json::from_slice(&output.stdout).unwrap();
    object[words[0]].clone()
}

/// Clock, direction and address of each access of a recording; `None` if there is no gzip.
fn truth(name: &str) -> Option<Vec<(u64, bool, u64)>> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/vectors").join(name);
    let unpacked = Command::new("gzip").arg("-dc").arg(file).stderr(Stdio::inherit()).output();
    let Ok(output) = unpacked else {
        skipped("gzip");
        return None;
    };
    let text = String::from_utf8(output.stdout).unwrap();
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let access = |line: &str| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let address = u64::from_str_radix(fields[2], 16).unwrap();
        (fields[0].parse().unwrap(), fields[1] == "W", address)
    };
    Some(lines.map(access).collect())
}

/// Writes accesses as a table.
fn table(name: &str, accesses: &[(u64, bool, u64)]) -> PathBuf {
    let mut rows = String::from("clock,direction,address\n");
    for (clock, is_write, address) in accesses {
        let direction = if *is_write { 'W' } else { 'R' };
        rows += &format!("{clock},{direction},{address:x}\n");
    }
    let file = scratch(name);
    std::fs::write(&file, rows).unwrap();
    file
}

fn counts(units: impl Iterator<Item = u64>) -> BTreeMap<u64, u64> {
    let mut counts = BTreeMap::new();
    units.for_each(|unit| *counts.entry(unit).or_default() += 1);
    counts
}

/// The distance of each access, by a list of lines.
fn distances(lines: &[u64]) -> Vec<Option<usize>> {
    let mut list: Vec<u64> = Vec::new();
    let mut distances = Vec::new();
    for line in lines {
        let position = list.iter().rposition(|one| one == line);
        distances.push(position.map(|at| list.len() - 1 - at));
        position.map(|at| list.remove(at));
        list.push(*line);
    }
    distances
}

#[test]
fn results_of_recordings_are_those_of_their_truth() {
    for name in ["v01_ddr1_tiny_open", "v08_ddr1_litedram", "v10_ddr3_open", "v18_ddr4_open"] {
        let Some(accesses) = truth(&format!("{name}.truth.gz")) else { return };
        let file = table(&format!("accesses-{name}.csv"), &accesses);
        let stats = result(&["stats"], &file);
        let writes = accesses.iter().filter(|access| access.1).count();
        assert_eq!(
            (&stats["accesses"], &stats["writes"]),
            (&accesses.len().into(), &writes.into())
        );
        let distinct =
            |log2| accesses.iter().map(|access| access.2 >> log2).collect::<BTreeSet<u64>>().len();
        assert_eq!((&stats["pages"], &stats["lines"]), (&distinct(12).into(), &distinct(6).into()));
        let clocks = accesses[accesses.len() - 1].0 - accesses[0].0;
        assert_eq!(stats["duration_clocks"], clocks);

        let hot = result(&["hot", "--top", "1"], &file);
        for (log2, list) in [(12, "hot_pages"), (6, "hot_lines")] {
            let counts = counts(accesses.iter().map(|access| access.2 >> log2));
            let most = counts.iter().rev().max_by_key(|(_, count)| **count).unwrap();
            assert_eq!(hot[list][0]["touches"], *most.1);
            assert_eq!(hot[list][0]["address"], format!("{:#x}", most.0 << log2), "{name} {list}");
        }

        let lines: Vec<u64> = accesses.iter().map(|access| access.2 >> 6).collect();
        let distances = distances(&lines);
        let reuse = result(&["reuse"], &file);
        let first = distances.iter().filter(|distance| distance.is_none()).count();
        assert_eq!(reuse["first_touches"], first as f64);
        for bucket in reuse["distances"].as_array().unwrap() {
            let [least, most] = ["distance_at_least", "distance_at_most"]
                .map(|name| bucket[name].as_u64().unwrap() as usize);
            let inside =
                distances.iter().flatten().filter(|distance| (least..=most).contains(distance));
            assert_eq!(bucket["touches"], inside.count() as f64, "{name}: {bucket}");
        }
        let curve = result(&["mrc"], &file);
        for point in curve["points"].as_array().unwrap() {
            let lines = point["lines"].as_u64().unwrap() as usize;
            let hits = distances.iter().flatten().filter(|distance| **distance < lines).count();
            let expected = 1.0 - hits as f64 / accesses.len() as f64;
            assert!((point["miss_ratio"].as_f64().unwrap() - expected).abs() < 1e-9, "{point}");
        }
        let sets = result(&["phases"], &file);
        let sum = |of: &Value| of["accesses"].as_u64().unwrap();
        let phases = sets[0]["phases"].as_array().unwrap();
        assert_eq!(phases.iter().map(sum).sum::<u64>(), accesses.len() as u64);
        let kinds = result(&["check"], &file)["kinds"].clone();
        assert!(kinds.as_array().unwrap().iter().all(|kind| kind["violations"] == 0), "{kinds}");
    }
}

#[test]
fn clocks_that_go_back_are_reported_by_every_analysis() {
    let mut accesses: Vec<(u64, bool, u64)> =
        (0..10_000).map(|at| (at * 7919 % 10_007, at % 3 == 0, at % 50 * 4096)).collect();
    let file = table("accesses-unsorted.csv", &accesses);
    let backward = accesses.windows(2).filter(|pair| pair[0].0 > pair[1].0).count();
    let note = format!("the clock goes back {backward} times");
    for words in COMMANDS {
        let output = hmtt(&[words, &[text(&file)]].concat());
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(text.contains(&note), "{words:?}: {text}");
    }
    // The time is that from the lowest clock to the highest one.
    accesses.sort();
    let sorted = table("accesses-sorted.csv", &accesses);
    let [unsorted, sorted] = [&file, &sorted].map(|file| result(&["stats"], file));
    assert_eq!(unsorted["duration_clocks"], sorted["duration_clocks"]);
    let output = hmtt(&["stats", text(&scratch("accesses-sorted.csv"))]);
    assert!(!String::from_utf8(output.stdout).unwrap().contains("goes back"));
}

#[test]
fn phases_are_those_of_the_report() {
    // 40 bursts, each of its own pages, in 1 ms.
    let accesses: Vec<(u64, bool, u64)> = (0..40_000)
        .map(|at| (at * 3, false, (at / 1000 * 64 + at % (1 + at / 1000)) << 12))
        .collect();
    let file = table("accesses-phases.csv", &accesses);
    let phases = result(&["phases"], &file);
    let page = scratch("accesses-phases.html");
    let report = hmtt(&["report", "-f", "--json", "-o", text(&page), text(&file)]);
    let object: Value = serde_json::from_slice(&report.stdout).unwrap();
    assert!(phases[0]["phases"].as_array().unwrap().len() > 1, "{phases}");
    assert_eq!(phases, object["report"]["phases"], "{object}");
}

/// A capture of three frames with data, of which one may be missing.
fn with_loss(name: &str, is_lossy: bool) -> PathBuf {
    let mut frames = Card::new().session(4, 300).0;
    if is_lossy {
        frames.remove(3);
    }
    capture_file(name, &frames)
}

#[test]
fn results_are_readable_and_their_names_are_documented() {
    let file = with_loss("accesses-text.pcapng", true);
    let mut shown = String::new();
    for words in COMMANDS {
        let output = hmtt(&[words, &[text(&file)]].concat());
        shown += &format!("$ hmtt {}\n{}\n", words.join(" "), transcript(&output));
        assert_json_documented(&words.join(" "), &{
            let output = hmtt(&[words, &["--json", text(&file)]].concat());
            assert_eq!(output.status.code(), Some(3));
            serde_json::from_slice(&output.stdout).unwrap()
        });
        let csv = hmtt(&[words, &["--csv", text(&file)]].concat());
        let csv = String::from_utf8(csv.stdout).unwrap();
        let columns = |line: &str| line.split(',').count();
        let heading = csv.lines().next().unwrap();
        hmtt_test_support::names::assert_documented("CSV", heading.split(','));
        // Nothing is violated, so that no place is listed.
        assert_eq!(csv.lines().count() > 1, words != ["check"], "{words:?}");
        assert!(csv.lines().all(|line| columns(line) == columns(heading)), "{csv}");
    }
    assert!(shown.lines().all(|line| line.chars().count() <= 100), "{shown}");
    check("accesses", &shown);
}

#[test]
fn a_capture_and_its_tables_have_the_same_results() {
    let file = with_loss("accesses-same.pcapng", true);
    for extension in ["csv", "jsonl", "parquet"] {
        let table = scratch(&format!("accesses-same.{extension}"));
        let converted = hmtt(&["convert", "-f", text(&file), text(&table)]);
        assert_eq!(converted.status.code(), Some(3));
        for words in [&["hot"][..], &["reuse"], &["mrc"], &["streams"]] {
            assert_eq!(result(words, &file), result(words, &table), "{words:?} {extension}");
        }
        let [file_stats, table_stats] = [&file, &table].map(|file| result(&["stats"], file));
        for name in ["accesses", "writes", "pages", "lines", "duration_clocks", "gap_count"] {
            assert_eq!(file_stats[name], table_stats[name], "{name} {extension}");
        }
        assert_eq!(hmtt(&["stats", text(&table)]).status.code(), Some(3));
    }
}

#[cfg(feature = "tag")]
#[test]
fn a_trace_of_a_program_and_its_tables_have_the_same_results() {
    let file = scratch("accesses-program.acc");
    let words = ["trace", "run", "--overwrite", "-o", text(&file), "--", "sort", "--version"];
    assert_eq!(hmtt(&words).status.code(), Some(0));
    for extension in ["csv", "jsonl", "parquet"] {
        let table = LargeFile::new(&format!("accesses-program.{extension}"));
        assert!(hmtt(&["convert", "-f", text(&file), text(&table)]).status.success());
        for words in COMMANDS {
            assert_eq!(result(words, &file), result(words, &table), "{words:?} {extension}");
        }
        for by in ["function", "thread", "kernel"] {
            let split = |file: &Path| {
                let output = hmtt(&["reuse", "--by", by, "--json", text(file)]);
                let json: Value = serde_json::from_slice(&output.stdout).unwrap();
                (json["split"].clone(), json["notes"].as_array().unwrap().clone())
            };
            let ((expected, mut notes), table_split) = (split(&file), split(&table));
            notes.push("a table does not say which accesses its trace lacks".into());
            assert_eq!(table_split, (expected, notes), "{by} {extension}");
        }
        let report = |file: &Path| {
            let output = hmtt(&["report", "--json", text(file)]);
            let json: Value = serde_json::from_slice(&output.stdout).unwrap();
            (json["report"].clone(), json["sources"][0]["absent"].clone())
        };
        assert_eq!(report(&file), report(&table), "{extension}");
    }
}

#[test]
fn several_files_are_several_memories() {
    let lossless = with_loss("accesses-one.pcapng", false);
    let lossy = with_loss("accesses-other.pcapng", true);
    let alone = [&lossless, &lossy].map(|file| result(&["stats"], file));
    let output = hmtt(&["stats", "--json", text(&lossless), text(&lossy)]);
    assert_eq!(output.status.code(), Some(3));
    let is_of_lossy = |what: &Value| what.as_str().unwrap().contains("accesses-other.pcapng: ");
    let both: Value = serde_json::from_slice(&output.stdout).unwrap();
    for name in ["accesses", "reads", "pages", "lines", "access_bytes"] {
        let sum: u64 = alone.iter().map(|of| of[name].as_u64().unwrap()).sum();
        assert_eq!(both["stats"][name], sum, "{name}");
    }
    assert_eq!(both["sources"].as_array().unwrap().len(), 2);
    let missing = both["missing"].as_array().unwrap().iter();
    assert!(missing.clone().count() > 0 && missing.into_iter().all(is_of_lossy), "{both}");
    assert_eq!(hmtt(&["stats", text(&lossless)]).status.code(), Some(0));
}

#[test]
fn standard_input_is_a_capture() {
    let bytes = capture(&Card::new().session(4, 300).0);
    let file = scratch("accesses-stdin.pcapng");
    std::fs::write(&file, bytes).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_hmtt"));
    command.args(["stats", "--csv", "-"]).stdin(std::fs::File::open(&file).unwrap());
    let piped = command.output().unwrap();
    assert_eq!(piped.stdout, hmtt(&["stats", "--csv", text(&file)]).stdout);
    assert_eq!(piped.status.code(), Some(0));
}

#[test]
fn files_without_accesses_are_errors_with_a_reason() {
    let tags = scratch("accesses.tags");
    std::fs::write(&tags, b"hmtt-tag and more").unwrap();
    let other = scratch("accesses-other-kind");
    std::fs::write(&other, b"something").unwrap();
    let missing = scratch("accesses-missing.pcapng");
    for (file, words) in [
        (&tags, "is a log of tags, which has calls and no accesses"),
        (&other, "is neither a capture, nor a trace of a program, nor a table"),
        (&missing, "cannot be read"),
    ] {
        let output = hmtt(&["stats", text(file)]);
        let complaint = String::from_utf8(output.stderr).unwrap();
        assert!(complaint.contains(words), "{complaint}");
        assert_eq!((output.status.code(), output.stdout.len()), (Some(1), 0));
    }
}

#[test]
fn what_precedes_an_error_is_analysed() {
    let accesses: Vec<_> = (0..10).map(|at| (at, false, at * 64)).collect();
    let file = table("accesses-damaged.csv", &accesses);
    let rows = std::fs::read_to_string(&file).unwrap() + "10,X,0\n";
    std::fs::write(&file, rows).unwrap();
    let output = hmtt(&["stats", "--json", text(&file)]);
    assert_eq!(output.status.code(), Some(1));
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&json["complete"], &json["stats"]["accesses"]), (&false.into(), &10.into()));
    assert!(String::from_utf8(output.stderr).unwrap().contains("line 12"));
}

#[test]
fn violations_are_listed_and_end_with_an_error() {
    let file = table("accesses-back.csv", &[(5, false, 0), (4, true, 64), (9, false, 0)]);
    let output = hmtt(&["check", text(&file)]);
    assert_eq!(output.status.code(), Some(1));
    let shown = String::from_utf8(output.stdout).unwrap();
    assert!(shown.contains("clocks ascend          NO: 1 violation\n"), "{shown}");
    let place = result(&["check"], &file)["places"][0].clone();
    assert_eq!((&place["kind"], &place["access"]), (&"clock_back".into(), &2.into()));
}

#[cfg(feature = "tag")]
#[test]
fn sums_of_a_program_are_those_of_hmtt_info() {
    let file = scratch("accesses-true.acc");
    let traced = hmtt(&["trace", "run", "--overwrite", "-o", text(&file), "--", "true"]);
    assert_eq!(traced.status.code(), Some(0), "{traced:?}");
    let stats = result(&["stats"], &file);
    let info = hmtt(&["info", "--json", text(&file)]);
    let info: Value = serde_json::from_slice(&info.stdout).unwrap();
    let number = |of: &Value, name: &str| of[name].as_u64().unwrap();
    assert!(number(&stats, "accesses") > 1000, "{stats}");
    for name in ["pages", "lines"] {
        assert_eq!(stats[name], info[name], "{name}");
    }
    let known = number(&info, "accesses") - number(&info, "unknown_addresses");
    assert_eq!(number(&stats, "accesses"), known);
    assert_eq!(stats["thread_count"], 1);
    let streams = result(&["streams"], &file);
    assert_eq!((&streams["by_instruction"], &streams["accesses"]), (&true.into(), &known.into()));
}
