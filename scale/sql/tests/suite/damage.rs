//! Tests that damaged parts and captures are named, and that the others are read on request.

use std::fs;
use std::path::{Path, PathBuf};

use hmtt_dataset::{Dataset, Table};

use crate::hmtt_sql;
use crate::samples::{captures, dataset};

/// The first part of the accesses of a board.
fn part(data: &Path, board: &str) -> PathBuf {
    let parts = Dataset::new(data).parts_of(Table::Accesses).unwrap();
    let (_, path) = parts.into_iter().find(|(place, _)| place.board == board).unwrap();
    data.join(path)
}

/// Runs a query on a data set with a damaged part: it must name the part, and on request count the
/// other rows.
fn check(data: &Path, damaged: &Path) {
    let text = data.to_str().unwrap();
    let sql = "select count(*), sum(address), max(clock) from accesses";
    let output = hmtt_sql(&["--format", "csv", sql, text]);
    let complaint = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{complaint}");
    assert!(complaint.contains(damaged.to_str().unwrap()), "{complaint}");
    assert!(complaint.contains("--skip-damaged") && output.stdout.is_empty());
    let output = hmtt_sql(&["--format", "csv", "--skip-damaged", sql, text]);
    let complaint = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(3), "{complaint}");
    assert!(complaint.contains(damaged.to_str().unwrap()), "{complaint}");
    let rows = String::from_utf8(output.stdout).unwrap();
    fs::remove_file(damaged).unwrap();
    let output = hmtt_sql(&["--format", "csv", sql, text]);
    assert_eq!(rows, String::from_utf8(output.stdout).unwrap());
}

#[test]
fn a_part_with_a_damaged_footer_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let data = dataset(folder.path());
    let path = part(&data, "eth2");
    let bytes = fs::read(&path).unwrap();
    fs::write(&path, &bytes[..bytes.len() / 2]).unwrap();
    check(&data, &path);
}

#[test]
fn a_part_with_a_damaged_page_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let data = dataset(folder.path());
    let path = part(&data, "eth1");
    let mut bytes = fs::read(&path).unwrap();
    // All columns, but not the footer.
    let end = bytes.len() * 2 / 3;
    bytes[1000..end].fill(0x55);
    fs::write(&path, bytes).unwrap();
    check(&data, &path);
}

#[test]
fn a_damaged_part_of_another_board_does_not_matter() {
    let folder = tempfile::tempdir().unwrap();
    let data = dataset(folder.path());
    fs::write(part(&data, "eth2"), b"no part").unwrap();
    let sql = "select count(*) from accesses where board = 'eth1'";
    assert_eq!(crate::rows(sql, &data).len(), 1);
}

#[test]
fn a_cut_capture_is_read_up_to_its_end() {
    let folder = tempfile::tempdir().unwrap();
    let [path, _] = captures(folder.path());
    let bytes = fs::read(&path).unwrap();
    fs::write(&path, &bytes[..bytes.len() / 2 + 3]).unwrap();
    let output = hmtt_sql(&["select count(*) from accesses", path.to_str().unwrap()]);
    let complaint = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(3), "{complaint}");
    assert!(complaint.contains("ends within a block"), "{complaint}");
}

#[test]
fn a_damaged_capture_is_read_up_to_its_damage_on_request() {
    let folder = tempfile::tempdir().unwrap();
    let [path, _] = captures(folder.path());
    let mut bytes = fs::read(&path).unwrap();
    let middle = bytes.len() / 8 * 4;
    bytes[middle..middle + 4000].fill(0xff);
    fs::write(&path, bytes).unwrap();
    let (sql, text) = ("select count(*) from accesses", path.to_str().unwrap());
    let output = hmtt_sql(&[sql, text]);
    let complaint = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{complaint}");
    assert!(complaint.contains(text), "{complaint}");
    let output = hmtt_sql(&["--skip-damaged", "--format", "csv", sql, text]);
    assert_eq!(output.status.code(), Some(3));
    let count: u64 =
        String::from_utf8(output.stdout).unwrap().lines().nth(1).unwrap().parse().unwrap();
    assert!(count > 1000, "{count}");
}
