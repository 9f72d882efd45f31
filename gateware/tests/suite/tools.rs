//! Runs external tools, and reports tests that are skipped because a tool is missing.

use std::io::{ErrorKind, Write as _};
use std::process::{Command, Output};

/// Runs a tool; `None` if it is not installed, which is reported even where the test harness
/// captures output.
pub fn run(test: &str, tool: &str, command: &mut Command) -> Option<Output> {
    match command.output() {
        Ok(output) => Some(output),
        Err(error) if error.kind() == ErrorKind::NotFound => {
            let _ = writeln!(std::io::stderr(), "skipped: {test}: {tool} is not installed");
            None
        }
        Err(error) => panic!("{tool}: {error}"),
    }
}

/// Returns standard output and standard error of a tool.
pub fn printed(output: &Output) -> String {
    [&output.stdout, &output.stderr]
        .map(|printed| String::from_utf8_lossy(printed).into_owned())
        .concat()
}
