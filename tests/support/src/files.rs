//! Files of tests, and what tests say of themselves.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::io::Write;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

/// The folder of files that tests leave: `target/tmp`, as cargo names it in `CARGO_TARGET_TMPDIR`.
fn folder() -> PathBuf {
    let test = std::env::current_exe().expect("a test knows its own path");
    // target/PROFILE/deps/TEST
    let target = test.ancestors().nth(3).expect("a test is in the target folder");
    target.join("tmp")
}

/// A fresh path for the file `name`, which is of this test alone: others run beside it.
///
/// # Panics
/// If two tests of a program have the same file.
pub fn scratch(name: &str) -> PathBuf {
    static OWNERS: Mutex<BTreeMap<String, String>> = Mutex::new(BTreeMap::new());
    let test = std::thread::current().name().unwrap_or_default().to_owned();
    let mut owners = OWNERS.lock().unwrap_or_else(PoisonError::into_inner);
    let owner = owners.entry(name.to_owned()).or_insert(test.clone()).clone();
    drop(owners);
    assert_eq!(owner, test, "two tests have the file {name}");
    let path = folder().join(name);
    if path.exists() {
        std::fs::remove_file(&path).expect("an old scratch file can be removed");
    }
    path
}

/// Says that a test cannot run here, past the test harness, which hides what passing tests print.
///
/// # Panics
/// If standard error is closed.
pub fn skipped(reason: impl Display) {
    let test = std::thread::current().name().unwrap_or_default().to_owned();
    writeln!(std::io::stderr(), "skipped: {test}: {reason}").expect("standard error is open");
}
