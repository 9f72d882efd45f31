//! Reads Parquet files of `hmtt convert` with old and new versions of DuckDB, pyarrow, polars and
//! fastparquet. The command `make test-readers` installs these versions.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::Field;

use super::samples::everything;
use super::{convert, converted, output, text};
use crate::{capture_file, hmtt, skipped};

/// The versions, one a line, with what they need: the list that `make test-readers` installs.
const VERSIONS: &str = include_str!("../../../../tools/readers.txt");

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/readers")
}

/// Writes a table of random accesses that is longer than what is compressed hard.
fn long_table() -> PathBuf {
    let mut csv = String::from("clock,direction,address\n");
    let (mut clock, mut state) = (0u64, 1u64);
    for _ in 0..140_000 {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        clock += 1 + (state >> 61);
        let direction = if state >> 40 & 3 == 0 { 'W' } else { 'R' };
        writeln!(csv, "{clock},{direction},{:x}", (state >> 36) << 6).unwrap();
    }
    let (input, table) = (output("readers", "csv"), output("readers-long", "parquet"));
    fs::write(&input, csv).unwrap();
    converted(&input, &table);
    table
}

/// All parts of a data set with every kind of row, which is made in an empty folder.
fn parts(capture: &Path, set: &Path) -> Vec<PathBuf> {
    fn files(folder: &Path, paths: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                files(&path, paths);
            } else if path.extension().is_some_and(|extension| extension == "parquet") {
                paths.push(path);
            }
        }
    }
    let added = hmtt(&["dataset", "add", text(set), text(capture)]);
    assert_eq!(added.status.code(), Some(3), "{}", String::from_utf8_lossy(&added.stderr));
    let mut parts = Vec::new();
    files(set, &mut parts);
    parts.sort();
    assert!(parts.len() >= 5, "{parts:?}");
    parts
}

/// The line that `read_table.py` prints, by the library that wrote the file.
fn expected(path: &Path) -> String {
    let file = SerializedFileReader::new(File::open(path).unwrap()).unwrap();
    let (mut rows, mut sums) = (0, [None, None]);
    for row in file.get_row_iter(None).unwrap() {
        rows += 1;
        for (name, field) in row.unwrap().get_column_iter() {
            let Some(sum) = ["clock", "address"].iter().position(|known| known == name) else {
                continue;
            };
            let value = match field {
                Field::Long(value) => i128::from(*value),
                Field::ULong(value) => i128::from(*value),
                _ => 0,
            };
            *sums[sum].get_or_insert(0) += value;
        }
    }
    let [clocks, addresses] =
        sums.map(|sum: Option<i128>| sum.map_or("-".to_owned(), |sum| sum.to_string()));
    format!("{rows} {clocks} {addresses}")
}

#[test]
fn old_and_new_readers_decode_tables_and_data_sets() {
    let python = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/tools/bin/python3");
    let (installed, missing): (Vec<&str>, Vec<&str>) = VERSIONS
        .lines()
        .filter(|line| !line.starts_with('#'))
        .filter_map(|line| line.split_whitespace().next())
        .partition(|version| folder().join(version).is_dir());
    if installed.is_empty() || !python.exists() {
        return skipped("no readers; run `make test-readers`");
    }
    if !missing.is_empty() {
        skipped(format!("not installed: {}", missing.join(", ")));
    }
    let capture = capture_file("convert-readers.pcapng", &everything());
    let table = output("readers", "parquet");
    assert_eq!(convert(&capture, &table).status.code(), Some(3), "a trace with gaps");
    let set = tempfile::tempdir().unwrap();
    let files = [long_table(), table].into_iter().chain(parts(&capture, set.path()));
    let files: Vec<PathBuf> = files.collect();
    let expected: Vec<String> = files.iter().map(|file| expected(file)).collect();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/suite/convert/read_table.py");
    for version in installed {
        let library = version.split("==").next().unwrap();
        let output = Command::new(&python)
            .arg("-S")
            .arg(&script)
            .arg(library)
            .args(&files)
            .env("PYTHONPATH", folder().join(version))
            .output()
            .unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{version}: {errors}");
        let printed = String::from_utf8(output.stdout).unwrap();
        assert_eq!(printed.lines().collect::<Vec<_>>(), expected, "{version}: {files:?}");
    }
}
