//! The snippets of `docs/python.md` run, and print what the page says.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use hmtt_test_support::card::Card;

use crate::{hmtt, skipped};

/// A block of code, the package that it needs (none: an empty text), and what it prints.
struct Snippet<'a> {
    package: &'a str,
    code: &'a str,
    output: &'a str,
}

/// The blocks of a page that are Python, each with the block of output after it.
fn snippets(page: &str) -> Vec<Snippet<'_>> {
    let mut rest = page;
    let mut examples = Vec::new();
    while let Some((_, block)) = rest.split_once("\n```python") {
        let (package, block) = block.split_once('\n').expect("a block has lines");
        let (code, after) = block.split_once("\n```\n").expect("a block ends");
        let after = after.strip_prefix("\n```output\n").expect("its output follows");
        let (output, after) = after.split_once("```\n").expect("the output ends");
        examples.push(Snippet { package: package.trim(), code, output });
        rest = after;
    }
    examples
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// The Python that has a package; `None` where no Python has it.
pub fn python(package: &str) -> Option<PathBuf> {
    // `make setup` installs packages there.
    let installed = root().join("target/tools/bin/python3");
    [installed, "python3".into()].into_iter().find(|python| {
        let import = if package.is_empty() { "pass".into() } else { format!("import {package}") };
        let output = Command::new(python).args(["-c", &import]).output();
        output.is_ok_and(|output| output.status.success())
    })
}

/// A folder with a capture in which a frame is missing, and the trace as tables.
fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let (mut frames, _) = Card::new().session(5, 100);
    frames.remove(3);
    let capture = folder.path().join("capture.pcapng");
    fs::copy(crate::capture_file("python-guide.pcapng", &frames), &capture).unwrap();
    for table in ["trace.parquet", "trace.jsonl"] {
        let (from, to) = (capture.to_str().unwrap(), folder.path().join(table));
        let output = hmtt(&["convert", "-f", from, to.to_str().unwrap()]);
        assert_eq!(output.status.code(), Some(3), "a frame is missing: {output:?}");
    }
    folder
}

#[test]
fn the_guides_snippets_print_what_it_says() {
    let page = fs::read_to_string(root().join("docs/python.md")).unwrap();
    let examples = snippets(&page);
    for package in ["", "polars", "pandas"] {
        assert!(
            examples.iter().any(|snippet| snippet.package == package),
            "no snippet for {package:?}"
        );
    }
    let folder = folder();
    for Snippet { package, code, output } in examples {
        let Some(python) = python(package) else {
            skipped(format_args!("a snippet of docs/python.md: no Python with {package:?}"));
            continue;
        };
        let ran = Command::new(python)
            .args(["-c", code])
            .env("PYTHONPATH", root().join("python"))
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .current_dir(folder.path())
            .output()
            .unwrap();
        let errors = String::from_utf8_lossy(&ran.stderr);
        assert!(ran.status.success(), "{code}\n{errors}");
        assert_eq!(String::from_utf8_lossy(&ran.stdout), output, "{code}");
    }
}
