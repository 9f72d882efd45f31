//! Programs that tests run: each is built once, also when several tests that run side by side need it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use crate::{scratch, skipped};

/// From what a program is built, and where it is; nothing when it cannot be built here.
type Built = Arc<(String, OnceLock<Option<PathBuf>>)>;

static BUILT: Mutex<BTreeMap<String, Built>> = Mutex::new(BTreeMap::new());

/// The program `name`, built by the command that `compiler` makes for its path; `None` when skipped. `source` is all
/// that the program depends on.
pub fn built(name: &str, source: &str, compiler: impl FnOnce(&Path) -> Command) -> Option<PathBuf> {
    let mut all = BUILT.lock().unwrap_or_else(PoisonError::into_inner);
    let one = all
        .entry(name.to_owned())
        .or_insert_with(|| Arc::new((source.to_owned(), OnceLock::new())));
    let one = one.clone();
    drop(all);
    assert_eq!(one.0, source, "two programs have the name {name}");
    let build = || {
        let program = scratch(name);
        is_run(&mut compiler(&program)).then_some(program)
    };
    one.1.get_or_init(build).clone()
}

/// Whether there is such a compiler; panics if it finds errors.
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
