//! Reads a data set with an independent database.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use hmtt_dataset::Dataset;
use hmtt_test_support::card::Card;
use hmtt_test_support::files::skipped;

use crate::add;
use crate::samples::{BEFORE_THE_HOUR, everything, write};

/// Path of the Python with DuckDB that `make setup` installs.
fn python() -> Option<PathBuf> {
    let python = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/tools/bin/python3");
    let probe = Command::new(&python).args(["-c", "import duckdb"]).output();
    probe.is_ok_and(|output| output.status.success()).then_some(python)
}

/// Returns the rows of a query, with fields separated by spaces. A name in braces stands for the
/// table.
fn query(python: &Path, root: &Path, sql: &str) -> Vec<String> {
    let script = "import duckdb, sys\n\
                  for row in duckdb.sql(sys.argv[1]).fetchall(): print(*row)";
    let root = root.to_str().unwrap();
    let sql = sql
        .replace('{', &format!("read_parquet('{root}/kind="))
        .replace('}', "/**/*.parquet', hive_partitioning = true)");
    let output = Command::new(python).args(["-c", script, &sql]).output().unwrap();
    assert!(output.status.success(), "{sql}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
}

#[test]
fn a_database_reads_partitions_and_every_access() {
    let Some(python) = python() else { return skipped("no DuckDB; run `make setup`") };
    let folder = tempfile::tempdir().unwrap();
    let (frames, truth) = Card::new().session(1000, 370);
    let frames: Vec<_> = frames.into_iter().map(|frame| (1, frame)).collect();
    let capture = folder.path().join("capture.pcapng");
    write(&capture, &frames, BEFORE_THE_HOUR, Duration::from_millis(1));
    let dataset = Dataset::new(folder.path().join("data"));
    add(&dataset, &capture);
    let query = |sql: &str| query(&python, dataset.root(), sql);
    let partitions =
        query("select run, board, hour, count(*) from {accesses} group by all order by hour");
    assert_eq!(partitions, ["example eth2 2023111422 184630", "example eth2 2023111423 185370"]);
    let rows =
        query("select clock, is_write::int, address from {accesses} order by clock, address");
    let mut expected: Vec<_> = truth
        .iter()
        .map(|access| (access.clock.0, access.address.0, access.direction.bit()))
        .collect();
    expected.sort_unstable();
    let expected: Vec<String> = expected
        .iter()
        .map(|(clock, address, write)| format!("{clock} {write} {address}"))
        .collect();
    assert!(rows == expected);
    // One millisecond, in which one frame arrived.
    let second = "arrival >= '2023-11-14 23:00:00.1+00'::timestamptz \
                  and arrival < '2023-11-14 23:00:00.101+00'::timestamptz";
    assert_eq!(query(&format!("select count(*) from {{accesses}} where {second}")), ["370"]);
    let page = truth.iter().filter(|access| access.address.0 >> 12 == 77).count();
    assert_eq!(query("select count(*) from {accesses} where page = 77"), [page.to_string()]);
}

#[test]
fn a_database_reads_every_table_and_joins_runs() {
    let Some(python) = python() else { return skipped("no DuckDB; run `make setup`") };
    let folder = tempfile::tempdir().unwrap();
    let capture = folder.path().join("capture.pcapng");
    write(&capture, &everything(), BEFORE_THE_HOUR, Duration::from_micros(3));
    let dataset = Dataset::new(folder.path().join("data"));
    add(&dataset, &capture);
    let query = |sql: &str| query(&python, dataset.root(), sql);
    assert_eq!(query("select sum(lost_accesses), count(*) from {gaps} where is_loss"), ["42 2"]);
    assert_eq!(query("select reads, writes, page from {pages}"), ["2 1 31"]);
    assert_eq!(query("select duration_clocks, reads, writes from {slices}"), ["100 3 4"]);
    let tags =
        query("select \"offset\", address, register from {tags} order by register nulls first");
    assert_eq!(tags, ["32 268435488 None", "None None 263"]);
    assert_eq!(
        query("select distinct event from {events} order by 1"),
        ["ddr_clock", "fault", "restart"]
    );
    let sql = "select session, card, interface, tck_ps, unit_bytes, count(*), \
               (memory->>'capacity_bytes')::bigint from {accesses} join {runs} r using (capture, session) \
               group by all order by 1";
    assert_eq!(query(sql), ["0 1 eth1 10000 64 150 536870912", "1 1 eth1 10000 64 50 536870912"]);
    // The clock of each access as a time, within the bound of its error.
    let sql = "select max(abs(zero_time_ns + clock * clock_ns - epoch_ns(arrival)) - error_ns) <= 1e6 \
               from {accesses} join {runs} using (capture, session)";
    assert_eq!(query(sql), ["True"]);
}
