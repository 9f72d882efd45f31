//! Compares what a database reads from a data set with the truth of recordings, which pass through
//! the simulated card.

use std::path::{Path, PathBuf};
use std::process::Command;

use hmtt_tests::{accesses, run, skip, succeed};
use serde_json::Value;

use crate::captures::{path, replay};
use crate::loss::{join, split};

/// Vectors of each generation, and with faults.
const VECTORS: [&str; 6] = [
    "v01_ddr1_tiny_open",
    "v04_ddr1_medium_closed_bl4",
    "v09_ddr2_open",
    "v11_ddr3_xor_open",
    "v16_ddr1_faults",
    "v18_ddr4_open",
];

/// Path of the Python with DuckDB that `make setup` installs.
fn python() -> Option<PathBuf> {
    let python = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/tools/bin/python3");
    let probe = Command::new(&python).args(["-c", "import duckdb"]).output();
    probe.is_ok_and(|output| output.status.success()).then_some(python)
}

/// Returns the rows of a query, with fields separated by spaces. A name in braces stands for the
/// table.
fn query(python: &Path, data: &Path, sql: &str) -> Vec<String> {
    let script = "import duckdb, sys\n\
                  for row in duckdb.sql(sys.argv[1]).fetchall(): print(*row)";
    let sql = sql
        .replace('{', &format!("read_parquet('{}/kind=", path(data)))
        .replace('}', "/**/*.parquet', hive_partitioning = true)");
    let output = Command::new(python).args(["-c", script, &sql]).output().unwrap();
    assert!(output.status.success(), "{sql}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
}

#[test]
fn a_database_reads_the_truth_of_recordings_from_a_data_set() {
    let Some(python) = python() else {
        return skip("a_database_reads_the_truth_of_recordings_from_a_data_set", "no DuckDB");
    };
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    for name in VECTORS {
        let capture = folder.path().join(format!("{name}.pcapng"));
        replay(name, &["--granularity", "burst"], &capture);
        succeed("hmtt", &["dataset", "add", path(&data), path(&capture)]);
    }
    for name in VECTORS {
        let sql = "select clock, case when is_write then 'W' else 'R' end, lower(to_hex(address)) \
                   from {accesses} where run = 'NAME' order by clock";
        let rows = query(&python, &data, &sql.replace("NAME", name));
        let expected: Vec<String> = accesses(name).iter().map(ToString::to_string).collect();
        assert!(rows == expected, "{name}: not the truth");
    }
    let captures = VECTORS.map(|name| folder.path().join(format!("{name}.pcapng")));
    let captures: Vec<&str> = captures.iter().map(|capture| path(capture)).collect();
    succeed("hmtt", &[&["dataset", "check", path(&data)], &captures[..]].concat());
}

/// What a command prints as JSON, without what its source is.
fn results(words: &[&str], file: &Path) -> Value {
    let printed = succeed("hmtt", &[words, &["--json", path(file)]].concat());
    let mut printed: Value = serde_json::from_str(&printed).unwrap();
    printed.as_object_mut().unwrap().remove("sources");
    printed
}

#[test]
fn pages_and_slices_of_a_data_set_have_the_results_of_their_capture() {
    let folder = tempfile::tempdir().unwrap();
    for (mode, commands) in [
        (
            "page",
            &["stats", "phases", "hot", "reuse --pages", "mrc --pages", "check", "report"][..],
        ),
        ("frequency", &["stats", "stats --slice 1s", "phases", "report"][..]),
    ] {
        for name in VECTORS {
            let capture = folder.path().join(format!("{mode}-{name}.pcapng"));
            let data = capture.with_extension("data");
            replay(name, &["--mode", mode], &capture);
            succeed("hmtt", &["dataset", "add", path(&data), path(&capture)]);
            for command in commands {
                let words: Vec<&str> = command.split(' ').collect();
                let [of_set, of_capture] = [&data, &capture].map(|file| results(&words, file));
                assert_eq!(of_set, of_capture, "{name}: {command} in {mode} mode");
            }
            succeed("hmtt", &["dataset", "check", path(&data), path(&capture)]);
        }
    }
}

#[test]
fn gaps_of_a_data_set_are_the_accesses_of_lost_frames() {
    let Some(python) = python() else {
        return skip("gaps_of_a_data_set_are_the_accesses_of_lost_frames", "no DuckDB");
    };
    let folder = tempfile::tempdir().unwrap();
    let (whole, cut) = (folder.path().join("whole.pcapng"), folder.path().join("cut.pcapng"));
    replay("v08_ddr1_litedram", &["--granularity", "burst"], &whole);
    let (blocks, mut packets) = split(&whole);
    let middle = packets.len() / 2;
    packets.drain(middle..middle + 2);
    join(&cut, &blocks, &packets);
    let data = folder.path().join("data");
    succeed("hmtt", &["dataset", "add", path(&data), path(&whole)]);
    assert_eq!(run("hmtt", &["dataset", "add", path(&data), path(&cut)]).status.code(), Some(3));
    let missing = query(
        &python,
        &data,
        "select count(*) filter (run = 'whole') - count(*) filter (run = 'cut') from {accesses}",
    );
    let sql = "select sum(lost_accesses)::bigint from {gaps} where is_loss";
    assert_eq!(query(&python, &data, sql), missing);
    assert_ne!(missing, ["0"]);
    assert_eq!(query(&python, &data, "select run, missing_frames from {gaps}"), ["cut 2"]);
    assert_eq!(run("hmtt", &["dataset", "check", path(&data)]).status.code(), Some(3));
}
