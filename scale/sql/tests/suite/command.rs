//! Tests the command: its output in each format, its errors and its help.

use std::fs;
use std::path::Path;

use hmtt_test_support::programs::transcript;
use insta::assert_snapshot;

use crate::samples::dataset;
use crate::{hmtt_sql, succeed};

const WORKED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../trace/examples/worked.pcapng");
const ALL: &str =
    "select session, clock, arrival, is_write, address, page, run, board, hour from accesses";

/// What the command prints, with its status.
fn shown(arguments: &[&str]) -> String {
    let text = transcript(&hmtt_sql(arguments));
    text.replace(WORKED, "worked.pcapng").replace(env!("CARGO_MANIFEST_DIR"), "DIR")
}

#[test]
fn results_have_the_form_of_each_format() {
    assert_snapshot!("table", shown(&[ALL, WORKED]));
    for format in ["csv", "json", "jsonl"] {
        assert_snapshot!(format, shown(&["--format", format, ALL, WORKED]));
    }
    assert_snapshot!(
        "no_rows",
        shown(&["--format", "csv", "select clock from accesses where clock < 0", WORKED])
    );
    assert_snapshot!(
        "tables",
        shown(&[
            "select table_name from information_schema.tables where table_schema = 'public' order by 1",
            WORKED
        ])
    );
    assert_snapshot!("columns", shown(&["describe accesses", WORKED]));
    assert_snapshot!(
        "plan",
        shown(&[
            "explain select page from accesses where page(address) = 3 and board = 'eth1'",
            WORKED
        ])
    );
}

#[test]
fn errors_say_what_is_wrong() {
    assert_snapshot!("no_query", shown(&[WORKED]));
    assert_snapshot!("no_column", shown(&["select nothing from runs", WORKED]));
    assert_snapshot!("no_function", shown(&["select nothing(clock) from accesses", WORKED]));
    assert_snapshot!("syntax", shown(&["select from where", WORKED]));
    assert_snapshot!("change", shown(&["create table copy as select * from accesses", WORKED]));
    assert_snapshot!("copy", shown(&["copy (select 1) to '/tmp/hmtt-sql-test.csv'", WORKED]));
    assert_snapshot!(
        "external",
        shown(&["create external table t stored as csv location '/etc/passwd'", WORKED])
    );
    assert_snapshot!("two_queries", shown(&["select 1; select 2", WORKED]));
    assert_snapshot!("no_source", shown(&["select 1", "/nonexistent"]));
    assert_snapshot!(
        "no_capture",
        shown(&["select 1", concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml")])
    );
    assert_snapshot!(
        "no_data_set",
        shown(&["select 1", concat!(env!("CARGO_MANIFEST_DIR"), "/src")])
    );
    assert_snapshot!("division", shown(&["select 1 / (clock - clock) from accesses", WORKED]));
    assert_snapshot!("memory", shown(&["--memory", "1K", "select 1", WORKED]));
}

#[test]
fn queries_of_a_cluster_are_for_another_program() {
    let output = hmtt_sql(&["--cluster", "localhost:1", "select 1", WORKED]);
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{complaint}");
    assert!(complaint.contains("`hmtt sql --cluster`"), "{complaint}");
}

#[test]
fn deep_queries_are_errors_or_have_results() {
    let status = |sql: &str| hmtt_sql(&[sql, WORKED]).status.code();
    assert_eq!(status(&format!("select {}1{}", "(".repeat(3000), ")".repeat(3000))), Some(1));
    assert_eq!(status(&format!("select clock {} from accesses", "+ 1".repeat(500))), Some(0));
    // Planning takes time in proportion to the square of the depth.
    let long = format!("select clock {} from accesses", "+ 1".repeat(30_000));
    assert_eq!(status(&long), Some(1));
}

#[test]
fn a_file_appears_whole_and_is_not_overwritten_unasked() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rows.parquet");
    let text = path.to_str().unwrap();
    succeed(&["-o", text, ALL, WORKED]);
    assert!(fs::read(&path).unwrap().starts_with(b"PAR1"));
    let output = hmtt_sql(&["-o", text, ALL, WORKED]);
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8(output.stderr).unwrap().contains("--force"));
    succeed(&["-f", "-o", text, "--format", "jsonl", "select 1 as one", WORKED]);
    assert_eq!(fs::read_to_string(&path).unwrap(), "{\"one\":1}\n");
    // A query that fails does not change the file.
    assert_eq!(hmtt_sql(&["-f", "-o", text, "select x", WORKED]).status.code(), Some(1));
    assert_eq!(fs::read_to_string(&path).unwrap(), "{\"one\":1}\n");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
}

#[test]
fn queries_are_read_from_files() {
    let folder = tempfile::tempdir().unwrap();
    let query = folder.path().join("query.sql");
    fs::write(&query, "-- A comment.\nSELECT count(*) AS accesses FROM accesses;\n").unwrap();
    let output = succeed(&["--file", query.to_str().unwrap(), "--format", "csv", WORKED]);
    assert_eq!(output, "accesses\n4\n");
}

#[test]
fn control_characters_of_names_do_not_reach_the_terminal() {
    let folder = tempfile::tempdir().unwrap();
    let copy = folder.path().join("a\u{1b}[31m.pcapng");
    fs::copy(WORKED, &copy).unwrap();
    let text = succeed(&["select run, file from runs", copy.to_str().unwrap()]);
    assert!(!text.contains('\u{1b}'), "{text:?}");
}

#[test]
fn parts_of_other_names_are_left_out() {
    let folder = tempfile::tempdir().unwrap();
    let data = dataset(folder.path());
    let before = succeed(&["select count(*) from accesses", data.to_str().unwrap()]);
    let other = |path: &Path| fs::write(path, "no part").unwrap();
    fs::create_dir_all(data.join("kind=accesses/run=x/board=y/hour=z")).unwrap();
    other(&data.join("kind=accesses/run=x/board=y/hour=z/part.parquet"));
    other(&data.join("kind=accesses/notes.txt"));
    assert_eq!(succeed(&["select count(*) from accesses", data.to_str().unwrap()]), before);
}
