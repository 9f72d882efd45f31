//! Tests analyses of captures in page mode, frequency mode and analysis mode, and of captures that
//! mix modes.

use std::path::{Path, PathBuf};
use std::process::Output;

use hmtt_format::config::{DEFAULT_SLICE_CODE, Mode};
use hmtt_format::frame::UNIT_NONE;
use hmtt_format::record::{PageRun, WordRecord};
use hmtt_test_support::names::assert_json_documented;
use serde_json::Value;

use crate::card::Card;
use crate::{capture_file, hmtt, scratch};

/// Clocks of a slice: 1 ms of a clock of 10 ns.
const SLICE: u64 = 100_000;
/// Bytes of a burst of the test card.
const BURST_BYTES: u64 = 32;

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// Accesses of a frame of runs: 10 reads and 5 writes of page 7, then 4 reads of each of 3 pages.
const RUN_ACCESSES: u64 = 15 + 3 * 4;

/// A frame of page runs, 100 clocks apart.
fn page_frame(card: &mut Card) -> Vec<u8> {
    card.unit_log2 = 12;
    let run = |number, reads, writes| WordRecord::Page {
        delta: 100,
        run: PageRun { number, reads, writes, duration: 50 },
    };
    let records = [run(7, 10, 5), run(1, 4, 0), run(2, 4, 0), run(3, 4, 0)];
    card.records(&records, RUN_ACCESSES, 400)
}

/// A frame of a slice of each of these numbers of accesses, of which each fourth one writes.
fn slice_frame(card: &mut Card, counts: &[u32]) -> Vec<u8> {
    card.unit_log2 = UNIT_NONE;
    let slice = |(count, at): (&u32, u64)| WordRecord::Slice {
        code: DEFAULT_SLICE_CODE,
        partial: None,
        start: card.clock + at * SLICE,
        reads: count - count / 4,
        writes: count / 4,
    };
    let records: Vec<_> = counts.iter().zip(0..).map(slice).collect();
    let accesses = counts.iter().map(|count| u64::from(*count)).sum();
    let frame = card.records(&records, accesses, 0);
    card.clock += counts.len() as u64 * SLICE;
    frame
}

/// A session with frames that `fill` makes.
fn session(name: &str, mode: Mode, fill: impl FnOnce(&mut Card) -> Vec<Vec<u8>>) -> PathBuf {
    let mut card = Card { mode: Some(mode), ..Card::new() };
    let mut frames = vec![card.info()];
    frames.extend(fill(&mut card));
    frames.push(card.end());
    capture_file(name, &frames)
}

fn page_capture(name: &str) -> PathBuf {
    session(name, Mode::Page, |card| (0..3).map(|_| page_frame(card)).collect())
}

/// 20 slices of 1000 accesses, then 20 of 4000.
fn frequency_capture(name: &str) -> PathBuf {
    session(name, Mode::Frequency, |card| {
        vec![slice_frame(card, &[1000; 20]), slice_frame(card, &[4000; 20])]
    })
}

/// Line mode, then page mode.
fn mixed_capture(name: &str) -> PathBuf {
    session(name, Mode::Page, |card| vec![card.data(100).0, page_frame(card)])
}

fn shown(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

/// The JSON object of a command that ends with this status.
fn json(words: &[&str], file: &Path, status: i32) -> Value {
    let output = hmtt(&[words, &["--json", text(file)]].concat());
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(status), "{words:?}: {error}");
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Requires that a command prints nothing, and refuses a file with all these words.
fn refused(words: &[&str], file: &Path, expected: &[&str]) {
    let output = hmtt(&[words, &[text(file)]].concat());
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!((output.status.code(), shown(&output).as_str()), (Some(1), ""), "{words:?}");
    for part in expected {
        assert!(error.contains(part), "{words:?}: {part} is not in: {error}");
    }
}

#[test]
fn page_runs_weigh_their_accesses() {
    let file = page_capture("coarse-page.pcapng");
    let stats = json(&["stats"], &file, 0);
    assert_json_documented("stats of page mode", &stats);
    let sums = &stats["stats"];
    let total = 3 * RUN_ACCESSES;
    assert_eq!((&sums["accesses"], &sums["writes"]), (&total.into(), &15.into()));
    assert_eq!((&sums["page_run_accesses"], &sums["pages"]), (&total.into(), &4.into()));
    assert_eq!(sums["access_bytes"], total * BURST_BYTES);
    assert_eq!(sums["duration_clocks"], 11 * 100 + 50);
    let printed = shown(&hmtt(&["stats", text(&file)]));
    assert!(printed.contains("lines of 64 bytes      not known"), "{printed}");
    assert!(printed.contains("bursts of page mode"), "{printed}");

    let hot = json(&["hot", "--top", "2"], &file, 0);
    assert_json_documented("hot of page mode", &hot);
    let pages = &hot["hot"]["hot_pages"];
    assert_eq!((&pages[0]["address"], &pages[0]["touches"]), (&"0x7000".into(), &45.into()));
    assert_eq!((&pages[1]["address"], &pages[1]["touches"]), (&"0x1000".into(), &12.into()));
    assert_eq!(hot["hot"]["hot_lines"], Value::Array(Vec::new()));
    let runs = &hot["hot"]["page_runs"];
    assert_eq!(runs[0], serde_json::json!({"at_least": 4, "at_most": 7, "runs": 9}), "{runs}");

    // 15 touches in a row: one far one, and 14 of distance 0. Each page is reused with 3 pages
    // between.
    let reuse = json(&["reuse", "--pages"], &file, 0);
    assert_eq!(reuse["reuse"]["first_touches"], 4.0);
    assert_eq!(reuse["reuse"]["touches"], total);
    let distances = reuse["reuse"]["distances"].as_array().unwrap();
    assert_eq!(distances[0]["touches"], 3.0 * (14.0 + 3.0 * 3.0), "{distances:?}");
    assert_eq!(distances[2]["touches"], 8.0, "{distances:?}");
    assert_eq!(json(&["mrc", "--pages"], &file, 0)["mrc"]["touches"], total);

    let slices = json(&["stats", "--slice", "1us"], &file, 0);
    let in_slices = slices["stats"]["frequency"][0]["slices"].as_array().unwrap().iter();
    let count =
        |slice: &Value| slice["reads"].as_u64().unwrap() + slice["writes"].as_u64().unwrap();
    assert_eq!(in_slices.map(count).sum::<u64>(), total);
    let phases = json(&["phases"], &file, 0);
    let phases = phases["phases"][0]["phases"].as_array().unwrap().iter();
    assert_eq!(phases.map(|phase| phase["accesses"].as_u64().unwrap()).sum::<u64>(), total);
    assert_eq!(json(&["check"], &file, 0)["check"]["accesses"], total);
}

#[test]
fn analyses_of_lines_refuse_page_mode_by_name() {
    let file = page_capture("coarse-page-refused.pcapng");
    for words in [&["streams"][..], &["reuse"], &["mrc"], &["rows"]] {
        let name = format!("hmtt {}", words[0]);
        refused(words, &file, &[&name, "page mode", "address", "hmtt hot"]);
    }
    refused(&["mrc", "--pages", "--cache", "2K,4,64,lru"], &file, &["hmtt mrc --cache"]);
}

#[test]
fn slices_of_frequency_mode_are_a_series() {
    let file = frequency_capture("coarse-frequency.pcapng");
    let stats = json(&["stats", "--slice", "1ms"], &file, 0);
    assert_json_documented("stats of frequency mode", &stats);
    let sums = &stats["stats"];
    assert_eq!(
        (&sums["accesses"], &sums["frequency_accesses"]),
        (&100_000.into(), &100_000.into())
    );
    assert_eq!(sums["access_bytes"], 100_000 * BURST_BYTES);
    assert_eq!(sums["duration_clocks"], 40 * SLICE - 1);
    let slices = sums["frequency"][0]["slices"].as_array().unwrap();
    assert_eq!(slices.len(), 40);
    assert_eq!((&slices[0]["reads"], &slices[0]["writes"]), (&750.into(), &250.into()));
    assert_eq!((&slices[39]["reads"], &slices[39]["writes"]), (&3000.into(), &1000.into()));
    let printed = shown(&hmtt(&["stats", text(&file)]));
    assert!(printed.contains("pages of 4 KiB         not known"), "{printed}");

    let phases = json(&["phases"], &file, 0);
    assert_json_documented("phases of frequency mode", &phases);
    let phases = phases["phases"][0]["phases"].as_array().unwrap();
    assert_eq!(phases.len(), 2, "{phases:?}");
    let sum = phases.iter().map(|phase| phase["accesses"].as_u64().unwrap()).sum::<u64>();
    assert_eq!(sum, 100_000);
    let printed = shown(&hmtt(&["phases", text(&file)]));
    assert!(printed.contains("not known"), "{printed}");
    assert_eq!(
        json(&["phases", "--slice", "1ms"], &file, 0)["phases"][0]["phases"][1]["first_slice"],
        20
    );
}

#[test]
fn analyses_of_pages_refuse_frequency_mode_by_name() {
    let file = frequency_capture("coarse-frequency-refused.pcapng");
    for words in
        [&["hot"][..], &["check"], &["reuse", "--pages"], &["streams"], &["rows"], &["mrc"]]
    {
        let name = format!("hmtt {}", words[0]);
        refused(words, &file, &[&name, "frequency mode", "hmtt stats"]);
    }
    refused(&["stats", "--by", "mark=1,2"], &file, &["--by", "frequency mode"]);
    for words in [&["stats", "--slice", "10us"], &["phases", "--slice", "10us"]] {
        refused(words, &file, &["--slice", "shorter", "1.000 ms"]);
    }
}

/// 100 accesses in line mode, and a slice that has them, too.
fn line_capture_with_slices(name: &str) -> PathBuf {
    session(name, Mode::Line, |card| {
        let data = card.data(100).0;
        card.unit_log2 = 6;
        let slice = WordRecord::Slice {
            code: DEFAULT_SLICE_CODE,
            partial: None,
            start: 0,
            reads: 60,
            writes: 40,
        };
        vec![data, card.records(&[slice], 0, 0)]
    })
}

#[test]
fn slices_beside_lines_count_once() {
    let file = line_capture_with_slices("coarse-beside.pcapng");
    let stats = json(&["stats"], &file, 0);
    assert_eq!(
        (&stats["stats"]["accesses"], &stats["stats"]["frequency_accesses"]),
        (&100.into(), &0.into())
    );
    assert_eq!(stats["notes"], Value::Array(Vec::new()));
}

#[test]
fn mixed_modes_state_what_was_used() {
    let file = mixed_capture("coarse-mixed.pcapng");
    let total = 100 + RUN_ACCESSES;
    let stats = json(&["stats"], &file, 0);
    assert_eq!(
        (&stats["stats"]["accesses"], &stats["stats"]["page_run_accesses"]),
        (&total.into(), &RUN_ACCESSES.into())
    );
    assert_eq!(json(&["hot"], &file, 0)["hot"]["touches"], total);
    for words in [&["streams"][..], &["reuse"], &["mrc"], &["rows"]] {
        let object = json(words, &file, 3);
        assert_eq!(object["complete"], false);
        let missing = object["missing"][0].as_str().unwrap();
        let expected =
            format!("{RUN_ACCESSES} of {total} accesses, which are records of page mode");
        assert!(
            missing.starts_with(&expected) && missing.ends_with("the other 100 were used"),
            "{missing}"
        );
        let printed = shown(&hmtt(&[words, &[text(&file)]].concat()));
        assert!(printed.starts_with("INCOMPLETE: 100 accesses"), "{printed}");
    }
}

#[test]
fn analysis_mode_is_refused_by_name() {
    let file = session("coarse-analysis.pcapng", Mode::Analysis, |card| {
        card.unit_log2 = UNIT_NONE;
        vec![card.records(&[WordRecord::Interval { part: 0, clock: 5 }], 0, 0)]
    });
    for words in [&["hot"][..], &["streams"], &["rows"], &["check"], &["stats"], &["phases"]] {
        let name = format!("hmtt {}", words[0]);
        refused(words, &file, &[&name, "analysis mode", "hmtt analysis"]);
    }
}

#[test]
fn tables_of_page_runs_have_the_results_of_their_capture() {
    let file = page_capture("coarse-table.pcapng");
    let slices = frequency_capture("coarse-table-slices.pcapng");
    for extension in ["csv", "jsonl", "parquet"] {
        let table = scratch(&format!("coarse-table.{extension}"));
        assert!(hmtt(&["convert", "-f", text(&file), text(&table)]).status.success());
        for words in [&["hot"][..], &["reuse", "--pages"]] {
            let [file_result, table_result] =
                [&file, &table].map(|file| json(words, file, 0)[words[0]].clone());
            assert_eq!(file_result, table_result, "{words:?} {extension}");
        }
        refused(&["streams"], &table, &["hmtt streams", "page mode"]);
        assert!(hmtt(&["convert", "-f", text(&slices), text(&table)]).status.success());
        refused(&["stats"], &table, &["hmtt stats", "100000 accesses", "slices"]);
    }
}

/// A data set of captures.
#[cfg(feature = "dataset")]
fn data_set(name: &str, captures: &[&Path]) -> PathBuf {
    let folder = scratch(&format!("{name}.file")).with_extension("data");
    let _ = std::fs::remove_dir_all(&folder);
    let files: Vec<&str> = captures.iter().map(|path| text(path)).collect();
    let output = hmtt(&[&["dataset", "add", text(&folder)], &files[..]].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    folder
}

#[cfg(feature = "dataset")]
#[test]
fn data_sets_have_the_results_of_their_captures() {
    let pages = page_capture("coarse-set-page.pcapng");
    let slices = frequency_capture("coarse-set-slices.pcapng");
    let mixed = mixed_capture("coarse-set-mixed.pcapng");
    let commands = [
        &["stats"][..],
        &["stats", "--slice", "1ms"],
        &["phases"],
        &["hot"],
        &["reuse", "--pages"],
        &["mrc", "--pages"],
        &["check"],
        &["report"],
        &["streams"],
    ];
    for (name, capture) in [("page", &pages), ("slices", &slices), ("mixed", &mixed)] {
        let folder = data_set(&format!("coarse-set-{name}"), &[capture]);
        for words in commands {
            let [of_capture, of_set] = [capture, &folder].map(|file| {
                let output = hmtt(&[words, &["--json", text(file)]].concat());
                let printed: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
                let error = String::from_utf8(output.stderr).unwrap().replace(text(file), "");
                (output.status.code(), error, without_sources(printed))
            });
            assert_eq!(of_set, of_capture, "{name} {words:?}");
        }
    }
}

/// The results of a command, without what its sources are.
#[cfg(feature = "dataset")]
fn without_sources(mut printed: Value) -> Value {
    let object = printed.as_object_mut();
    object.map(|object| object.remove("sources"));
    printed
}

#[cfg(feature = "dataset")]
#[test]
fn slices_of_data_sets_count_once() {
    let file = line_capture_with_slices("coarse-set-beside.pcapng");
    let folder = data_set("coarse-set-beside", &[&file]);
    let stats = json(&["stats"], &folder, 0);
    assert_eq!(stats["stats"]["accesses"], 100);
    assert_eq!(stats["notes"], Value::Array(Vec::new()));
}

#[cfg(feature = "dataset")]
#[test]
fn data_sets_refuse_analyses_by_name() {
    let pages = page_capture("coarse-set-refused-page.pcapng");
    let folder = data_set("coarse-set-refused-page", &[&pages]);
    refused(&["streams"], &folder, &["hmtt streams", "page mode", "address", "hmtt hot"]);
    let analysis = session("coarse-set-analysis.pcapng", Mode::Analysis, |card| {
        card.unit_log2 = UNIT_NONE;
        vec![card.records(&[WordRecord::Interval { part: 0, clock: 5 }], 0, 0)]
    });
    let folder = data_set("coarse-set-refused-analysis", &[&analysis]);
    refused(&["hot"], &folder, &["hmtt hot", "analysis mode"]);
}

#[test]
fn a_report_states_what_is_absent() {
    let pages = page_capture("coarse-report-page.pcapng");
    let slices = frequency_capture("coarse-report-slices.pcapng");
    for (file, mode) in [(&pages, "page mode"), (&slices, "frequency mode")] {
        let page = scratch("coarse-report.html");
        let output = hmtt(&["report", "-f", "-o", text(&page), text(file)]);
        let printed = shown(&output);
        assert_eq!(output.status.code(), Some(0), "{printed}");
        assert!(printed.contains(mode), "{printed}");
        let html = std::fs::read_to_string(&page).unwrap();
        assert!(html.contains(&format!("the capture is in {mode}")), "{mode}");
    }
    let lines = session("coarse-report-lines.pcapng", Mode::Line, |card| vec![card.data(100).0]);
    let compared = hmtt(&["report", "--compare", "--json", text(&pages), text(&lines)]);
    let compared: Value = serde_json::from_slice(&compared.stdout).unwrap();
    let differences = compared["compare"]["differences"].as_array().unwrap();
    let value =
        |name: &str| differences.iter().find(|difference| difference["name"] == name).unwrap();
    assert_eq!(value("lines")["value_a"], Value::Null, "{differences:?}");
    assert!(value("lines")["value_b"].is_number() && value("pages")["value_a"].is_number());
    let object = json(&["report"], &slices, 0);
    assert_json_documented("report of frequency mode", &object);
    let timeline = object["report"]["timeline"][0]["slices"].as_array().unwrap();
    let count =
        |slice: &Value| slice["reads"].as_u64().unwrap() + slice["writes"].as_u64().unwrap();
    assert_eq!(timeline.iter().map(count).sum::<u64>(), 100_000);
}
