//! Creates scratch files for tests, and reports skipped tests.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::io::Write;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

/// Directory of files that tests create: `target/tmp`, as cargo names it in `CARGO_TARGET_TMPDIR`.
fn folder() -> PathBuf {
    let test = std::env::current_exe().expect("a test knows its own path");
    // target/PROFILE/deps/TEST
    let target = test.ancestors().nth(3).expect("a test is in the target folder");
    target.join("tmp")
}

/// Returns a new path for the file `name`, which only this test uses: other tests run at the same time.
///
/// # Panics
/// If two tests of a program use the same name.
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

/// Reports that a test cannot run here. Writes to standard error directly, because the test harness hides what passing
/// tests print.
///
/// # Panics
/// If standard error is closed.
pub fn skipped(reason: impl Display) {
    let test = std::thread::current().name().unwrap_or_default().to_owned();
    writeln!(std::io::stderr(), "skipped: {test}: {reason}").expect("standard error is open");
}
