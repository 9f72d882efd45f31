//! Creates scratch files for tests, and reports skipped tests.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::io::Write;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// Directory of files that tests create: `target/tmp`, as cargo names it in `CARGO_TARGET_TMPDIR`.
fn folder() -> PathBuf {
    let test = std::env::current_exe().expect("a test knows its own path");
    // target/PROFILE/deps/TEST
    let target = test.ancestors().nth(3).expect("a test is in the target folder");
    target.join("tmp")
}

/// Returns a new path for the file `name`. Only this test uses the path, because other tests run at
/// the same time.
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

/// A scratch file of many megabytes. It is removed when the value is dropped, except by a failing
/// test: then the file remains for examination.
#[derive(Debug)]
pub struct LargeFile(PathBuf);

impl LargeFile {
    /// Returns a new path for the file `name`, as [`scratch`] does.
    ///
    /// # Panics
    /// If two tests of a program use the same name.
    pub fn new(name: &str) -> Self {
        LargeFile(scratch(name))
    }

    /// The bytes of the file.
    ///
    /// # Panics
    /// If the file cannot be read.
    pub fn bytes(&self) -> Vec<u8> {
        std::fs::read(&self.0).unwrap_or_else(|error| panic!("{}: {error}", self.0.display()))
    }

    /// The text of the file.
    ///
    /// # Panics
    /// If the file cannot be read, or is no text.
    pub fn text(&self) -> String {
        String::from_utf8(self.bytes()).expect("the file is text")
    }
}

impl Deref for LargeFile {
    type Target = Path;

    fn deref(&self) -> &Path {
        &self.0
    }
}

impl Drop for LargeFile {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            // The program that writes the file may not have created it.
            let _ = std::fs::remove_file(&self.0);
        }
    }
}

/// Reports that a test cannot run here. Writes to standard error directly, because the test harness
/// hides the output of passing tests.
///
/// # Panics
/// If standard error is closed.
pub fn skipped(reason: impl Display) {
    let test = std::thread::current().name().unwrap_or_default().to_owned();
    writeln!(std::io::stderr(), "skipped: {test}: {reason}").expect("standard error is open");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_large_file_stays_only_if_its_test_fails() {
        let test = |fails: bool| {
            let file = LargeFile::new(&format!("large-file-{fails}"));
            std::fs::write(&*file, "text").unwrap();
            assert_eq!(file.text(), "text");
            assert!(!fails, "as this test wants");
        };
        let paths = [false, true].map(|fails| {
            let failed = std::panic::catch_unwind(|| test(fails)).is_err();
            assert_eq!(failed, fails);
            folder().join(format!("large-file-{fails}"))
        });
        assert_eq!(paths.each_ref().map(|path| path.exists()), [false, true]);
        std::fs::remove_file(&paths[1]).unwrap();
    }
}
