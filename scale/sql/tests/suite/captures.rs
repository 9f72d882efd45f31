//! Compares the rows of captures with those that the captures have in a data set.

use std::path::Path;

use crate::samples::{captures, dataset};
use crate::{hmtt_sql, succeed};

/// Conditions of which some are tested while a capture is decoded.
const CONDITIONS: [&str; 12] = [
    "true",
    "clock between 10000000 and 60000000",
    "clock < 50000000 and not is_write",
    "page = 4096",
    "page in (4096, 4097, 9)",
    "address >= 16777216 and is_write",
    "board = 'eth2'",
    "hour = 2023111423 and run <> 'day'",
    "arrival >= '2023-11-14T22:59:59Z' and arrival < '2023-11-14T22:59:59.5Z'",
    "session = 1 or clock % 7 = 3",
    "page(address) = 4097 and clock > 100",
    "date_trunc('minute', arrival) = '2023-11-14T23:00:00Z' and board in ('eth1', 'eth3')",
];

/// The sorted lines of a query on some sources.
fn sorted(sql: &str, sources: &[&Path]) -> Vec<String> {
    let mut arguments = vec!["--format", "csv", sql];
    arguments.extend(sources.iter().map(|source| source.to_str().unwrap()));
    let mut lines: Vec<String> = succeed(&arguments).lines().map(str::to_owned).collect();
    lines.sort();
    lines
}

#[test]
fn captures_have_the_rows_of_their_data_set() {
    let folder = tempfile::tempdir().unwrap();
    let data = dataset(folder.path());
    let paths = captures(folder.path());
    let paths = [paths[0].as_path(), paths[1].as_path()];
    for table in ["accesses", "pages", "slices", "gaps", "tags", "events", "runs"] {
        let sql = format!("select * from {table}");
        let expected = sorted(&sql, &[&data]);
        assert!(expected.len() > 1, "{table} has rows");
        assert!(sorted(&sql, &paths) == expected, "{table}");
    }
}

#[test]
fn conditions_on_captures_choose_the_rows_of_their_data_set() {
    let folder = tempfile::tempdir().unwrap();
    let data = dataset(folder.path());
    let paths = captures(folder.path());
    let paths = [paths[0].as_path(), paths[1].as_path()];
    for condition in CONDITIONS {
        let sql = format!(
            "select run, board, hour, session, clock, address from accesses where {condition}"
        );
        let (rows, expected) = (sorted(&sql, &paths), sorted(&sql, &[&data]));
        assert!(expected.len() > 1, "{condition}: has rows");
        assert!(rows == expected, "{condition}: {} rows, not {}", rows.len(), expected.len());
        let sql = format!(
            "select count(*), min(clock), count(distinct board) from accesses where {condition}"
        );
        assert_eq!(sorted(&sql, &paths), sorted(&sql, &[&data]), "{condition}");
    }
}

#[test]
fn data_sets_and_captures_are_queried_together() {
    let folder = tempfile::tempdir().unwrap();
    let data = dataset(folder.path());
    let paths = captures(folder.path());
    let sql = "select count(*), count(distinct capture) from accesses";
    let both = sorted(sql, &[&data, &paths[0]]);
    let count = |lines: &[String]| -> u64 {
        let row = lines.iter().find(|line| line.starts_with(|first: char| first.is_ascii_digit()));
        row.unwrap().split(',').next().unwrap().parse().unwrap()
    };
    assert_eq!(count(&both), count(&sorted(sql, &[&data])) + count(&sorted(sql, &[&paths[0]])));
    assert!(both.iter().any(|line| line.ends_with(",2")), "the copy of a capture is the same one");
}

#[test]
fn a_limit_ends_the_decoding_of_a_capture() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("long.pcapng");
    crate::samples::capture(&path, 1, 6000, std::time::Duration::from_millis(1), 11);
    let output =
        crate::hmtt_sql(&["--metrics", "select * from accesses limit 5", path.to_str().unwrap()]);
    let metrics = String::from_utf8(output.stderr).unwrap();
    let line = metrics.lines().find(|line| line.starts_with("bytes read")).unwrap();
    let numbers: Vec<u64> = line.split(' ').filter_map(|word| word.parse().ok()).collect();
    assert!(numbers[0] < numbers[1], "{line}");
}

#[test]
fn paths_of_data_sets_are_relative_and_have_any_characters() {
    let folder = tempfile::tempdir().unwrap();
    let inner = folder.path().join("two words %20 #1");
    std::fs::create_dir(&inner).unwrap();
    let data = dataset(&inner);
    let way = inner.join("..").join(inner.file_name().unwrap()).join("data");
    let count = |path: &Path| {
        let output =
            hmtt_sql(&["--format", "csv", "select count(*) from accesses", path.to_str().unwrap()]);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        output.stdout
    };
    assert_eq!(count(&data), count(&way));
    assert_ne!(count(&data), b"count(*)\n0\n");
}
