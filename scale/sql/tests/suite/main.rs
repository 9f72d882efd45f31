//! Tests the queries and the program `hmtt-sql`.

mod captures;
mod command;
mod damage;
mod database;
mod engines;
mod functions;
mod limits;
mod names;
mod objects;
mod pruning;
mod samples;

use std::path::Path;
use std::process::{Command, Output};

/// Runs `hmtt-sql`.
fn hmtt_sql(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_hmtt-sql")).args(arguments).output().unwrap()
}

/// What `hmtt-sql` prints. It must succeed.
fn succeed(arguments: &[&str]) -> String {
    let output = hmtt_sql(arguments);
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {complaint}");
    String::from_utf8(output.stdout).unwrap()
}

/// The CSV lines of a query's result, without the names.
fn rows(sql: &str, source: &Path) -> Vec<String> {
    let text = succeed(&["--format", "csv", sql, source.to_str().unwrap()]);
    text.lines().skip(1).map(str::to_owned).collect()
}
