//! Compares every number of the analyses of accesses with those that `tests/readers/analyses.py`
//! computes from the truth of recordings. The recordings pass through the simulated card, and
//! tables of its captures must give the same.

use std::path::Path;
use std::process::Command;

use hmtt_tests::{skip, succeed, vector};
use serde_json::Value;

use crate::captures::{path, replay};

/// Slices in nanoseconds, and as an option.
const SLICE: [&str; 2] = ["10000", "10us"];
const TOP: &str = "7";
/// Vectors of each generation, controller and burst length.
const VECTORS: [&str; 9] = [
    "v01_ddr1_tiny_open",
    "v03_ddr1_medium_open",
    "v04_ddr1_medium_closed_bl4",
    "v07_ddr1_selfrefresh_open",
    "v08_ddr1_litedram",
    "v09_ddr2_open",
    "v11_ddr3_xor_open",
    "v18_ddr4_open",
    "v19_ddr1_bl4_open_same_row",
];
const COMMANDS: [&[&str]; 7] = [
    &["stats", "--slice", SLICE[1]],
    &["hot", "--top", TOP],
    &["reuse"],
    &["mrc"],
    &["streams", "--top", TOP],
    &["phases", "--slice", SLICE[1], "--working-set"],
    &["check"],
];

/// What the truth of a vector gives; `None` if there is no Python.
fn expected(name: &str) -> Option<Value> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("readers/analyses.py");
    let [recording, truth] = ["cmd.gz", "truth.gz"].map(|end| vector(name, end));
    let mut command = Command::new("python3");
    command.arg(script).args([recording, truth]).args([SLICE[0], TOP]);
    let output = command.output().ok()?;
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(serde_json::from_slice(&output.stdout).unwrap())
}

fn found(words: &[&str], file: &Path) -> Value {
    let text = succeed("hmtt", &[words, &["--json", path(file)]].concat());
    let object: Value = serde_json::from_str(&text).unwrap();
    assert_eq!((&object["complete"], &object["missing"]), (&true.into(), &Value::Array(vec![])));
    object
}

/// Compares values: numbers as such, with the error of a few roundings. Names must be the same.
fn compare(actual: &Value, expected: &Value, place: &str) {
    match (actual, expected) {
        (Value::Object(actual_fields), Value::Object(expected_fields)) => {
            let names = actual_fields.keys().chain(expected_fields.keys());
            names.for_each(|name| {
                let [actual_value, expected_value] =
                    [actual_fields, expected_fields].map(|of| of.get(name));
                let place = format!("{place}.{name}");
                let (Some(actual_value), Some(expected_value)) = (actual_value, expected_value)
                else {
                    panic!("{place} is in one only")
                };
                compare(actual_value, expected_value, &place);
            });
        }
        (Value::Array(actual_items), Value::Array(expected_items)) => {
            assert_eq!(actual_items.len(), expected_items.len(), "{place}: {actual} {expected}");
            for ((actual_item, expected_item), number) in
                actual_items.iter().zip(expected_items).zip(0..)
            {
                compare(actual_item, expected_item, &format!("{place}[{number}]"));
            }
        }
        (Value::Number(actual_number), Value::Number(expected_number)) => {
            let [actual_number, expected_number] =
                [actual_number, expected_number].map(|number| number.as_f64().unwrap());
            assert!(
                (actual_number - expected_number).abs() <= 1e-12 * expected_number.abs(),
                "{place}: {actual_number}, not {expected_number}"
            );
        }
        _ => assert_eq!(actual, expected, "{place}"),
    }
}

/// Compares the results of a table with those of its capture, as far as the table knows what is
/// needed.
fn compare_table(table: &Path, of_capture: &[Value], name: &str) {
    let extension = table.extension().unwrap().to_str().unwrap();
    for (words, expected) in COMMANDS.iter().zip(of_capture) {
        let command = words[0];
        let mut actual = found(words, table)[command].clone();
        let mut expected = expected.clone();
        let place = format!("{name} {command} {extension}");
        match (command, extension) {
            // Tables do not have the size of memory.
            ("check", _) => {
                for result in [&mut actual, &mut expected] {
                    result["kinds"].as_array_mut().unwrap().truncate(1);
                }
            }
            // Tables of text do not have the bytes of accesses and the period of the clock.
            ("phases", "csv" | "jsonl") => continue,
            ("stats", "csv" | "jsonl") => {
                for result in [&mut actual, &mut expected] {
                    let fields = result.as_object_mut().unwrap();
                    let of_time = ["duration_seconds", "accesses_per_second", "bytes_per_second"];
                    let of_size = ["access_bytes", "unsized_accesses", "frequency"];
                    of_time.iter().chain(&of_size).for_each(|name| drop(fields.remove(*name)));
                }
            }
            _ => {}
        }
        compare(&actual, &expected, &place);
    }
}

#[test]
fn all_results_are_those_of_the_truth_in_captures_and_tables() {
    let folder = tempfile::tempdir().unwrap();
    for name in VECTORS {
        let Some(expected) = expected(name) else {
            return skip("all_results_are_those_of_the_truth_in_captures_and_tables", "no python3");
        };
        let capture = folder.path().join("capture.pcapng");
        replay(name, &["--granularity", "burst"], &capture);
        let mut results = Vec::new();
        for words in COMMANDS {
            let output = found(words, &capture);
            compare(&output[words[0]], &expected[words[0]], &format!("{name} {}", words[0]));
            for (key, value) in expected["source"].as_object().unwrap() {
                compare(&output["sources"][0][key], value, &format!("{name} {key}"));
            }
            results.push(output[words[0]].clone());
        }
        for extension in ["csv", "jsonl", "parquet"] {
            let table = folder.path().join(format!("table.{extension}"));
            succeed("hmtt", &["convert", "--force", path(&capture), path(&table)]);
            compare_table(&table, &results, name);
        }
    }
}
