//! Tests how much of a data set a query reads.

use std::path::Path;
use std::time::Duration;

use crate::hmtt_sql;
use crate::samples::{add, capture, dataset};

/// Bytes read and of all parts, and parts read and of all parts.
fn read(sql: &str, data: &Path) -> [u64; 4] {
    let output = hmtt_sql(&["--metrics", sql, data.to_str().unwrap()]);
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{text}");
    let numbers = |name: &str| -> Vec<u64> {
        let line = text.lines().find(|line| line.starts_with(name)).unwrap();
        line.split(' ').filter_map(|word| word.parse().ok()).collect()
    };
    let (bytes, parts) = (numbers("bytes read"), numbers("parts read"));
    [bytes[0], bytes[1], parts[0], parts[1]]
}

#[test]
fn partitions_that_a_query_does_not_name_are_not_opened() {
    let folder = tempfile::tempdir().unwrap();
    let data = dataset(folder.path());
    let [_, _, chosen, total_parts] = read("select sum(clock) from accesses", &data);
    assert!(chosen == total_parts && total_parts == 10, "{total_parts} parts");
    for (condition, expected) in [
        ("board = 'eth3'", 2),
        ("run = 'day' and board in ('eth1', 'eth2') and hour = 2023111423", 2),
        ("arrival >= '2023-11-14T23:00:00Z'", 5),
        ("arrival < '2023-11-14T22:59:59Z' and board <> 'eth1'", 3),
        ("hour = 1", 0),
    ] {
        let sql = format!("select sum(clock) from accesses where {condition}");
        let [bytes, total, chosen, total_parts] = read(&sql, &data);
        assert_eq!((chosen, total_parts), (expected, 10), "{condition}");
        assert!(bytes < total, "{condition}");
    }
}

#[test]
fn counts_are_those_of_the_footers() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let path = folder.path().join("long.pcapng");
    capture(&path, 1, 6000, Duration::from_millis(1), 3);
    add(&data, &path);
    let [count, total, ..] = read("select count(*) from accesses", &data);
    assert!(count * 10 < total, "{count} bytes of {total}");
}

/// A day of one board with 12 million accesses. An hour has four pages of each column, of which one
/// is read.
#[test]
fn one_second_of_a_day_is_less_than_a_percent() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let path = folder.path().join("day.pcapng");
    // 24 hours, in steps of 1.44 s.
    capture(&path, 2, 60_000, Duration::from_millis(1440), 3);
    add(&data, &path);
    let sql = "select page, count(*) from accesses where board = 'eth2' \
               and arrival >= '2023-11-15T07:00:00Z' and arrival < '2023-11-15T07:00:02Z' group by page";
    let [bytes, total, chosen, total_parts] = read(sql, &data);
    assert!(chosen == 1 && total_parts > 40, "{chosen} of {total_parts} parts");
    assert!(bytes > 0 && bytes * 100 < total, "{bytes} bytes of {total}");
    println!("{bytes} of {total} bytes, {chosen} of {total_parts} parts");
}
