//! Compares the results of docs/queries with those of Spark and of Polars, which read the same data
//! set.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use hmtt_test_support::files::skipped;

use crate::database::queries;
use crate::samples::{dataset, tag_map};
use crate::succeed;

/// Queries that Spark does not have: `function_at` is a function of ours, and Spark has no join by
/// the nearest clock.
const NOT_OF_SPARK: [&str; 1] = ["function-accesses.sql"];
/// Queries that Polars does not have: its SQL has no functions of users, so neither `function_at`
/// nor `bank` and `row`.
const NOT_OF_POLARS: [&str; 2] = ["function-accesses.sql", "row-conflicts.sql"];

/// What an engine answers to each query: `equal`, `refused` or `differs`, and the number of rows or
/// the reason.
fn compare(
    engine: &str,
    data: &Path,
    results: &[(PathBuf, PathBuf)],
) -> BTreeMap<String, (String, String)> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut command = Command::new(here.join("../../target/scale/bin/python3"));
    command.arg(here.join("tests/suite/engines.py")).args([Path::new(engine), data]);
    command.args(results.iter().flat_map(|(query, ours)| [query, ours]));
    let output = command.output().unwrap();
    let (text, errors) =
        (String::from_utf8(output.stdout).unwrap(), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{engine}: {errors}");
    let answer = |line: &str| {
        let mut fields = line.splitn(3, '\t').map(str::to_owned);
        let mut field = || fields.next().unwrap_or_default();
        (field(), (field(), field()))
    };
    text.lines().map(answer).collect()
}

/// Whether a module of Python is installed.
fn is_installed(module: &str) -> bool {
    let python = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/scale/bin/python3");
    let probe = Command::new(python).args(["-c", &format!("import {module}")]).output();
    probe.is_ok_and(|output| output.status.success())
}

/// Our results of all queries, each with its query.
fn results(folder: &Path, data: &Path) -> Vec<(PathBuf, PathBuf)> {
    let map = tag_map(folder);
    let text = |path: &Path| path.to_str().unwrap().to_owned();
    let result = |query: PathBuf| {
        let ours = folder.join(query.file_name().unwrap()).with_extension("parquet");
        succeed(&["--file", &text(&query), "--map", &text(&map), "-o", &text(&ours), &text(data)]);
        (query, ours)
    };
    queries().into_iter().map(result).collect()
}

/// Requires that an engine has the same rows of all queries but those that it does not have.
fn check(engine: &str, without: &[&str]) {
    let folder = tempfile::tempdir().unwrap();
    let data = dataset(folder.path());
    let results = results(folder.path(), &data);
    let answers = compare(engine, &data, &results);
    assert_eq!(answers.len(), results.len(), "{answers:?}");
    let wrong = answers.iter().filter(|(query, (answer, detail))| {
        let expected = if without.contains(&&***query) { "refused" } else { "equal" };
        answer != expected || detail == "0"
    });
    let wrong: Vec<_> = wrong.collect();
    assert!(wrong.is_empty(), "{engine}: {wrong:#?}");
}

/// Whether Spark can be started; states why not.
fn has_spark() -> bool {
    let has_spark =
        is_installed("pyspark") && Command::new("java").arg("-version").output().is_ok();
    if !has_spark {
        skipped("no Spark or no Java; run `sh tools/setup.sh engines`");
    }
    has_spark
}

#[test]
#[ignore = "takes a minute; `make test-engines` runs it"]
fn spark_has_the_same_results_of_all_documented_queries() {
    if has_spark() {
        check("spark", &NOT_OF_SPARK);
    }
}

#[test]
#[ignore = "takes a minute; `make test-engines` runs it"]
fn a_cluster_of_spark_has_the_same_results_of_all_documented_queries() {
    if has_spark() {
        check("spark-cluster", &NOT_OF_SPARK);
    }
}

#[test]
fn polars_has_the_same_results_of_the_queries_that_it_accepts() {
    if !is_installed("polars") {
        return skipped("no Polars; run `sh tools/setup.sh scale`");
    }
    check("polars", &NOT_OF_POLARS);
}

#[test]
fn an_engine_finds_a_difference() {
    if !is_installed("polars") {
        return skipped("no Polars; run `sh tools/setup.sh scale`");
    }
    let folder = tempfile::tempdir().unwrap();
    let data = dataset(folder.path());
    let [query, ours] = ["query.sql", "ours.parquet"].map(|name| folder.path().join(name));
    std::fs::write(&query, "select count(*) as accesses from accesses").unwrap();
    let wrong = "select count(*) + 1 as accesses from accesses";
    succeed(&["-o", ours.to_str().unwrap(), wrong, data.to_str().unwrap()]);
    let answers = compare("polars", &data, &[(query, ours)]);
    assert_eq!(answers["query.sql"].0, "differs", "{answers:?}");
}
