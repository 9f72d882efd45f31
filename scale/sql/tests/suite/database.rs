//! Compares the results of docs/queries with those of DuckDB, which reads the same data set, to the
//! last digit.

use std::path::{Path, PathBuf};
use std::process::Command;

use hmtt_test_support::files::skipped;

use crate::samples::{dataset, tag_map};
use crate::succeed;

/// Path of the Python with DuckDB that `tools/setup.sh scale` installs.
fn python() -> Option<PathBuf> {
    let target = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target");
    ["scale", "tools"].into_iter().find_map(|folder| {
        let python = target.join(folder).join("bin/python3");
        let probe = Command::new(&python).args(["-c", "import duckdb"]).output();
        probe.is_ok_and(|output| output.status.success()).then_some(python)
    })
}

/// Runs `compare.py`.
fn compare(python: &Path, data: &Path, query: &Path, ours: &Path) -> String {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/suite/compare.py");
    let output = Command::new(python).arg(script).args([data, query, ours]).output().unwrap();
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {complaint}", query.display());
    String::from_utf8(output.stdout).unwrap()
}

/// The documented queries.
pub fn queries() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/queries");
    let mut queries: Vec<PathBuf> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "sql"))
        .collect();
    queries.sort();
    assert!(queries.len() >= 10, "{queries:?}");
    queries
}

#[test]
fn a_database_has_the_same_results_of_all_documented_queries() {
    let Some(python) = python() else { return skipped("no DuckDB; run `sh tools/setup.sh scale`") };
    let folder = tempfile::tempdir().unwrap();
    let data = dataset(folder.path());
    let map = tag_map(folder.path());
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    for query in queries() {
        let ours = folder.path().join("ours.parquet");
        let text = |path: &Path| path.to_str().unwrap().to_owned();
        let arguments =
            ["--file", &text(&query), "--map", &text(&map), "-f", "-o", &text(&ours), &text(&data)];
        succeed(&arguments);
        // A function of ours is another query there.
        let name = query.file_name().unwrap();
        let theirs = here.join("tests/suite/duckdb").join(name);
        let theirs = if theirs.exists() { theirs } else { query.clone() };
        let result = compare(&python, &data, &theirs, &ours);
        let rows: usize = result.trim().parse().expect("the number of equal rows");
        assert!(rows > 0, "{}: has rows", query.display());
    }
}

#[test]
fn a_database_finds_a_difference() {
    let Some(python) = python() else { return skipped("no DuckDB; run `sh tools/setup.sh scale`") };
    let folder = tempfile::tempdir().unwrap();
    let data = dataset(folder.path());
    let [query, ours] = ["query.sql", "ours.parquet"].map(|name| folder.path().join(name));
    std::fs::write(&query, "select count(*) as accesses from accesses").unwrap();
    let wrong = "select count(*) + 1 as accesses from accesses";
    succeed(&["-o", ours.to_str().unwrap(), wrong, data.to_str().unwrap()]);
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/suite/compare.py");
    let output = Command::new(python).arg(script).args([&data, &query, &ours]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
}
