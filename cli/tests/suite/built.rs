//! Builds the programs that tests run. Each is built once, even if several tests need it at the
//! same time.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use crate::{scratch, skipped};

/// The source of a program and its path; no path if it cannot be built here.
type Built = Arc<(String, OnceLock<Option<PathBuf>>)>;

static BUILT: Mutex<BTreeMap<String, Built>> = Mutex::new(BTreeMap::new());

/// Returns the program `name`, built by the command that `compiler` returns for its path; `None` if
/// the test is skipped. `source` is everything that the program depends on.
pub fn built(name: &str, source: &str, compiler: impl FnOnce(&Path) -> Command) -> Option<PathBuf> {
    let mut programs = BUILT.lock().unwrap_or_else(PoisonError::into_inner);
    let entry = programs
        .entry(name.to_owned())
        .or_insert_with(|| Arc::new((source.to_owned(), OnceLock::new())));
    let entry = entry.clone();
    drop(programs);
    assert_eq!(entry.0, source, "two programs have the name {name}");
    let build = || {
        let program = scratch(name);
        is_run(&mut compiler(&program)).then_some(program)
    };
    entry.1.get_or_init(build).clone()
}

/// Whether the compiler is installed. Panics if it reports errors.
fn is_run(compiler: &mut Command) -> bool {
    match compiler.output() {
        Err(error) => {
            skipped(format!("{}: {error}", compiler.get_program().display()));
            return false;
        }
        Ok(output) => assert!(output.status.success(), "{compiler:?}: {output:?}"),
    }
    true
}
